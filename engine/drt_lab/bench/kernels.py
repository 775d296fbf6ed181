"""``drt bench kernels``: grouped cross-attention and window attention beside their alternatives.

Random tensors of one model's shapes; forward, backward, and both together, in turns.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch._functorch import config as functorch_config

from drt_engine.config.model import ModelConfig
from drt_engine.model.attention import alibi_slopes
from drt_engine.model.gca_layer import ChunkMemory, Retrieved, laid_out
from drt_kernels import explain_backend
from drt_kernels.decode import gca_decode
from drt_kernels.window import explain_window, window_attention
from drt_lab.bench.gca import (
    Case,
    Gca,
    GcaShape,
    backend,
    flex,
    naive,
    sdpa_equal_work,
    sdpa_gathered,
)
from drt_lab.bench.parts import GIGA, MATMUL, SHAPES, BenchOptions, Calibration, Machine
from drt_lab.bench.timing import Clock, Work, in_turns, reason
from drt_lab.evaluate.report import BenchReport, BenchRow, bench_row

_log = logging.getLogger("drt")
TOKENS = {"cpu": 2048, "cuda": 1 << 16}
LENGTH = 1 << 14  # of one stream, at most
FORWARD, BACKWARD, BOTH = "forward", "backward", "forward and backward"
_BACKWARD_WORK = 2.5  # of the forward's operations
_POOL = 64  # chunks that one token's are retrieved from


def bench_kernels(options: BenchOptions) -> BenchReport:
    """Time the kernels of one shape; what cannot run here is left out and said on stderr."""
    started = time.monotonic()
    machine, config = options.machine(), options.config
    tokens = options.tokens or TOKENS[machine.device.type]
    calibration = Calibration(machine)
    bench = _Bench(machine, calibration, options.repetitions)
    parts = {
        "gca": partial(bench.gca, gca_shape(config, tokens)),
        "gca decode": partial(bench.decode, gca_shape(config, _POOL * config.slots)),
        "window": partial(bench.window, config, tokens),
    }
    rows: list[BenchRow] = []
    # A compiled function frees what its backward pass has read, and would have only one.
    with functorch_config.patch(donated_buffer=False):
        for name, part in parts.items():
            try:
                rows.extend(part())  # rows before one that fails are kept
            except Exception as error:  # the other kernels can still be timed
                _log.warning("left out: more of %s (%s)", name, reason(error))
    return BenchReport(
        bench="kernels",
        rows=rows,
        seconds=time.monotonic() - started,
        model=SHAPES[options.shape],
        calibration=calibration.numbers(tokens=tokens),
    )


def gca_shape(config: ModelConfig, tokens: int) -> GcaShape:
    """Streams of at most 16k tokens; the landmarks ask, too."""
    chunks = max(1, min(tokens, LENGTH) // config.slots)
    return GcaShape(
        batch=max(1, tokens // (chunks * config.slots)),
        chunks=chunks,
        tokens=config.slots,
        memory=config.chunk,
        retrieved=config.retrieved,
        heads=config.heads,
        kv_heads=config.kv_heads,
        size=config.head_size,
    )


def chosen_backend(machine: Machine, size: int) -> str:
    """Return the implementation that models use here."""
    query = torch.empty(1, 1, 1, 1, size, dtype=machine.dtype, device=machine.device)
    return explain_backend(query=query).partition(":")[0]


class _Bench:
    """Works of one machine, in turns with the calibration."""

    def __init__(self, machine: Machine, calibration: Calibration, repetitions: int) -> None:
        self._machine, self._calibration = machine, calibration
        self._clock, self._repetitions = Clock(machine.device), repetitions

    def gca(self, shape: GcaShape) -> Iterator[BenchRow]:
        """Rows of GCA: each pass of each implementation, against the one that models use."""
        case = Case.random(shape, device=self._machine.device, dtype=self._machine.dtype)
        ours = chosen_backend(self._machine, shape.size)
        forms = self._forms(ours)
        limit, equal = sdpa_equal_work(case)
        calls: dict[str, tuple[list[Tensor], Callable[[], Tensor]]] = {
            name: (case.differentiable(), _caller(case, form)) for name, form in forms.items()
        }
        calls["sdpa, equal work"] = ([t.requires_grad_() for t in limit], equal)
        for kind, work in ((FORWARD, 1.0), (BACKWARD, _BACKWARD_WORK), (BOTH, 1 + _BACKWARD_WORK)):
            works = {
                f"gca {kind}, {name}": _pass(kind, inputs, call)
                for name, (inputs, call) in calls.items()
            }
            yield from self._rows(works, first=f"gca {kind}, {ours}", flops=work * shape.flops)

    def _forms(self, ours: str) -> dict[str, Gca]:
        gpu = self._machine.device.type == "cuda"
        names = [ours, *(["dense", "triton-atomics"] if gpu else []), "reference"]
        forms = {name: backend(name) for name in names}
        forms |= {
            "naive": naive,
            "sdpa on gathered chunks": partial(sdpa_gathered, full_chunks=True),
        }
        return forms | ({"flex attention": partial(flex, full_chunks=True)} if gpu else {})

    def decode(self, shape: GcaShape) -> Iterator[BenchRow]:
        """Rows of one token's GCA in one layer, over memory that was laid out at the border."""
        case = Case.random(shape, device=self._machine.device, dtype=self._machine.dtype)
        memory = ChunkMemory(case.keys, case.values, case.mask, case.probabilities[0, 0])
        index, share = case.index[:1, :1], case.probabilities[:1, :1]
        retrieval = Retrieved(memory, index, share.log(), share)
        ready = laid_out(retrieval, off_by_one=True)
        query = case.query[:1, :1, :1].contiguous()
        ours, general = "gca decode, laid out", chosen_backend(self._machine, shape.size)
        named = {"mask": case.mask, "index": index, "probabilities": share}

        def decode_work(form: Gca) -> Work:
            return _quiet(lambda: form(query, case.keys, case.values, **named))

        works: dict[str, Work] = {
            ours: _quiet(lambda: gca_decode(query[:, 0], ready)),
            f"gca decode, {general}": decode_work(backend(general)),
            "gca decode, naive": decode_work(naive),
        }
        yield from self._rows(works, first=ours, flops=shape.flops / _POOL / shape.tokens)

    def window(self, config: ModelConfig, tokens: int) -> Iterator[BenchRow]:
        """Rows of sliding-window attention with ALiBi, forward and backward."""
        device, dtype = self._machine.device, self._machine.dtype
        length = min(tokens, LENGTH)
        sizes = (config.heads, config.kv_heads, config.kv_heads)
        inputs = [
            torch.randn(max(1, tokens // length), length, heads, config.head_size)
            .to(device, dtype)
            .requires_grad_()
            for heads in sizes
        ]
        slopes = alibi_slopes(config.heads).to(device)
        ours = explain_window(inputs[0]).partition(":")[0]
        alternatives = [n for n in ("banded", "flex") if n != ours and device.type == "cuda"]
        if length <= 4096:  # the definition holds all scores in fp32
            alternatives.append("reference")

        def call(name: str) -> Callable[[], Tensor]:
            arguments = {"valid": None, "window": config.window, "slopes": slopes, "backend": name}
            return lambda: window_attention(*inputs, **arguments)  # type: ignore[arg-type]

        flops = 4.0 * tokens * config.heads * config.head_size * min(config.window, length)
        for kind, work in ((FORWARD, 1.0), (BACKWARD, _BACKWARD_WORK)):
            works = {
                f"window {kind}, {name}": _pass(kind, inputs, call(name))
                for name in (ours, *alternatives)
            }
            yield from self._rows(works, first=f"window {kind}, {ours}", flops=work * flops)

    def _rows(self, works: dict[str, Work], *, first: str, flops: float) -> Iterator[BenchRow]:
        """One row for each work, and the rate of the first one beside a matrix product.

        Where the first one cannot run here, the others are compared with nothing.
        """
        num_rates = len(self._calibration.matmul.rates)
        timed = in_turns(
            works | {MATMUL: self._calibration.time},
            self._clock,
            repetitions=self._repetitions,
            needed=[MATMUL],
        )
        first_seconds = timed.get(first)
        for name, seconds in timed.items():
            if name == MATMUL:
                continue
            against = (
                {}
                if name == first or first_seconds is None
                else {"against": first, "against_values": _ms(first_seconds)}
            )
            yield bench_row(name, _ms(seconds), unit="ms", **against)  # type: ignore[arg-type]
        if first_seconds is None:
            return
        yield bench_row(
            f"{first}, operations",
            [flops / s / GIGA for s in first_seconds],
            unit="GFLOP/s",
            against=MATMUL,
            against_values=[rate / GIGA for rate in self._calibration.matmul.rates[num_rates:]],
        )


def _ms(seconds: list[float]) -> list[float]:
    return [1000 * value for value in seconds]


def _caller(case: Case, form: Gca) -> Callable[[], Tensor]:
    return lambda: case.call(form)


def _quiet(call: Callable[[], Tensor]) -> Work:
    def work() -> None:
        with torch.inference_mode():
            call()

    return work


def _pass(kind: str, inputs: list[Tensor], call: Callable[[], Tensor]) -> Work:
    """Return the work of one pass; a backward pass alone reuses one forward pass."""
    if kind == FORWARD:

        def forward() -> None:
            with torch.no_grad():
                call()

        return forward
    cached: list[Tensor] = []

    def backward() -> None:
        if not cached:
            out = call()
            cached[:] = [out, torch.ones_like(out)]
        elif kind == BOTH:
            cached[0] = call()
        torch.autograd.grad(cached[0], inputs, cached[1], retain_graph=kind == BACKWARD)

    return backward
