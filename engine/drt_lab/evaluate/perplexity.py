"""``drt eval ppl``: perplexity of a model over a corpus, and of a DRT that chooses nothing.

Its baselines read no chunk memory, or that of random chunks in place of those it chooses.

Each document is cut into streams of ``length`` tokens that start with an empty window and nothing
to retrieve. Landmarks are not counted. Groups are ``all`` and the quarters of a stream, since
retrieval can only help once there is something behind.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.model.chunking import to_chunks
from drt_engine.model.drt import DRT
from drt_lab.data.schema import read_corpus
from drt_lab.evaluate.library import ALL, progress
from drt_lab.evaluate.positions import perplexity_by_length
from drt_lab.evaluate.report import EvalReport, Groups
from drt_lab.lm.chunk_store import Place
from drt_lab.lm.runtime import LanguageRuntime

QUARTERS = 4

Baseline = Literal["no retrieval", "random chunks"]
BASELINES: tuple[Baseline, ...] = ("no retrieval", "random chunks")


@dataclass(frozen=True)
class PerplexityOptions:
    """Streams of ``length`` tokens of each document; ``limit`` tokens over all documents.

    With ``lengths``, streams of each of them over the joined documents instead, read in segments
    (``positions.py``); ``memory`` is where a DRT then keeps the memory of chunks.
    """

    corpus: Path
    length: int = 16384
    limit: int | None = None
    lengths: tuple[int, ...] = ()
    memory: Place = "device"

    def __post_init__(self) -> None:
        if self.length < 2:
            raise ConfigError(f"length is {self.length} tokens, expected at least 2")
        if self.limit is not None and self.limit < 2:
            raise ConfigError(f"limit is {self.limit} tokens, expected at least 2")
        if self.lengths and min(self.lengths) < 2:
            raise ConfigError(f"lengths are {list(self.lengths)}, expected at least 2 tokens each")


def evaluate_perplexity(runtime: LanguageRuntime, options: PerplexityOptions) -> EvalReport:
    """Read the corpus, with a DRT also without retrieval and with random chunks.

    Raises ``ConfigError`` for a corpus without text.
    """
    started = time.monotonic()
    if options.lengths:
        metrics = perplexity_by_length(
            runtime, options.corpus, options.lengths, limit=options.limit, memory=options.memory
        )
        return EvalReport(
            task="ppl",
            data=options.corpus.name,
            n=len(metrics),
            metrics=metrics,
            seconds=time.monotonic() - started,
            model=runtime.name,
        )
    streams = list(_streams(runtime, options))
    if not streams:
        raise ConfigError(f"{options.corpus} holds no two tokens in a row, expected documents")
    totals: dict[Baseline | None, _Totals] = {None: _Totals(options.length)}
    if isinstance(runtime.model, DRT):
        totals |= {baseline: _Totals(options.length) for baseline in BASELINES}
    for ids in progress(streams, "streams"):
        for baseline, total in totals.items():
            total.add(stream_losses(runtime, ids, baseline=baseline))
    return EvalReport(
        task="ppl",
        data=options.corpus.name,
        n=len(streams),
        metrics=totals.pop(None).groups(),
        baselines={baseline: total.groups() for baseline, total in totals.items() if baseline},
        seconds=time.monotonic() - started,
        model=runtime.name,
    )


def _streams(runtime: LanguageRuntime, options: PerplexityOptions) -> Iterator[list[int]]:
    """Yield the streams of all documents, or with a limit the first of each, the second, ..."""
    if options.limit is None:
        yield from _round(runtime, options, number=None)
        return
    left, number, has_more = options.limit, 0, True
    while has_more and left > 1:
        has_more = False
        for stream in _round(runtime, options, number=number):
            has_more = True
            yield stream[:left]
            left -= len(stream)
            if left < 2:
                return
        number += 1


def _round(
    runtime: LanguageRuntime, options: PerplexityOptions, *, number: int | None
) -> Iterator[list[int]]:
    """Yield the stream of this number of every document, or all streams."""
    size = options.length
    for document in read_corpus(options.corpus):
        ids = runtime.tokenizer.encode(document.text).ids
        starts = range(0, len(ids), size) if number is None else [number * size]
        yield from (stream for at in starts if len(stream := ids[at : at + size]) > 1)


def stream_losses(
    runtime: LanguageRuntime, ids: Sequence[int], *, baseline: Baseline | None = None
) -> Tensor:
    """Return the loss of each token of a stream but its first, [T - 1], fp32.

    As a ``baseline`` a DRT reads no chunk memory, or that of random chunks; other models have none.
    """
    model = runtime.model
    chunks, valid = to_chunks(torch.tensor(ids)[None], model.config.chunk, model.config.pad_id)
    chunks, valid = chunks.to(runtime.device), valid.to(runtime.device)
    with runtime.computing():
        if isinstance(model, DRT):
            losses, _ = model.stream_loss(
                chunks,
                valid,
                retrieval=baseline != "no retrieval",
                random=baseline == "random chunks",
            )
        else:
            losses, _ = model.stream_loss(chunks, valid)
    return losses.cpu()


class _Totals:
    """Sums of losses by the quarter of the stream that a token stands in."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._loss, self._tokens = [0.0] * QUARTERS, [0] * QUARTERS

    def add(self, losses: Tensor) -> None:
        """Count the losses of the tokens 1, 2, ... of one stream."""
        quarter = (torch.arange(1, len(losses) + 1) * QUARTERS // self._length).clamp(
            max=QUARTERS - 1
        )
        for number in range(QUARTERS):
            quarter_losses = losses[quarter == number]
            self._loss[number] += float(quarter_losses.double().sum())
            self._tokens[number] += len(quarter_losses)

    def groups(self) -> Groups:
        """Return perplexity and number of predicted tokens, of all and by quarter."""
        named = {f"quarter {i + 1}": [i] for i in range(QUARTERS) if self._tokens[i]}
        named[ALL] = list(range(QUARTERS))
        out = {}
        for name, members in named.items():
            tokens = sum(self._tokens[i] for i in members)
            loss = sum(self._loss[i] for i in members)
            out[name] = {"perplexity": math.exp(min(loss / tokens, 700.0)), "n": tokens}
        return out
