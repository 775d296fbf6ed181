"""Measurements of a model that need not be trained: its shape, its speed, what a token costs.

They take the training configuration of a run and make the model anew, with random weights.
"""

from __future__ import annotations

import contextlib
import gc
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.model.protocol import LanguageModel
from drt_lab.config.load import build
from drt_lab.config.train import TrainConfig
from drt_lab.data.chunks import to_chunks
from drt_lab.evaluate.needle import length_name
from drt_lab.evaluate.passkeys.evaluation import resident_bytes
from drt_lab.evaluate.report import EvalReport, Metrics, median_iqr
from drt_lab.evaluate.run import plain_options
from drt_lab.lm.build import begin_stream, make_model
from drt_lab.lm.chunk_store import Place
from drt_lab.lm.losses import stream_loss
from drt_lab.study.compute import forward_flops
from drt_lab.train.optim import make_optimizer
from drt_lab.train.run import device, model_config, start, tokenizer_of

_PROMPT_AT_ONCE = 1 << 12


@dataclass(frozen=True)
class ShapeOptions:
    """A training step on one stream of each of the ``lengths``, in tokens."""

    lengths: tuple[int, ...] = (4096, 16384)


@dataclass(frozen=True)
class SpeedOptions:
    """``repetitions`` training steps on ``batch`` streams of each of the ``lengths``, in tokens."""

    lengths: tuple[int, ...] = (4096, 16384)
    batch: int = 1
    repetitions: int = 3


@dataclass(frozen=True)
class CostOptions:
    """``tokens`` written after prompts of each of the ``lengths``, in tokens.

    ``memory``: where a DRT keeps the memory of chunks: with the weights, in main memory, or in a
    file. It changes nothing for a model that has no such memory.
    """

    lengths: tuple[int, ...] = (1024, 4096)
    tokens: int = 64
    memory: Place = "device"


@dataclass(frozen=True)
class Measure:
    """A measurement: the class of its options, and what measures one length."""

    kind: type
    run: Callable[[TrainConfig, Any, int], Metrics]

    def options(self, given: Mapping[str, Any]) -> Any:
        """Return the options as the measurement takes them; ``ConfigError``."""
        options: Any = build(self.kind, plain_options(given), "options.")
        values = [value for value in vars(options).values() if isinstance(value, int)]
        if not options.lengths or min(options.lengths) < 2 or min(values, default=1) < 1:
            raise ConfigError(
                f"lengths are {list(options.lengths)}, expected at least 2 tokens each, and other "
                "options of 1 or more"
            )
        return options


def measure(task: str, config: TrainConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report of one measurement as JSON."""
    entry, started = MEASURES[task], time.monotonic()
    options = entry.options(given)
    torch.manual_seed(config.run.seed)
    torch.set_num_threads(config.run.threads)
    metrics = {length_name(n): entry.run(config, options, n) for n in options.lengths}
    return EvalReport(
        task=task,
        data="random tokens",
        n=len(metrics),
        metrics=metrics,
        seconds=time.monotonic() - started,
        model=model_config(config, tokenizer_of(config)).name,
    ).to_dict()


def _stream(model: LanguageModel, length: int, *, batch: int = 1) -> tuple[Tensor, Tensor]:
    """Return random token ids as chunks [B, C, S], and which of them exist."""
    config = model.config
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(
        min(4, config.vocab - 1), config.vocab, (batch, length), generator=generator
    )
    return to_chunks(ids, config.chunk, config.pad_id)


def _shape(config: TrainConfig, options: ShapeOptions, length: int) -> Metrics:  # noqa: ARG001
    """Count the parameters of a model without memory, and the FLOPs of a training step."""
    shape = model_config(config, tokenizer_of(config))
    with torch.device("meta"):
        model = make_model(shape)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "MFLOP a token": 3 * forward_flops(model, length) / length / 1e6,  # backward: twice forward
    }


def _speed(config: TrainConfig, options: SpeedOptions, length: int) -> Metrics:
    """Time whole training steps: forward, backward and update."""
    target = device(config.run)
    _forget_peak(target)
    model = _new_model(config, target)
    model.set_recompute(config.run.recompute)
    optimizer = make_optimizer(model, config.optim)
    chunks, valid = (t.to(target) for t in _stream(model, length, batch=options.batch))
    seconds, resident = [], 0
    for number in range(options.repetitions + 1):
        began = time.perf_counter()
        with torch.autocast(target.type, torch.bfloat16, enabled=config.run.bf16):
            generator = torch.Generator().manual_seed(number) if config.run.gumbel else None
            losses, _ = stream_loss(model, chunks, valid, generator=generator)
        losses.mean().backward()
        resident = max(resident, _memory(target))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        _wait(target)
        seconds.append(time.perf_counter() - began)
    median, spread = median_iqr(seconds[1:])  # the first also compiles and allocates
    tokens = options.batch * length
    return {
        "tokens a second": tokens / median,
        "seconds": median,
        "seconds iqr": spread,
        "memory MiB": resident / 2**20,
    }


def _cost(config: TrainConfig, options: CostOptions, length: int) -> Metrics:
    """Time the tokens after a prompt, each with its share of the chunk borders."""
    target = device(config.run)
    _forget_peak(target)
    model = _new_model(config, target).eval()
    ids = _stream(model, length)[0].flatten()[:length].tolist()
    with torch.inference_mode():
        state = begin_stream(model, place=options.memory)
        began = time.perf_counter()
        for at in range(0, length, _PROMPT_AT_ONCE):
            state.prefill(ids[at : at + _PROMPT_AT_ONCE])
        _wait(target)
        prompt = time.perf_counter() - began
        seconds = []
        rng = random.Random(length)
        for _ in range(options.tokens):
            began = time.perf_counter()
            state.step(rng.choice(ids))
            _wait(target)
            seconds.append(time.perf_counter() - began)
        metrics = {
            "ms a token": 1000 * sum(seconds) / len(seconds),
            "ms a token, median": 1000 * median_iqr(seconds)[0],
            "prompt seconds": prompt,
            "state MiB": state.state_bytes / 2**20,
            "memory MiB": _memory(target) / 2**20,
        }
    return metrics


def _new_model(config: TrainConfig, target: torch.device) -> LanguageModel:
    """Return a stage's model on a device, which draws random weights: a GPU does so in no time."""
    # A frozen encoder stays on the CPU, where it reads.
    drawn_there = config.model.get("retriever") != "fixed"
    with target if drawn_there else contextlib.nullcontext():
        return start(config)[0].to(target)


def _forget_peak(target: torch.device) -> None:
    """Count the most memory from now on, without that of the models before."""
    if target.type == "cuda":
        # The allocator has no statistics of a numbered device before CUDA has started.
        torch.cuda.init()
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(target)


def _memory(target: torch.device) -> int:
    """Return the bytes that the process holds now, or on a GPU the most that were allocated."""
    if target.type == "cuda":
        return torch.cuda.max_memory_allocated(target)
    return resident_bytes()


def _wait(target: torch.device) -> None:
    if target.type == "cuda":
        torch.cuda.synchronize(target)


MEASURES: dict[str, Measure] = {
    "shape": Measure(ShapeOptions, _shape),
    "speed": Measure(SpeedOptions, _speed),
    "cost": Measure(CostOptions, _cost),
}
