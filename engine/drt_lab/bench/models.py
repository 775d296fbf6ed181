"""``drt bench models``: the models of the paper beside each other, writing tokens and training.

Tables 3 and 4 of the paper (arXiv 2410.01651) in one shape. Every model has random weights and
reads made-up tokens: how fast one goes through does not depend on what it says. Each is timed in
turns with the base LM, which its row is a ratio to, and its rows are reported and kept at once: a
run that is interrupted, or is given too few minutes, goes on where it was, on the same hardware.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import torch

from drt_engine.config.model import EncoderConfig, ModelConfig, preset
from drt_engine.model.layers import cast_weights
from drt_engine.model.protocol import LanguageModel
from drt_engine.processor import processor
from drt_lab.bench.memory import peak_bytes
from drt_lab.bench.parts import BenchOptions, Calibration, Machine
from drt_lab.bench.sitting import Sitting
from drt_lab.bench.timing import Clock, in_turns
from drt_lab.evaluate.needle import length_name
from drt_lab.evaluate.report import BenchReport, BenchRow, bench_row
from drt_lab.lm.build import begin_stream, make_model
from drt_lab.lm.chunk_store import Place
from drt_lab.lm.losses import stream_loss

_log = logging.getLogger("drt")
BASE = "base LM"
SHORTEST = 1024  # tokens; each further prompt is four times as long
PROMPT = {"cpu": 1 << 12, "cuda": 1 << 16}  # tokens of the longest, where none is given
LANDMARK = "Landmark Attention"
_MOST_AT_ONCE = 1 << 12  # tokens of a prompt
_PAIRS_AT_ONCE = 1 << 24  # of tokens of a head: Landmark Attention has scores for all of them
_MEBI = 1 << 20
_SMALL: dict[str, Any] = {
    "vocab": 4096,
    "width": 128,
    "heads": 4,
    "kv_heads": 4,
    "mlp": 344,
    "lower_layers": 4,
    "upper_layers": 4,
    "window": 128,
    "state_tokens": 128,
    "encoder": EncoderConfig(layers=2, heads=4, mlp=344, positions=66),
}


@dataclass(frozen=True)
class Compared:
    """A row of the tables: changes to the shape, and where a DRT has the memory of its chunks.

    ``window``: times the window of the others.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    place: Place = "device"
    window: float = 1.0

    def config(self, shape: ModelConfig) -> ModelConfig:
        """Return the configuration of the model at a shape."""
        return replace(shape, window=int(self.window * shape.window), **self.changes)


MODELS: dict[str, Compared] = {
    BASE: Compared({"architecture": "base"}),
    "DRT x1": Compared(),
    "DRT x1, memory on the CPU": Compared(place="cpu"),
    "DRT x1, memory on disk": Compared(place="disk"),
    "DRT x2": Compared({"groups": 2}),
    # At random, since the time of a frozen encoder is that of another model.
    "RPT": Compared({"architecture": "rpt", "retriever": "random"}),
    "Block-Recurrent": Compared({"architecture": "block-recurrent"}),
    LANDMARK: Compared({"architecture": "landmark"}, window=1.5),
}


def bench_models(options: BenchOptions) -> BenchReport:
    """Time tokens after prompts of several lengths, and training steps on streams as long.

    What does not fit on this machine, or into ``options.minutes``, is left out and reported on
    stderr.
    """
    started = time.monotonic()
    machine = options.machine()
    shape = preset("paper-128m", **(_SMALL if options.shape == "small" else {}))
    calibration = Calibration(machine)
    longest = options.tokens or PROMPT[machine.device.type]
    lengths = [SHORTEST * 4**n for n in range(16) if SHORTEST * 4**n <= longest] or [longest]
    comparison = _Comparison(shape, machine, options)
    rows = [
        row
        for unit in _Unit
        for length in lengths
        for name in MODELS
        # In training nothing is offloaded.
        if unit is _Unit.TOKEN or MODELS[name].place == "device"
        for row in comparison.rows(unit, name, length)
    ]
    calibration.time()
    return BenchReport(
        bench="models",
        rows=rows,
        seconds=time.monotonic() - started,
        model=f"{shape.name}, width {shape.width}",
        calibration=calibration.numbers(),
    )


class _Unit(Enum):
    """What is measured of a model at a length: writing after a prompt, or training."""

    TOKEN = "token"
    TRAINING = "training"


class _Timing(Protocol):
    """Work that is timed, with what is counted once."""

    def __call__(self) -> None: ...
    def rows(self, seconds: list[float]) -> dict[tuple[str, str], list[float]]:
        """Return values by what they are of and their unit."""
        ...


class _Comparison:
    """Measures one model after the other, each in turns with the base LM."""

    def __init__(self, shape: ModelConfig, machine: Machine, options: BenchOptions) -> None:
        self._shape, self._machine, self._most = shape, machine, options.repetitions
        setting = {
            "shape": f"{shape.name}, width {shape.width}",
            "device": machine.device.type,
            "hardware": hardware(machine.device),
            "dtype": str(machine.dtype),
            "threads": torch.get_num_threads(),
        }
        self._sitting = Sitting(options.results, setting, minutes=options.minutes)
        self._clock = Clock(machine.device)
        self._base: tuple[_Unit, int, _Timing] | None = None
        # Of the last length: its tokens, seconds to make what is timed, and to time it.
        self._seconds: dict[tuple[_Unit, str], tuple[int, float, float]] = {}

    def rows(self, unit: _Unit, name: str, length: int) -> list[BenchRow]:
        """Return a model's rows at a length, measured earlier or now; none for lack of time."""
        key = f"{unit.value} {length} {name}"
        rows = self._sitting.measured(key)
        if rows is not None:
            return rows
        expected, left = self._expected(unit, name, length), self._sitting.seconds_left
        if left <= 0 or expected > left:
            reason = "the minutes are over"
            if left > 0:
                reason = f"it takes about {expected / 60:.1f} minutes, {left / 60:.1f} are left"
            _log.warning("left out: %s at %s (%s)", name, length_name(length), reason)
            return []
        rows = self._measure(unit, name, length)
        if rows:
            self._sitting.add(key, rows)
        return rows

    def _expected(self, unit: _Unit, name: str, length: int) -> float:
        """Return the seconds that a model takes with one repetition, by those of the last length.

        A prompt takes longer with its length, a token after it hardly. A model's first length is
        expected to take as long as the longest measurement so far: on a GPU kernels are compiled.
        """
        if (unit, name) not in self._seconds:
            return max((making + timing for _, making, timing in self._seconds.values()), default=0)
        before, making, timing = self._seconds[unit, name]
        growth = length / before
        if unit is _Unit.TRAINING:
            return (making + timing) * growth
        return making * growth ** (2 if name == LANDMARK else 1) + timing

    def _measure(self, unit: _Unit, name: str, length: int) -> list[BenchRow]:
        began = time.monotonic()
        base = self._base_timing(unit, length)
        try:
            timings = {BASE: base, name: base if name == BASE else self._timing(unit, name, length)}
            made = time.monotonic()
            once = sum(self._clock.seconds(timing) for timing in timings.values())
        except (RuntimeError, MemoryError) as error:
            if name == BASE:
                raise
            _log.warning("left out: %s at %s (%s)", name, length_name(length), error)
            return []
        # Thrice more: twice before it is timed, and a repetition.
        self._seconds[unit, name] = length, made - began, 4 * once
        # A tenth of the time that is left, so that later rows have theirs.
        share = min(1e9, max(0.0, self._sitting.seconds_left / 10))
        repetitions = min(self._most, max(1, int(share / max(once, 1e-6))))
        seconds = in_turns(timings, self._clock, repetitions=repetitions, needed=[BASE])
        if name not in seconds:  # reported by what times
            return []
        numbers = timings[name].rows(seconds[name])
        base_numbers = base.rows(seconds[BASE])
        return [
            _row(
                name, f"{what} {length_name(length)}", values, base_numbers[what, measure], measure
            )
            for (what, measure), values in numbers.items()
        ]

    def _base_timing(self, unit: _Unit, length: int) -> _Timing:
        """Return the base LM's work of a unit and a length, made once for all models."""
        if self._base is None or self._base[:2] != (unit, length):
            self._base = unit, length, self._timing(unit, BASE, length)
        return self._base[2]

    def _timing(self, unit: _Unit, name: str, length: int) -> _Timing:
        compared = MODELS[name]
        model = _model(compared.config(self._shape), self._machine)
        if unit is _Unit.TOKEN:
            return _Writing(model, self._machine, length, place=compared.place)
        return _Step(model, self._machine, length)


class _Writing:
    """A chunk of tokens after a prompt, with the border of a chunk."""

    def __init__(self, model: LanguageModel, machine: Machine, length: int, *, place: Place):
        cast_weights(model.eval(), machine.dtype)
        ids = _ids(model.config, length)
        self._state = begin_stream(model, dtype=machine.dtype, place=place)
        at_once = max(model.config.chunk, min(_MOST_AT_ONCE, _PAIRS_AT_ONCE // length))
        with torch.inference_mode():
            for at in range(0, length, at_once):
                self._state.prefill(ids[at : at + at_once])
            # The first token lays out what was retrieved; what a prompt needs at once is freed.
            self._state.step(ids[0])
        self._size = self._state.state_bytes / _MEBI
        self._ids = ids[: model.config.chunk]

    def __call__(self) -> None:
        with torch.inference_mode():
            for token in self._ids:
                self._state.step(token)

    def rows(self, seconds: list[float]) -> dict[tuple[str, str], list[float]]:
        """Return the time of a token, and what is kept for the next one after the first."""
        return {
            ("a token after", "ms"): [1000 * s / len(self._ids) for s in seconds],
            ("kept after", "MiB"): [self._size],
        }


class _Step:
    """A training step of one model: forward, backward and update."""

    def __init__(self, model: LanguageModel, machine: Machine, length: int) -> None:
        config = model.config
        # Landmark Attention attends to all of a row: it is trained on rows of its window.
        row = min(length, config.window) if config.architecture == "landmark" else length
        chunks, rows = row // config.chunk, length // row
        ids = torch.tensor(_ids(config, rows * chunks * config.chunk), device=machine.device)
        self._model, self._device = model, machine.device
        self._ids = ids.view(rows, chunks, config.chunk)
        self._low = machine.dtype == torch.bfloat16
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def __call__(self) -> None:
        valid = torch.ones_like(self._ids, dtype=torch.bool)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._low):
            losses, _ = stream_loss(self._model, self._ids, valid)
        losses.mean().backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def rows(self, seconds: list[float]) -> dict[tuple[str, str], list[float]]:
        """Return the tokens of a second, and the memory that a step needs at its peak."""
        return {
            ("training on", "tokens/s"): [self._ids.numel() / s for s in seconds],
            ("memory of training on", "MiB"): [peak_bytes(self, self._device) / _MEBI],
        }


def hardware(device: torch.device, processors: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of a GPU, or that of the processor and its widest instructions."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    name, _ = processor(processors)
    # Virtual machines name a family of processors only.
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"


def _model(config: ModelConfig, machine: Machine) -> LanguageModel:
    torch.manual_seed(0)
    with machine.device:  # a GPU draws random weights in no time
        return make_model(config)


def _ids(config: ModelConfig, length: int) -> list[int]:
    generator = torch.Generator().manual_seed(length)
    ids: list[int] = torch.randint(4, config.vocab, (length,), generator=generator).tolist()
    return ids


def _row(
    name: str, what: str, values: list[float], base_values: list[float], unit: str
) -> BenchRow:
    """Return a row of a model; its ratio is to the base LM, as it was timed in the same turns."""
    if name == BASE:
        return bench_row(f"{name}, {what}", values, unit=unit)
    return bench_row(
        f"{name}, {what}", values, unit=unit, against=f"{BASE}, {what}", against_values=base_values
    )
