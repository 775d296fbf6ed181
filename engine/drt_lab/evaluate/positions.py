"""Perplexity at lengths that no memory holds in one go: a stream is read in segments.

The documents are one token stream, an end token between them. It is cut into streams of each
length, which a model reads through its own state: what is resident is the state, one segment, and
four bytes for each token.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_lab.data.far_copies import far_copies
from drt_lab.data.schema import read_corpus
from drt_lab.evaluate.choices import OWN, Choice, Reading, reading
from drt_lab.evaluate.library import progress
from drt_lab.evaluate.needle import length_name
from drt_lab.evaluate.report import Groups, Metrics
from drt_lab.lm.build import begin_stream
from drt_lab.lm.chunk_store import Place
from drt_lab.lm.losses import token_losses
from drt_lab.lm.runtime import LanguageRuntime

_SEGMENT = 2048  # tokens whose logits are made together
_QUARTERS = 4
_LONGEST_COUNTED = 1 << 20  # tokens of a stream whose far copies are counted: 120 bytes for each


def perplexity_by_length(
    runtime: LanguageRuntime,
    corpus: Path,
    lengths: Sequence[int],
    *,
    limit: int | None,
    memory: Place = "device",
    choice: Choice = OWN,
    window: int = 0,
) -> Groups:
    """Return for each length the perplexity of its streams: all, by quarter, and of far copies.

    ``limit`` tokens of the corpus are read at each length, at least one stream; without it, as many
    as the longest length has. Raises ``ConfigError`` for a corpus that is shorter.
    """
    longest = max(lengths)
    # A list of numbers would take 36 bytes a token.
    ids = array("I", islice(_joined(runtime, corpus), max(limit or 0, longest)))
    if len(ids) < longest:
        raise ConfigError(
            f"{corpus} holds {len(ids):,} tokens, expected at least {longest:,} for the "
            "longest of the lengths; name a larger corpus or shorter lengths"
        )
    groups: dict[str, Metrics] = {}
    for length in lengths:
        # By quarter, and last of far copies.
        sums = torch.zeros(_QUARTERS + 1, dtype=torch.float64)
        numbers = torch.zeros(_QUARTERS + 1, dtype=torch.long)
        count = min(len(ids), max(limit or longest, length))
        for start in progress(range(0, count - length + 1, length), length_name(length)):
            stream, place = memoryview(ids)[start : start + length], 1
            is_far = _far_copies(runtime, stream, window)
            how = reading(choice, stream, runtime.config.chunk)
            for losses in segment_losses(runtime, stream, memory=memory, how=how):
                quarter = torch.arange(place, place + len(losses)) * _QUARTERS // length
                sums.index_add_(0, quarter, losses.double())
                numbers += quarter.bincount(minlength=_QUARTERS + 1)
                far = is_far[place : place + len(losses)]
                sums[_QUARTERS] += losses[far].double().sum()
                numbers[_QUARTERS] += int(far.sum())
                place += len(losses)
        groups[length_name(length)] = _metrics(sums, numbers)
    return groups


def _far_copies(runtime: LanguageRuntime, stream: Sequence[int], window: int) -> Tensor:
    """Return which tokens of a stream are far copies, none of one that is too long to count."""
    if len(stream) > _LONGEST_COUNTED:
        return torch.zeros((), dtype=torch.bool).expand(len(stream))
    config = runtime.config
    return far_copies(stream, window=window or config.window, chunk=config.chunk)


def segment_losses(
    runtime: LanguageRuntime,
    ids: Sequence[int],
    *,
    memory: Place = "device",
    how: Reading | None = None,
) -> Iterator[Tensor]:
    """Yield the loss of each token of a stream but its first, by segments, fp32, on the CPU."""
    model, how = runtime.model, how or Reading()
    state = begin_stream(
        model, dtype=runtime.dtype, place=memory, retrieval=how.retrieval, ranking=how.ranking
    )
    for at in range(0, len(ids) - 1, _SEGMENT):
        *read, last = ids[at : at + _SEGMENT + 1]
        with runtime.computing():  # not around a yield, where the caller would be inside, too
            states = state.prefill(read)
            targets = torch.tensor([*read[1:], last], device=states.device)
            losses = token_losses(states, model.embedding.weight, targets).float().cpu()
        yield losses


def _joined(runtime: LanguageRuntime, corpus: Path) -> Iterator[int]:
    """Yield the tokens of all documents, each followed by the end token."""
    end = runtime.config.end_id
    return chain.from_iterable(
        [*runtime.tokenizer.encode(document.text).ids, end] for document in read_corpus(corpus)
    )


def _metrics(sums: Tensor, numbers: Tensor) -> Metrics:
    def perplexity(loss: Tensor, count: Tensor) -> float:
        return math.exp(min(float(loss / count), 700.0))

    quarters = {
        f"quarter {i + 1}": perplexity(sums[i], numbers[i]) for i in range(_QUARTERS) if numbers[i]
    }
    count = numbers[:_QUARTERS].sum()
    metrics: dict[str, float | int] = {
        "perplexity": perplexity(sums[:_QUARTERS].sum(), count),
        **quarters,
        "n": int(count),
    }
    if numbers[_QUARTERS]:
        metrics["far copies"] = perplexity(sums[_QUARTERS], numbers[_QUARTERS])
        metrics["far copies n"] = int(numbers[_QUARTERS])
    return metrics
