"""``drt bench models``: the models of the paper beside each other, writing tokens and training.

Tables 3 and 4 of the paper (arXiv 2410.01651) in one shape. Every model has random weights and
reads made-up tokens: how fast one goes through does not depend on what it says. All are timed in
turns, and every row is a ratio to the base LM of the same row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from drt_engine.bench.memory import peak_bytes
from drt_engine.bench.parts import BenchOptions, Calibration, Machine
from drt_engine.bench.timing import Clock, Work, in_turns
from drt_engine.config.model import EncoderConfig, ModelConfig, preset
from drt_engine.evaluate.needle import length_name
from drt_engine.evaluate.report import BenchReport, BenchRow, bench_row
from drt_engine.lm.build import begin_stream, make_model
from drt_engine.lm.chunk_store import Place
from drt_engine.model.layers import cast_weights
from drt_engine.model.protocol import DecodingState, LanguageModel

BASE = "base LM"
SHORTEST = 1024  # tokens; each further prompt is four times as long
PROMPT = {"cpu": 1 << 12, "cuda": 1 << 16}  # tokens of the longest, where none is given
_AT_ONCE = 1 << 12
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
    "Landmark Attention": Compared({"architecture": "landmark"}, window=1.5),
}


def bench_models(options: BenchOptions) -> BenchReport:
    """Time tokens after prompts of several lengths, and training steps on streams as long.

    What does not fit on this machine is left out and reported on stderr.
    """
    started = time.monotonic()
    machine = options.machine()
    shape = preset("paper-128m", **(_SMALL if options.shape == "small" else {}))
    calibration, clock = Calibration(machine), Clock(machine.device)
    longest = options.tokens or PROMPT[machine.device.type]
    lengths = [SHORTEST * 4**n for n in range(16) if SHORTEST * 4**n <= longest] or [longest]
    rows: list[BenchRow] = []
    for length in lengths:
        rows += _tokens(shape, machine, clock, length=length, repetitions=options.repetitions)
    for length in lengths:
        rows += _training(shape, machine, clock, length=length, repetitions=options.repetitions)
    calibration.time()
    return BenchReport(
        bench="models",
        rows=rows,
        seconds=time.monotonic() - started,
        model=f"{shape.name}, width {shape.width}",
        calibration=calibration.numbers(),
    )


def _tokens(
    shape: ModelConfig, machine: Machine, clock: Clock, *, length: int, repetitions: int
) -> Iterator[BenchRow]:
    """Time a chunk of tokens after a prompt, with the border of a chunk, and count what is kept."""
    ids = _ids(shape, length)
    with torch.inference_mode():
        states: dict[str, DecodingState] = {}
        for name, compared in MODELS.items():
            model = _model(compared.config(shape), machine).eval()
            cast_weights(model, machine.dtype)
            states[name] = begin_stream(model, dtype=machine.dtype, place=compared.place)
            for at in range(0, length, _AT_ONCE):
                states[name].prefill(ids[at : at + _AT_ONCE])
        sizes = {name: [state.state_bytes / _MEBI] for name, state in states.items()}
        works: dict[str, Work] = {
            name: partial(_write, state, ids[: shape.chunk]) for name, state in states.items()
        }
        timed = in_turns(works, clock, repetitions=repetitions, needed=[BASE])
    after = f"after {length_name(length)}"
    milliseconds = {n: [1000 * s / shape.chunk for s in seconds] for n, seconds in timed.items()}
    yield from _compared(milliseconds, f"a token {after}", unit="ms")
    yield from _compared(sizes, f"kept {after}", unit="MiB")


def _write(state: DecodingState, ids: list[int]) -> None:
    for token in ids:
        state.step(token)


def _training(
    shape: ModelConfig, machine: Machine, clock: Clock, *, length: int, repetitions: int
) -> Iterator[BenchRow]:
    """Time training steps on one stream, and count the memory that they need at their peak."""
    works: dict[str, Work] = {}
    for name, compared in MODELS.items():
        if compared.place == "device":  # in training nothing is offloaded
            works[name] = _Step(_model(compared.config(shape), machine), machine, length)
    timed = in_turns(works, clock, repetitions=repetitions, needed=[BASE])
    rates = {name: [length / s for s in seconds] for name, seconds in timed.items()}
    yield from _compared(rates, f"training on {length_name(length)}", unit="tokens/s")
    peaks = {name: [peak_bytes(works[name]) / _MEBI] for name in rates}
    yield from _compared(peaks, f"training on {length_name(length)}, memory", unit="MiB")


class _Step:
    """A training step of one model: forward, backward and update."""

    def __init__(self, model: LanguageModel, machine: Machine, length: int) -> None:
        chunk = model.config.chunk
        ids = torch.tensor(_ids(model.config, length // chunk * chunk), device=machine.device)
        self._model, self._device = model, machine.device
        self._ids = ids.view(1, -1, chunk)
        self._low = machine.dtype == torch.bfloat16
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def __call__(self) -> None:
        valid = torch.ones_like(self._ids, dtype=torch.bool)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._low):
            losses, _ = self._model.stream_loss(self._ids, valid)
        losses.mean().backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)


def _model(config: ModelConfig, machine: Machine) -> LanguageModel:
    torch.manual_seed(0)
    return make_model(config).to(machine.device)


def _ids(config: ModelConfig, length: int) -> list[int]:
    generator = torch.Generator().manual_seed(length)
    ids: list[int] = torch.randint(4, config.vocab, (length,), generator=generator).tolist()
    return ids


def _compared(values: Mapping[str, list[float]], what: str, *, unit: str) -> Iterator[BenchRow]:
    """Yield a row for each model; ratios are to the base LM."""
    for name, numbers in values.items():
        if name == BASE:
            yield bench_row(f"{name}, {what}", numbers, unit=unit)
        else:
            base = f"{BASE}, {what}"
            yield bench_row(
                f"{name}, {what}", numbers, unit=unit, against=base, against_values=values[BASE]
            )
