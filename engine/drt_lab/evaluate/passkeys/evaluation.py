"""Passkeys by length: exact answers, and what reading took.

A DRT that retrieves by landmarks reads with its memory on disk (``long_context``), any other model
through its own state; of a base LM only the tokens that its answer depends on. The contexts of one
length differ in their statements and share their filler, so that a DRT reads all of it once.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_lab.data.passkeys import PasskeyContext, PasskeyLayout
from drt_lab.evaluate.library import mean, progress
from drt_lab.evaluate.needle import length_name
from drt_lab.evaluate.passkeys.long_context import LongContext
from drt_lab.evaluate.report import EvalReport, Metrics
from drt_lab.lm.build import begin_stream
from drt_lab.lm.disk_memory import DiskMemory
from drt_lab.lm.runtime import LanguageRuntime

_TOKENS_AT_ONCE = 1 << 12


@dataclass(frozen=True)
class PasskeyEvaluation:
    """``cases`` contexts of each of the ``lengths``, in tokens, at depths from start to end.

    ``answer``, ``hops`` and ``noise`` are those of ``PasskeyLayout``; ``folder`` is where chunk
    memory is kept while reading, a temporary folder of the system where none is named.
    """

    lengths: tuple[int, ...] = (4096, 16384, 65536)
    cases: int = 10
    answer: int = 3
    hops: int = 1
    noise: int = 0
    seed: int = 0
    folder: Path | None = None

    def __post_init__(self) -> None:
        if not self.lengths or min(self.lengths) < 1 or self.cases < 1:
            raise ConfigError(
                f"lengths are {list(self.lengths)} and cases {self.cases}, expected 1 or more"
            )
        if self.folder is not None and not self.folder.is_dir():
            raise ConfigError(f"{self.folder} is not a folder, expected one for chunk memory")


def evaluate_passkey(runtime: LanguageRuntime, options: PasskeyEvaluation) -> EvalReport:
    """Hide passkeys at every length and ask for them."""
    started = time.monotonic()
    config = runtime.config
    layout = PasskeyLayout(config.vocab, config.chunk, options.answer, options.hops, options.noise)
    metrics: dict[str, Metrics] = {}
    for length in options.lengths:
        contexts = _contexts(layout, length // config.chunk, options)
        metrics[length_name(length)] = _measure(runtime, contexts, options)
    return EvalReport(
        task="passkey",
        data=_described(options),
        n=options.cases * len(options.lengths),
        metrics=metrics,
        seconds=time.monotonic() - started,
        model=runtime.name,
    )


def expect_possible(options: PasskeyEvaluation, config: ModelConfig) -> None:
    """Raise ``ConfigError`` for passkeys that do not fit a model's chunks or the lengths."""
    layout = PasskeyLayout(config.vocab, config.chunk, options.answer, options.hops, options.noise)
    for length in options.lengths:
        _contexts(layout, length // config.chunk, options)


def _described(options: PasskeyEvaluation) -> str:
    noise = f", {options.noise} noise" if options.noise else ""
    return f"{'one hop' if options.hops == 1 else 'two hops'}{noise}, seed {options.seed}"


def _contexts(
    layout: PasskeyLayout, chunks: int, options: PasskeyEvaluation
) -> list[PasskeyContext]:
    """Return the contexts of one length, the passkey from the start to the end."""
    steps = max(1, options.cases - 1)
    return [
        PasskeyContext(
            layout,
            chunks,
            seed=options.seed * 1_000_003 + chunks * 1009 + case,
            filler=options.seed,
            depth=case / steps,
        )
        for case in range(options.cases)
    ]


def _measure(
    runtime: LanguageRuntime, contexts: list[PasskeyContext], options: PasskeyEvaluation
) -> Metrics:
    """Return the shares of exact answers and of right tokens, and what it took."""
    started = time.monotonic()
    exact, tokens, resident = [], [], 0
    with runtime.computing(), _reader(runtime, contexts[0], options.folder) as predict:
        for context in progress(contexts, length_name(contexts[0].chunks * runtime.config.chunk)):
            right = predict(context) == torch.tensor(context.answer)
            exact.append(float(right.all()))
            tokens.append(float(right.float().mean()))
            resident = max(resident, resident_bytes())
    return {
        "exact": mean(exact),
        "tokens right": mean(tokens),
        "n": len(exact),
        "seconds": time.monotonic() - started,
        "resident MiB": resident / 2**20,
    }


class _StreamReader:
    """Predicts the answers of contexts that a model reads through its own state."""

    def __init__(self, runtime: LanguageRuntime) -> None:
        self._runtime = runtime

    def __call__(self, context: PasskeyContext) -> Tensor:
        model = self._runtime.model
        state = begin_stream(model, dtype=self._runtime.dtype)
        size = max(1, _TOKENS_AT_ONCE // context.layout.chunk)
        last = context.chunks - 1
        for start in range(self._first(last), last, size):
            state.prefill(context.tokens(start, min(start + size, last)).flatten().tolist())
        state.close()
        # The key marker and the answer but its last symbol: where all that follow are predicted,
        # greedy decoding writes the same.
        answer = context.tokens(last, context.chunks)[0, : context.layout.answer]
        return model.logits(state.prefill(answer.tolist())).argmax(dim=-1).cpu()

    def _first(self, last: int) -> int:
        """Return the first chunk that the states of chunk ``last`` depend on."""
        config = self._runtime.config
        if config.architecture != "base":
            return 0
        # Each layer looks back over its window, and positions are distances (ALiBi).
        return max(0, last - -(-config.layers * (config.window - 1) // config.chunk))


class _LongReader:
    """Predicts the answers of contexts that share their filler."""

    def __init__(self, context: LongContext) -> None:
        self._context = context

    def __call__(self, context: PasskeyContext) -> Tensor:
        self._context.read(context)
        return self._context.logits(context.layout.answer).argmax(dim=-1).cpu()


@contextmanager
def _reader(
    runtime: LanguageRuntime, context: PasskeyContext, folder: Path | None
) -> Iterator[_StreamReader | _LongReader]:
    """Open what predicts the answers of contexts like ``context``."""
    model, config = runtime.model, runtime.config
    if not isinstance(model, DRT) or config.retriever != "landmark":
        yield _StreamReader(runtime)
        return
    numbers = 2 * config.chunk * config.kv_heads * config.head_size + config.width
    with tempfile.TemporaryDirectory(prefix="drt-passkey-", dir=folder) as place:
        _expect_room(Path(place), 4 * numbers * context.chunks)
        memory = DiskMemory(Path(place), config)
        try:
            yield _LongReader(LongContext(model, memory))
        finally:
            memory.close()


def _expect_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ConfigError(
            f"{folder.parent} has {free / 2**30:.1f} GiB free, and the chunk memory of this length "
            f"takes {needed / 2**30:.1f} GiB; name another folder, or shorter lengths"
        )


def resident_bytes() -> int:
    """Return the memory of this process that is resident, or where unknown, the most there was.

    0 on Windows, which has neither.
    """
    if sys.platform == "win32":
        return 0
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
