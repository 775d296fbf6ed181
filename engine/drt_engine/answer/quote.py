"""Quotes: the best spans over the tokens of retrieved passages, joined over chunk borders.

Spans with the same words are scored together, so that an answer that a document repeats wins over
one that it gives once and with hardly more confidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from drt_engine.model.quote_head import QuoteLogits
from drt_engine.retrieval.passages import Passage
from drt_engine.text.words import whole_words, words

LONGEST_QUOTE = 72  # tokens; clauses of contracts and definitions are long
_RUNNER_UP = 0.1  # of the best quote's probability: what a further one must have
_VOTERS = 60  # spans that vote; the rest hardly weigh
_VOTE = 0.7  # power of a vote's probability: the head is surer of one place than it should be
_LEAST_PROBABILITY = 1e-12
_ARTICLES = frozenset({"a", "an", "the"})


@dataclass(frozen=True)
class QuoteSpan:
    """A span of a document, in characters, with its probability and the passage it is from."""

    document: str
    start: int
    end: int
    probability: float
    passage: Passage


@dataclass(frozen=True)
class Token:
    """A token of a document: log-probabilities that a quote starts and ends with it."""

    start: float
    end: float
    characters: tuple[int, int]
    passage: Passage
    unit: int = 0  # tokens of two are never quoted together


@dataclass(frozen=True)
class Quotes:
    """The best spans, best first, their log-odds against the null, and the null logit.

    ``vote_share`` is the first span's part of all votes, ``runner_up`` that of the best span with
    other words. ``by_passage`` are the best spans of passages that have none among these.
    ``tokens`` are those of all passages.
    """

    spans: tuple[QuoteSpan, ...]
    score: float
    null: float = 0.0
    vote_share: float = 0.0
    runner_up: float = 0.0
    by_passage: tuple[QuoteSpan, ...] = ()
    tokens: tuple[Token, ...] = ()

    def within(self, document: str, start: int, end: int) -> tuple[float, float]:
        """Return how likely the start, and the end, of any span is in characters ``start:end``.

        Where the reader wavers between spans of one sentence, that of the sentence is their sum.
        """
        inside = [
            token
            for token in self.tokens
            if token.passage.row.document_id == document
            and start <= token.characters[0]
            and token.characters[1] <= end
        ]
        return sum(math.exp(t.start) for t in inside), sum(math.exp(t.end) for t in inside)

    def votes_of(self, span: QuoteSpan) -> tuple[float, float]:
        """Return the part of all votes that a span has, and that of the best other words."""
        if span is self.spans[0]:
            return self.vote_share, self.runner_up
        if span in self.spans:  # it takes the place of the best one and has lost against it
            return self.runner_up, self.vote_share
        lead = max(span.probability, _LEAST_PROBABILITY) / self.spans[0].probability
        return self.vote_share * min(1.0, lead) ** _VOTE, self.vote_share


NO_QUOTES = Quotes((), float("-inf"))


def best_quotes(
    logits: QuoteLogits,
    passages: Sequence[Passage],
    *,
    limit: int = 3,
    longest: int = LONGEST_QUOTE,
) -> Quotes:
    """Return up to ``limit`` spans that share no character, ranked by the votes of their words.

    ``logits`` over [1, R, U] belong to ``passages`` in order; ``longest`` is in tokens.
    """
    null = logits.null[0].float()
    end_null = null if logits.end_null is None else logits.end_null[0].float()
    count = len(passages)
    start = _normalise(logits.start[0, :count].float(), null)
    end = _normalise(logits.end[0, :count].float(), end_null)
    # Spans of consecutive tokens, each with the sum of its log-probabilities, best first.
    scored: list[tuple[float, QuoteSpan]] = []
    tokens = _merge(start, end, passages)
    for run in _runs(tokens):
        scored += _spans(run, longest)
    if not scored:
        return NO_QUOTES
    scored.sort(key=lambda item: -item[0])
    best_score = scored[0][0]
    # The winner of the votes, and runners-up that are likely enough and do not overlap.
    spans: list[QuoteSpan] = []
    ranking, shares = _by_votes(scored)
    for span in ranking:
        likely = not spans or span.probability >= _RUNNER_UP * spans[0].probability
        if likely and not any(spans_overlap(span, better) for better in spans):
            spans.append(span)
        if len(spans) == limit:
            break
    null_score = float(_null_share(logits.start[0], null) + _null_share(logits.end[0], end_null))
    return Quotes(
        tuple(spans),
        (best_score - null_score) / 2,
        float(null.detach()),
        *shares,
        by_passage=_by_passage(scored, spans),
        tokens=tuple(tokens.values()),
    )


def _by_passage(
    scored: Sequence[tuple[float, QuoteSpan]], spans: Sequence[QuoteSpan]
) -> tuple[QuoteSpan, ...]:
    """Return the best span of each passage that has none in ``spans``; scored ones best first."""
    best: dict[int, QuoteSpan] = {}
    passages_of_spans = {span.passage.row.id for span in spans}
    for _, span in scored:
        chunk = span.passage.row.id
        if chunk not in passages_of_spans and chunk not in best:
            best[chunk] = span
    return tuple(
        span for span in best.values() if not any(spans_overlap(span, better) for better in spans)
    )


def _by_votes(
    scored: Sequence[tuple[float, QuoteSpan]],
) -> tuple[list[QuoteSpan], tuple[float, float]]:
    """Rank spans, given best first, by the summed votes of spans with the same normalised text.

    Punctuation answers no question: spans without a word count only where there are no others.
    Returns the ranking, and the parts of all votes that its two best texts have.
    """
    keyed = ((_vote_key(span), score, span) for score, span in scored)
    voters = list(islice((voter for voter in keyed if voter[0] != ()), _VOTERS))
    if not voters:
        return [span for _, span in scored], (0.0, 0.0)
    best_score = voters[0][1]
    votes: dict[object, float] = {}
    for key, score, _ in voters:
        votes[key] = votes.get(key, 0.0) + math.exp(_VOTE * (score - best_score))
    voters.sort(key=lambda voter: -votes[voter[0]])  # a stable sort: equals by their own score
    total = sum(votes.values())
    first, second, *_ = [*sorted((vote / total for vote in votes.values()), reverse=True), 0.0]
    return [span for _, _, span in voters], (first, second)


def _vote_key(span: QuoteSpan) -> object:
    """Return the words of a span without articles, or its place where its text is not loaded."""
    text, base = span.passage.text, span.passage.text_start
    if not base <= span.start < span.end <= base + len(text):
        return span.document, span.start, span.end
    start, end = whole_words(text, span.start - base, span.end - base)
    span_words = tuple(words(text[start:end]))
    return tuple(word for word in span_words if word not in _ARTICLES) or span_words


def start_shares(logits: QuoteLogits) -> tuple[float, ...]:
    """Return the share of the start's probability in each of the R passages; null has the rest."""
    shares = _normalise(logits.start[0].float(), logits.null[0].float()).exp()
    return tuple(shares.sum(dim=-1).tolist())


def _normalise(logits: Tensor, null: Tensor) -> Tensor:
    return logits - torch.logsumexp(torch.cat([logits.flatten(), null[None]]), 0)


def _null_share(logits: Tensor, null: Tensor) -> Tensor:
    return null - torch.logsumexp(torch.cat([logits.float().flatten(), null[None]]), 0)


def _merge(start: Tensor, end: Tensor, passages: Sequence[Passage]) -> dict[tuple[str, int], Token]:
    """Return tokens by document and number; one in two passages has the probability of both."""
    tokens: dict[tuple[str, int], Token] = {}
    for row, passage in enumerate(passages):
        places = (passage.token_numbers, passage.starts, passage.ends)
        numbers, firsts, lasts = (t.tolist() for t in places)
        opens, closes = start[row].tolist(), end[row].tolist()
        units = [0] * len(numbers) if passage.units is None else passage.units.tolist()
        for slot, number in enumerate(numbers):
            if number < 0:
                continue
            key = (passage.row.document_id, number)
            place = (firsts[slot], lasts[slot])
            new = Token(opens[slot], closes[slot], place, passage, units[slot])
            old = tokens.get(key)
            if old is not None:
                better = new if new.start + new.end > old.start + old.end else old
                start_sum = _logaddexp(new.start, old.start)
                end_sum = _logaddexp(new.end, old.end)
                new = Token(start_sum, end_sum, new.characters, better.passage, new.unit)
            tokens[key] = new
    return tokens


def _logaddexp(a: float, b: float) -> float:
    """Return the logarithm of the sum of two probabilities given as logarithms."""
    high, low = max(a, b), min(a, b)
    return high if low == float("-inf") else high + math.log1p(math.exp(low - high))


def _runs(tokens: dict[tuple[str, int], Token]) -> list[list[Token]]:
    """Split the tokens into runs of consecutive ones of a unit: a quote may cross chunks."""
    runs: list[list[Token]] = []
    last: tuple[str, int] | None = None
    for key in sorted(tokens):
        is_next = last is not None and key == (last[0], last[1] + 1)
        if last is None or not is_next or tokens[key].unit != tokens[last].unit:
            runs.append([])
        runs[-1].append(tokens[key])
        last = key
    return runs


def _spans(run: list[Token], longest: int) -> list[tuple[float, QuoteSpan]]:
    """Return the best spans of a run with their scores.

    A score is the sum of the log-probabilities of start and end.
    """
    start = torch.tensor([token.start for token in run])
    end = torch.tensor([token.end for token in run])
    scores = start[:, None] + end[None, :]  # [T, T]
    # An end from its start on, fewer than ``longest`` tokens away.
    allowed = torch.ones_like(scores).triu() - torch.ones_like(scores).triu(longest)
    scores = scores.masked_fill(allowed == 0, float("-inf"))
    values, places = scores.flatten().topk(min(_VOTERS, scores.numel()))
    spans = []
    for value, place in zip(values.tolist(), places.tolist(), strict=True):
        if value == float("-inf"):
            break
        a, b = divmod(place, len(run))
        passage = run[a].passage
        span = QuoteSpan(
            passage.row.document_id,
            run[a].characters[0],
            run[b].characters[1],
            math.exp(value),
            passage,
        )
        spans.append((value, span))
    return spans


def spans_overlap(a: QuoteSpan, b: QuoteSpan) -> bool:
    """Return whether two spans share a character."""
    return a.document == b.document and a.start < b.end and b.start < a.end
