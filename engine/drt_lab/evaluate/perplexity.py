"""``drt eval ppl``: perplexity of a model over a corpus, and of a DRT by other choices of chunks.

Its baselines read no chunk memory, or that of random, recent or oracle chunks (``choices.py``) in
place of those it chooses: with the oracle's it shows how well it reads, beside the random ones how
well it chooses.

Each document is cut into streams of ``length`` tokens that start with an empty window and nothing
to retrieve. Landmarks are not counted. Groups are ``all``, the quarters of a stream, since
retrieval can only help once there is something behind, and ``far copies``, the tokens that stood
before in the same context, where only retrieval reaches (``data/far_copies.py``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_lab.data.chunks import to_chunks
from drt_lab.data.far_copies import far_copies
from drt_lab.data.schema import read_corpus
from drt_lab.evaluate.choices import BASELINES, NAMES, OWN, Choice, as_choices, reading
from drt_lab.evaluate.library import ALL, progress
from drt_lab.evaluate.positions import perplexity_by_length
from drt_lab.evaluate.report import EvalReport, Groups
from drt_lab.lm.chunk_store import Place
from drt_lab.lm.losses import stream_loss
from drt_lab.lm.runtime import LanguageRuntime

QUARTERS = 4
FAR = "far copies"


@dataclass(frozen=True)
class PerplexityOptions:
    """Streams of ``length`` tokens of each document; ``limit`` tokens over all documents.

    With ``lengths``, streams of each of them over the joined documents instead, read in segments
    (``positions.py``); ``memory`` is where a DRT then keeps the memory of chunks. ``choices`` of
    the chunks that a DRT reads, the first as the model's and others as its baselines: ``own``,
    ``none``, ``random``, ``recent``, ``oracle``; none named means all, or with lengths its own.
    ``window`` is that of far copies (0: the model's), so that models of several can be compared.
    """

    corpus: Path
    length: int = 16384
    limit: int | None = None
    lengths: tuple[int, ...] = ()
    memory: Place = "device"
    choices: tuple[str, ...] = ()
    window: int = 0

    def __post_init__(self) -> None:
        as_choices(self.choices)
        if self.window < 0:
            raise ConfigError(f"window is {self.window} tokens, expected 0 or more")
        if self.length < 2:
            raise ConfigError(f"length is {self.length} tokens, expected at least 2")
        if self.limit is not None and self.limit < 2:
            raise ConfigError(f"limit is {self.limit} tokens, expected at least 2")
        if self.lengths and min(self.lengths) < 2:
            raise ConfigError(f"lengths are {list(self.lengths)}, expected at least 2 tokens each")


def evaluate_perplexity(runtime: LanguageRuntime, options: PerplexityOptions) -> EvalReport:
    """Read the corpus, with a DRT also by other choices of what it reads.

    Raises ``ConfigError`` for a corpus without text, and for choices of a model that is no DRT.
    """
    started = time.monotonic()
    choices = model_choices(runtime, options.choices, all_of_drt=not options.lengths)
    if options.lengths:
        groups = {
            choice: perplexity_by_length(
                runtime,
                options.corpus,
                options.lengths,
                limit=options.limit,
                memory=options.memory,
                choice=choice,
                window=options.window,
            )
            for choice in choices
        }
        count = len(options.lengths)
    else:
        streams = list(_streams(runtime, options))
        if not streams:
            raise ConfigError(f"{options.corpus} holds no two tokens in a row, expected documents")
        groups, count = _read(runtime, streams, options, choices), len(streams)
    return EvalReport(
        task="ppl",
        data=options.corpus.name,
        n=count,
        metrics=groups.pop(choices[0]),
        baselines={NAMES[choice]: of_choice for choice, of_choice in groups.items()},
        seconds=time.monotonic() - started,
        model=runtime.name,
    )


def model_choices(
    runtime: LanguageRuntime, names: Sequence[str], *, all_of_drt: bool
) -> tuple[Choice, ...]:
    """Return the choices to measure, the first as the model's.

    Where none are named, a model's own, and ``all_of_drt`` those of a DRT's baselines. Raises
    ``ConfigError`` for others of a model that is no DRT.
    """
    named = as_choices(names)
    if isinstance(runtime.model, DRT):
        return named or ((OWN, *BASELINES) if all_of_drt else (OWN,))
    others = [choice for choice in named if choice != OWN]
    if others:
        raise ConfigError(
            f"choices has {others[0]!r}, expected {OWN!r} alone: {runtime.name} is of the "
            f"architecture {runtime.config.architecture!r}, and a DRT alone reads other chunks "
            "than its own choice"
        )
    return (OWN,)


def _read(
    runtime: LanguageRuntime,
    streams: Sequence[Sequence[int]],
    options: PerplexityOptions,
    choices: Sequence[Choice],
) -> dict[Choice, Groups]:
    """Return the groups of each choice over all streams."""
    totals = {choice: _Totals(options.length) for choice in choices}
    config = runtime.config
    for ids in progress(streams, "streams"):
        is_far = far_copies(ids, window=options.window or config.window, chunk=config.chunk)
        for choice, total in totals.items():
            total.add(stream_losses(runtime, ids, choice=choice), is_far[1:])
    return {choice: total.groups() for choice, total in totals.items()}


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


def stream_losses(runtime: LanguageRuntime, ids: Sequence[int], *, choice: Choice = OWN) -> Tensor:
    """Return the loss of each token of a stream but its first, [T - 1], fp32.

    A DRT reads what ``choice`` says; other models have their own alone.
    """
    model = runtime.model
    chunks, valid = to_chunks(torch.tensor(ids)[None], model.config.chunk, model.config.pad_id)
    chunks, valid = chunks.to(runtime.device), valid.to(runtime.device)
    with runtime.computing():
        if isinstance(model, DRT):
            how = reading(choice, ids, model.config.chunk)
            losses, _ = stream_loss(
                model, chunks, valid, retrieval=how.retrieval, ranking=how.ranking
            )
        else:
            losses, _ = stream_loss(model, chunks, valid)
    return losses.cpu()


class _Totals:
    """Sums of losses by the quarter of the stream that a token stands in, and of far copies."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._loss, self._tokens = [0.0] * (QUARTERS + 1), [0] * (QUARTERS + 1)

    def add(self, losses: Tensor, is_far: Tensor) -> None:
        """Count the losses of the tokens 1, 2, ... of one stream, and which are far copies."""
        quarter = (torch.arange(1, len(losses) + 1) * QUARTERS // self._length).clamp(
            max=QUARTERS - 1
        )
        for number in range(QUARTERS):
            self._count(number, losses[quarter == number])
        self._count(QUARTERS, losses[is_far])

    def _count(self, number: int, losses: Tensor) -> None:
        self._loss[number] += float(losses.double().sum())
        self._tokens[number] += len(losses)

    def groups(self) -> Groups:
        """Return perplexity and number of predicted tokens, of all, by quarter, of far copies."""
        named = {f"quarter {i + 1}": [i] for i in range(QUARTERS) if self._tokens[i]}
        named[ALL] = list(range(QUARTERS))
        if self._tokens[QUARTERS]:
            named[FAR] = [QUARTERS]
        out = {}
        for name, members in named.items():
            tokens = sum(self._tokens[i] for i in members)
            loss = sum(self._loss[i] for i in members)
            out[name] = {"perplexity": math.exp(min(loss / tokens, 700.0)), "n": tokens}
        return out
