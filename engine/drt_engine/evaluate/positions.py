"""Perplexity at lengths that no memory holds in one go: a stream is read in segments.

The documents are one token stream, an end token between them. It is cut into streams of each
length, which a model reads through its own state: what is resident is the state and one segment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.data.schema import read_corpus
from drt_engine.errors import ConfigError
from drt_engine.evaluate.library import progress
from drt_engine.evaluate.needle import length_name
from drt_engine.evaluate.report import Groups, Metrics
from drt_engine.lm.build import begin_stream
from drt_engine.lm.chunk_store import Place
from drt_engine.lm.runtime import LanguageRuntime

_SEGMENT = 2048  # tokens whose logits are made together
_QUARTERS = 4


def perplexity_by_length(
    runtime: LanguageRuntime,
    corpus: Path,
    lengths: Sequence[int],
    *,
    limit: int | None,
    memory: Place = "device",
) -> Groups:
    """Return for each length the perplexity of all its streams, and by quarter of the stream.

    ``limit`` tokens of the corpus are read at each length, at least one stream; without it, as many
    as the longest length has. Raises ``ConfigError`` for a corpus that is shorter.
    """
    count = max(limit or 0, *lengths)
    ids = list(islice(_joined(runtime, corpus), count))
    if len(ids) < max(lengths):
        raise ConfigError(
            f"{corpus} holds {len(ids):,} tokens, expected at least {max(lengths):,} for the "
            "longest of the lengths; name a larger corpus or shorter lengths"
        )
    groups: dict[str, Metrics] = {}
    for length in lengths:
        sums = torch.zeros(_QUARTERS, dtype=torch.float64)
        numbers = torch.zeros(_QUARTERS, dtype=torch.long)
        starts = range(0, len(ids) - length + 1, length)
        for start in progress(starts, length_name(length)):
            losses = segment_losses(runtime, ids[start : start + length], memory=memory).double()
            quarter = torch.arange(1, length) * _QUARTERS // length
            sums.index_add_(0, quarter, losses)
            numbers += quarter.bincount(minlength=_QUARTERS)
        groups[length_name(length)] = _metrics(sums, numbers)
    return groups


def segment_losses(
    runtime: LanguageRuntime, ids: Sequence[int], *, memory: Place = "device"
) -> Tensor:
    """Return the loss of each token of a stream but its first, [T - 1], fp32, on the CPU."""
    model, losses = runtime.model, []
    with runtime.computing():
        state = begin_stream(model, dtype=runtime.dtype, place=memory)
        for at in range(0, len(ids) - 1, _SEGMENT):
            targets = ids[at + 1 : at + 1 + _SEGMENT]
            states = state.prefill(ids[at : at + len(targets)])
            target_ids = torch.tensor(targets, device=states.device)
            losses.append(model.token_losses(states, target_ids).float().cpu())
    return torch.cat(losses)


def _joined(runtime: LanguageRuntime, corpus: Path) -> Iterator[int]:
    """Yield the tokens of all documents, each followed by the end token."""
    end = runtime.config.end_id
    return chain.from_iterable(
        [*runtime.tokenizer.encode(document.text).ids, end] for document in read_corpus(corpus)
    )


def _metrics(sums: Tensor, numbers: Tensor) -> Metrics:
    quarters = {
        f"quarter {i + 1}": math.exp(min(float(sums[i] / numbers[i]), 700.0))
        for i in range(_QUARTERS)
        if numbers[i]
    }
    perplexity = math.exp(min(float(sums.sum() / numbers.sum()), 700.0))
    return {"perplexity": perplexity, **quarters, "n": int(numbers.sum())}
