"""``drt bench train``: one training step with retrieval, beside the same model without it.

A step is forward, backward and AdamW on streams of made-up tokens, in bf16 where the machine is
fast at it. Two models without: one that still encodes its chunks, and one that has no encoder.
Steps that compute a part twice instead of keeping it have rows for their time and their memory.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.model.drt import DRT
from drt_engine.model.protocol import Recompute
from drt_lab.bench.gca import Gca, backend, naive
from drt_lab.bench.ingest import read_flops
from drt_lab.bench.memory import peak_bytes
from drt_lab.bench.parts import GIGA, MATMUL, SHAPES, BenchOptions, Calibration, Machine
from drt_lab.bench.timing import Clock, Work, in_turns
from drt_lab.evaluate.report import BenchReport, BenchRow, bench_row
from drt_lab.lm.losses import next_token_targets, stream_loss, token_losses

TOKENS = {"cpu": 1024, "cuda": 1 << 15}
LENGTH = 1 << 14  # tokens of one stream, at most
WITHOUT, BARE = "without GCA", "without GCA and encoder"
ATTENTION_TWICE, LAYERS_TWICE = "window attention computed twice", "layers computed twice"
_PIECES = 8  # that the losses of the row for losses in pieces are made in
_MEBI = 1 << 20
_TRAINING = 3  # times the forward's operations: each product has two more in the backward pass


def bench_train(options: BenchOptions) -> BenchReport:
    """Time training steps of one shape in turns; what cannot run here is said on stderr."""
    started = time.monotonic()
    machine, config = options.machine(), options.config
    tokens = options.tokens or TOKENS[machine.device.type]
    calibration, clock = Calibration(machine), Clock(machine.device)
    trained = {g: TrainedModel(config, machine, groups=g, tokens=tokens) for g in (1, 2)}
    works = _works(trained, options)
    ours = _named(1)
    timed = in_turns(
        works | {MATMUL: calibration.time},
        clock,
        repetitions=options.repetitions,
        needed=[ours, WITHOUT, BARE],
    )
    del timed[MATMUL]
    return BenchReport(
        bench="train",
        rows=[
            *_rows(timed, trained[1]),
            *_memory(trained[1]),
            *_share(timed[ours], trained[1], calibration),
        ],
        seconds=time.monotonic() - started,
        model=SHAPES[options.shape],
        calibration=calibration.numbers(
            tokens=trained[1].tokens, flops_per_token=train_flops(config)
        ),
    )


def _named(groups: int, form: str = "") -> str:
    return f"DRT, {groups} group{'s' * (groups > 1)}" + (f", {form}" if form else "")


def _works(trained: dict[int, TrainedModel], options: BenchOptions) -> dict[str, Work]:
    works: dict[str, Work] = {
        _named(groups): trained_model.step for groups, trained_model in trained.items()
    }
    first = trained[1]
    works |= {
        _named(1, "naive GCA"): lambda: first.step(form=naive),
        _named(1, "reference GCA"): lambda: first.step(form=backend("reference")),
        _named(1, ATTENTION_TWICE): lambda: first.step(recompute="attention"),
        _named(1, LAYERS_TWICE): lambda: first.step(recompute="layers"),
        WITHOUT: lambda: first.step(retrieval=False),
        BARE: first.bare_step,
    }
    if options.compile:
        works[_named(1, "compiled")] = first.compiled_step()
    return works


def train_flops(config: ModelConfig) -> float:
    """Return the floating-point operations of one token's training step with retrieval.

    Matrix products of all parts, three times those of the forward pass, and the windows as if they
    were full; the landmark of a chunk is spread over its tokens.
    """
    width, heads = config.width, config.heads * config.head_size
    kv = config.kv_heads * config.head_size
    layer = width * (heads + 2 * kv) + heads * width + 3 * width * config.mlp
    layer += 2 * heads * config.window
    gca = 2 * width * heads + 2 * heads * config.retrieved * config.chunk
    upper = 2.0 * config.upper_layers * (layer + gca) * config.slots / config.chunk
    logits = 2.0 * config.vocab * width
    return _TRAINING * (read_flops(config) + upper + logits)


class TrainedModel:
    """A model, its optimiser and one batch of streams."""

    def __init__(self, config: ModelConfig, machine: Machine, *, groups: int, tokens: int) -> None:
        generator = torch.Generator().manual_seed(0)
        chunks = max(2, min(tokens, LENGTH) // config.chunk)
        batch = max(1, tokens // (chunks * config.chunk))
        size = (batch, chunks, config.chunk)
        torch.manual_seed(0)
        self._model = DRT(replace(config, groups=groups)).to(machine.device)
        self._ids = torch.randint(config.vocab, size, generator=generator).to(machine.device)
        self._valid = torch.ones_like(self._ids, dtype=torch.bool)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-5, fused=True)
        self._machine = machine
        self.config, self.tokens = config, self._ids.numel()

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._machine.device

    def step(
        self,
        *,
        retrieval: bool = True,
        form: Gca | None = None,
        recompute: Recompute = "nothing",
    ) -> None:
        """Take a step; ``form`` replaces the implementation of GCA."""
        self._model.set_recompute(recompute)
        with self._computing(form):
            losses, _ = stream_loss(self._model, self._ids, self._valid, retrieval=retrieval)
        self._learn(losses)
        self._model.set_recompute("nothing")

    def losses(self, pieces: int) -> None:
        """Compute the losses of all tokens in so many pieces, and their gradients."""
        config, targets = self.config, self._ids.flatten()
        states = targets.new_zeros(len(targets), config.width, dtype=self._machine.dtype)
        most = len(targets) * config.vocab // pieces
        with self._computing(None):
            token_losses(states, self._model.embedding.weight, targets, most=most).mean().backward()
        self._model.zero_grad(set_to_none=True)

    def bare_step(self) -> None:
        """Take a step with the lower and upper stacks alone."""
        model = self._model
        with self._computing(None):
            states, mask = model.chunk_states(self._ids, self._valid)
            flat = model.upper_states(states.flatten(1, 2), mask.flatten(1), lambda *_: ())
            targets, target_mask = next_token_targets(self._ids, self._valid)
            logits = model.logits(flat.view_as(states)[target_mask]).float()
            losses = F.cross_entropy(logits, targets[target_mask], reduction="none")
        self._learn(losses)

    def compiled_step(self) -> Work:
        """Return the same step with a compiled model; its first call takes minutes."""
        compiled: Callable[..., tuple[Tensor, Tensor]] = torch.compile(stream_loss)

        def step() -> None:
            with self._computing(None):
                losses, _ = compiled(self._model, self._ids, self._valid)
            self._learn(losses)

        return step

    def _learn(self, losses: Tensor) -> None:
        losses.mean().backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    @contextlib.contextmanager
    def _computing(self, form: Gca | None) -> Iterator[None]:
        low = self._machine.dtype == torch.bfloat16
        layers: list[Any] = [layer.gca for layer in self._model.upper]
        before = [layer.compute for layer in layers]
        try:
            for layer in layers if form is not None else ():
                layer.compute = form
            with torch.autocast(self._machine.device.type, torch.bfloat16, enabled=low):
                yield
        finally:
            for layer, compute in zip(layers, before, strict=True):
                layer.compute = compute


def _rows(timed: dict[str, list[float]], trained: TrainedModel) -> Iterator[BenchRow]:
    """Milliseconds of a step; a ratio to what has no GCA is how much longer a step takes."""
    milliseconds = {name: [1000 * s for s in seconds] for name, seconds in timed.items()}
    for name, values in milliseconds.items():
        if name == BARE:
            yield bench_row(name, values, unit="ms")
        elif name == WITHOUT:
            yield bench_row(
                name, values, unit="ms", against=BARE, against_values=milliseconds[BARE]
            )
        else:
            yield bench_row(
                name, values, unit="ms", against=WITHOUT, against_values=milliseconds[WITHOUT]
            )
    for groups in (1, 2):
        name = _named(groups)
        rates, bare = ([trained.tokens / s for s in timed[n]] for n in (name, BARE))
        yield bench_row(f"{name}, rate", rates, unit="tokens/s", against=BARE, against_values=bare)


def _memory(trained: TrainedModel) -> Iterator[BenchRow]:
    """Yield the most memory that a step needs, and the losses alone, in one go and in pieces."""
    steps: dict[str, Recompute] = {
        _named(1): "nothing",
        _named(1, ATTENTION_TWICE): "attention",
        _named(1, LAYERS_TWICE): "layers",
    }
    works = {name: partial(trained.step, recompute=how) for name, how in steps.items()}
    device = trained.device
    yield from _compared({name: peak_bytes(work, device) for name, work in works.items()})
    in_one_go, in_pieces = partial(trained.losses, 1), partial(trained.losses, _PIECES)
    pieces_name = f"losses in {_PIECES} pieces"
    yield from _compared(
        {
            "losses in one go": peak_bytes(in_one_go, device),
            pieces_name: peak_bytes(in_pieces, device),
        }
    )


def _compared(peaks: dict[str, int]) -> Iterator[BenchRow]:
    """Yield rows of peak memory; the ratios are to the first."""
    sizes = {f"{name}, memory": [peak / _MEBI] for name, peak in peaks.items()}
    first = next(iter(sizes))
    for name, size in sizes.items():
        if name == first:
            yield bench_row(name, size, unit="MiB")
        else:
            yield bench_row(name, size, unit="MiB", against=first, against_values=sizes[first])


def _share(
    seconds: list[float], trained: TrainedModel, calibration: Calibration
) -> Iterator[BenchRow]:
    work = train_flops(trained.config) * trained.tokens
    yield bench_row(
        f"{_named(1)}, operations",
        [work / s / GIGA for s in seconds],
        unit="GFLOP/s",
        against=MATMUL,
        against_values=[rate / GIGA for rate in calibration.matmul.rates],
    )
