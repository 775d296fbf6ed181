"""Spans from logits: the best start and end, across borders, apart from one another."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from drt_engine.answer.quote import LONGEST_QUOTE, best_quotes
from drt_engine.model.quote_head import QuoteLogits
from drt_engine.retrieval.passages import Passage
from drt_engine.store import ChunkRow

SIZE, MARGIN = 4, 1
SLOTS = SIZE + 2 * MARGIN


def passage(ordinal: int, *, document: str = "a", last: int = 99, share: float = 0.5) -> Passage:
    """Chunk `ordinal` of tokens of ten characters, with a token of each neighbour."""
    tokens = torch.arange(SLOTS) + ordinal * SIZE - MARGIN
    tokens = torch.where((tokens >= 0) & (tokens <= last), tokens, -1)
    row = ChunkRow(ordinal, document, ordinal, ordinal * SIZE * 10, "", None, None)
    return Passage(
        row,
        token_ids=torch.zeros(SLOTS, dtype=torch.long),
        token_numbers=tokens,
        starts=tokens * 10,
        ends=tokens * 10 + 9,
        text="",
        text_start=0,
        score=0.0,
        probability=share,
        by="landmark",
    )


def logits(count: int, *, null: float = 0.0) -> QuoteLogits:
    empty = torch.full((1, count, SLOTS), -20.0)
    return QuoteLogits(empty, empty.clone(), torch.tensor([null]))


def put(where: Tensor, passages: list[Passage], token: int, value: float) -> None:
    for number, one in enumerate(passages):
        where[0, number][one.token_numbers == token] = value


def test_a_quote_is_of_one_record() -> None:
    units = torch.tensor([0, 0, 0, 30, 30, 30])  # of tokens 3 to 8
    passages = [replace(passage(1), units=units)]
    given_ = logits(1, null=-20)
    put(given_.start, passages, 5, 3.0)
    put(given_.end, passages, 6, 3.0)
    put(given_.end, passages, 5, 2.0)
    best = best_quotes(given_, passages).spans[0]
    assert (best.start, best.end) == (50, 59)


def test_the_best_start_and_end() -> None:
    passages = [passage(1)]
    given_ = logits(1, null=-20)
    put(given_.start, passages, 5, 3.0)
    put(given_.end, passages, 6, 3.0)
    quotes = best_quotes(given_, passages)
    best = quotes.spans[0]
    assert (best.document, best.start, best.end) == ("a", 50, 69)
    assert best.probability == pytest.approx(1, abs=1e-6)
    assert best.passage is passages[0]
    assert quotes.score > 10


def test_how_likely_an_answer_is_anywhere_in_some_characters() -> None:
    passages = [passage(1), passage(2)]  # which share the tokens 7 and 8
    given_ = logits(2, null=-20)
    for token in (5, 6, 8, 9):
        put(given_.start, passages, token, 1.0)  # that of 8 is in two passages, and counts twice
    put(given_.end, passages, 9, 3.0)
    quotes = best_quotes(given_, passages)
    assert quotes.within("a", 50, 69) == pytest.approx((0.4, 0.0), abs=1e-6)
    assert quotes.within("a", 60, 99) == pytest.approx((0.8, 1.0), abs=1e-6)
    assert quotes.within("a", 51, 99)[0] == pytest.approx(0.8, abs=1e-6)  # a part of a token
    assert quotes.within("b", 0, 999) == (0, 0)


def test_an_end_never_stands_before_its_start() -> None:
    passages = [passage(1)]
    given_ = logits(1)
    put(given_.start, passages, 7, 3.0)
    put(given_.end, passages, 5, 3.0)
    for span in best_quotes(given_, passages).spans:
        assert span.start < span.end


def test_a_quote_crosses_the_border_of_two_retrieved_chunks() -> None:
    passages = [passage(2), passage(1)]
    given_ = logits(2)
    put(given_.start, passages[1:], 5, 0.0)  # chunk 2 does not see it
    given_.start[0, 1][passages[1].token_numbers == 5] = 8.0
    given_.end[0, 0][passages[0].token_numbers == 10] = 8.0
    best = best_quotes(given_, passages).spans[0]
    assert (best.start, best.end) == (50, 109)
    assert best.passage is passages[1]


def test_a_quote_never_jumps_a_gap_or_into_another_document() -> None:
    for other in (passage(4), passage(2, document="b")):
        passages = [passage(1), other]
        given_ = logits(2)
        given_.start[0, 0][passages[0].token_numbers == 5] = 8.0
        given_.end[0, 1][other.token_numbers == int(other.token_numbers[3])] = 8.0
        for span in best_quotes(given_, passages).spans:
            assert span.end - span.start <= SLOTS * 10


def test_nothing_longer_than_allowed() -> None:
    passages = [passage(i) for i in range(30)]
    given_ = logits(30)
    put(given_.start, passages, 1, 9.0)
    put(given_.end, passages, 1 + LONGEST_QUOTE, 9.0)
    for span in best_quotes(given_, passages).spans:
        assert span.end - span.start < LONGEST_QUOTE * 10
    put(given_.end, passages, LONGEST_QUOTE, 9.5)
    best = best_quotes(given_, passages).spans[0]
    assert (best.start, best.end) == (10, LONGEST_QUOTE * 10 + 9)


def test_the_score_falls_as_the_null_logit_rises() -> None:
    passages = [passage(0)]
    scores = []
    for null in (-5.0, 0.0, 5.0):
        given_ = logits(1, null=null)
        put(given_.start, passages, 1, 0.0)
        put(given_.end, passages, 1, 0.0)
        scores.append(best_quotes(given_, passages).score)
    assert scores == sorted(scores, reverse=True)
    assert scores[1] == pytest.approx(0, abs=1e-5)


TEXT = "".join(f"{word:<10}" for word in ["north", "The", "south", "north.", "east", "west"])


def saying(ordinal: int, document: str, text: str = TEXT) -> Passage:
    """A passage whose document says so from its first character on."""
    return replace(passage(ordinal, document=document), text=text, text_start=0)


def test_places_that_say_the_same_vote_together() -> None:
    passages = [saying(0, "a"), saying(0, "b")]
    given_ = logits(2)
    for number, token, value in ((0, 0, 5.0), (1, 2, 5.4), (1, 3, 5.0)):
        for part in (given_.start, given_.end):
            part[0, number][passages[number].token_numbers == token] = value
    best, *others = best_quotes(given_, passages).spans
    assert (best.document, best.start, best.end) == ("a", 0, 9)  # "north", as in "b" at 30
    assert [(one.document, one.start) for one in others] == [("b", 30), ("b", 20)]
    assert others[1].probability > best.probability
    apart = [replace(one, text="") for one in passages]  # nobody knows what they say
    assert best_quotes(given_, apart).spans[0].start == 20


def test_words_come_before_punctuation() -> None:
    one = saying(0, "a", f"{'...':<10}{'north':<10}{'!':<30}")
    given_ = logits(1)
    for token, value in ((0, 6.0), (1, 4.0), (2, 5.0)):
        put(given_.start, [one], token, value)
        put(given_.end, [one], token, value)
    spans = best_quotes(given_, [one]).spans
    assert spans[0].start <= 10 < 19 <= spans[0].end  # "north", or dots with it
    alone = saying(0, "a", "." * 60)
    assert best_quotes(given_, [alone]).spans


def test_an_article_makes_no_other_answer() -> None:
    passages = [saying(0, "a"), saying(0, "b")]
    given_ = logits(2)
    given_.start[0, 0][passages[0].token_numbers == 1] = 5.0  # "The south"
    given_.end[0, 0][passages[0].token_numbers == 2] = 5.0
    for part in (given_.start, given_.end):
        part[0, 1][passages[1].token_numbers == 2] = 5.0  # "south"
        part[0, 1][passages[1].token_numbers == 0] = 5.4  # "north"
    assert best_quotes(given_, passages).spans[0].document == "a"


def test_a_token_in_two_passages_has_the_probability_of_both() -> None:
    passages = [passage(1), passage(2)]
    given_ = logits(2)
    put(given_.start, passages, 7, 3.0)  # the last of one, the margin of the other
    put(given_.end, passages, 7, 3.0)
    put(given_.start, passages, 5, 3.5)
    put(given_.end, passages, 5, 3.5)
    best = best_quotes(given_, passages).spans[0]
    assert best.start == 70
    start = 2 * math.exp(3) / (2 * math.exp(3) + math.exp(3.5) + 1)
    assert best.probability == pytest.approx(start**2, rel=1e-3)


def test_no_passage_gives_no_quote() -> None:
    quotes = best_quotes(logits(0), [])
    assert quotes.spans == () and quotes.score == -math.inf


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_spans_of_any_logits(seed: int, count: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    passages = [passage(i, last=4 * count) for i in range(count)]
    shape = (1, count, SLOTS)
    hidden = torch.stack([p.token_numbers < 0 for p in passages])[None]
    start, end = (
        (torch.randn(shape, generator=generator) * 3).masked_fill(hidden, -math.inf)
        for _ in range(2)
    )
    quotes = best_quotes(QuoteLogits(start, end, torch.randn(1, generator=generator)), passages)
    assert 1 <= len(quotes.spans) <= 3
    shares = [span.probability for span in quotes.spans]
    assert shares == sorted(shares, reverse=True)
    assert min(shares) >= 0 and max(shares) <= 1
    places = sorted((span.start, span.end) for span in quotes.spans)
    assert all(a < b for a, b in places)
    assert all(one[1] <= other[0] for one, other in zip(places, places[1:], strict=False))
