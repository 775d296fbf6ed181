"""Quotes from the quote head: the best spans over retrieved tokens, joined over chunk borders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drt_engine.model.quote_head import QuoteLogits
from drt_engine.retrieval.library import Passage

LONGEST_QUOTE = 48  # tokens
_RUNNER_UP = 0.1  # of the best quote's probability: what a further one must have


@dataclass(frozen=True)
class QuoteSpan:
    """A span of a document, in characters, with its probability and the passage it is from."""

    document: str
    start: int
    end: int
    probability: float
    passage: Passage


@dataclass(frozen=True)
class Quotes:
    """The best spans, best first, their log-odds against the null, and the null logit."""

    spans: tuple[QuoteSpan, ...]
    score: float
    null: float = 0.0


@dataclass(frozen=True)
class _Token:
    start: float
    end: float
    characters: tuple[int, int]
    passage: Passage


def best_quotes(
    logits: QuoteLogits, passages: Sequence[Passage], *, most: int = 3, longest: int = LONGEST_QUOTE
) -> Quotes:
    """Return up to ``most`` spans that share no character, best first.

    ``logits`` over [1, R, U] belong to ``passages`` in order.
    """
    null = logits.null[0].float()
    count = len(passages)
    start = _normalise(logits.start[0, :count].float(), null)
    end = _normalise(logits.end[0, :count].float(), null)
    found: list[tuple[float, QuoteSpan]] = []
    for run in _runs(_merge(start, end, passages)):
        found += _spans(run, longest, most)
    found.sort(key=lambda item: -item[0])
    if not found:
        return Quotes((), float("-inf"))
    score, best = found[0]
    chosen: list[QuoteSpan] = []
    for _, span in found:
        if len(chosen) == most or (chosen and span.probability < _RUNNER_UP * best.probability):
            break
        if not any(_touch(span, other) for other in chosen):
            chosen.append(span)
    nothing = float(_null_share(logits.start[0], null) + _null_share(logits.end[0], null))
    return Quotes(tuple(chosen), (score - nothing) / 2, float(null.detach()))


def start_shares(logits: QuoteLogits) -> list[float]:
    """Return how much of the start's probability lies in each of the R passages; null has the rest.
    """
    shares = _normalise(logits.start[0].float(), logits.null[0].float()).exp()
    return shares.sum(dim=-1).tolist()  # type: ignore[no-any-return]


def _normalise(logits: Tensor, null: Tensor) -> Tensor:
    return logits - torch.logsumexp(torch.cat([logits.flatten(), null[None]]), 0)


def _null_share(logits: Tensor, null: Tensor) -> Tensor:
    return null - torch.logsumexp(torch.cat([logits.float().flatten(), null[None]]), 0)


def _merge(
    start: Tensor, end: Tensor, passages: Sequence[Passage]
) -> dict[tuple[str, int], _Token]:
    """Tokens by document and number; a token seen in two passages keeps its better reading."""
    tokens: dict[tuple[str, int], _Token] = {}
    for row, passage in enumerate(passages):
        places = (passage.tokens, passage.starts, passage.ends)
        numbers, firsts, lasts = (t.tolist() for t in places)
        opens, closes = start[row].tolist(), end[row].tolist()
        for slot, number in enumerate(numbers):
            if number < 0:
                continue
            key = (passage.row.document_id, number)
            new = _Token(opens[slot], closes[slot], (firsts[slot], lasts[slot]), passage)
            old = tokens.get(key)
            if old is not None:
                better = new if new.start + new.end > old.start + old.end else old
                opens_at, closes_at = max(new.start, old.start), max(new.end, old.end)
                new = _Token(opens_at, closes_at, new.characters, better.passage)
            tokens[key] = new
    return tokens


def _runs(tokens: dict[tuple[str, int], _Token]) -> list[list[_Token]]:
    """Split the tokens into runs of consecutive ones, so that a quote may cross a chunk border."""
    runs: list[list[_Token]] = []
    last: tuple[str, int] | None = None
    for key in sorted(tokens):
        if last is None or key != (last[0], last[1] + 1):
            runs.append([])
        runs[-1].append(tokens[key])
        last = key
    return runs


def _spans(run: list[_Token], longest: int, most: int) -> list[tuple[float, QuoteSpan]]:
    """The best spans of one run: score is the sum of the log-probabilities of start and end."""
    start = torch.tensor([t.start for t in run])
    end = torch.tensor([t.end for t in run])
    scores = start[:, None] + end[None, :]
    near = torch.ones_like(scores).triu() - torch.ones_like(scores).triu(longest)
    scores = scores.masked_fill(near == 0, float("-inf"))
    values, places = scores.flatten().topk(min(8 * most, scores.numel()))
    out = []
    for value, place in zip(values.tolist(), places.tolist(), strict=True):
        if value == float("-inf"):
            break
        a, b = divmod(place, len(run))
        passage = run[a].passage
        span = QuoteSpan(
            passage.row.document_id,
            run[a].characters[0],
            run[b].characters[1],
            float(torch.tensor(value).exp()),
            passage,
        )
        out.append((value, span))
    return out


def _touch(a: QuoteSpan, b: QuoteSpan) -> bool:
    return a.document == b.document and a.start < b.end and b.start < a.end
