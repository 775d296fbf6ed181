"""BM25 in memory: plain words only, best first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drt_engine.text.lexical import LexicalIndex, fts_query, normalised_bm25
from tests.tables import each_row

TEXTS = ["the notice period is thirty days", "the keeper signs every log", "notices: thirty logs"]


@pytest.fixture(scope="module")
def index() -> LexicalIndex:
    return LexicalIndex(TEXTS)


def test_the_best_comes_first_with_positive_scores(index: LexicalIndex) -> None:
    hits = index.search("What is the notice period?")
    assert [row for row, _ in hits] == [0, 2]  # the plural is the same word
    assert hits[0][1] > hits[1][1] >= 0
    assert len(index.search("notice", limit=1)) == 1


def test_stop_words_count_when_nothing_else_is_left(index: LexicalIndex) -> None:
    assert fts_query("what is the") == '"what" OR "is" OR "the"'
    assert fts_query("the keeper") == '"keeper"'
    assert {row for row, _ in index.search("is the")} == {0, 1}


@each_row("question", ["", "?!", "   ", '"'])
def test_no_words_find_nothing(index: LexicalIndex, question: str) -> None:
    assert fts_query(question) is None
    assert index.search(question) == []


@given(text=st.text(max_size=40))
def test_no_question_is_syntax(index: LexicalIndex, text: str) -> None:
    index.search(text)
    index.search(f'NEAR({text}) AND "x* OR text:{text}')


def test_shares_of_the_best() -> None:
    assert normalised_bm25({3: 4.0, 5: 1.0}) == {3: 1.0, 5: 0.25}
    assert normalised_bm25({}) == normalised_bm25({1: 0.0}) == {}
