"""BM25 over chunk texts: order, filters, and queries that mean no harm or do."""

from __future__ import annotations

import pytest

from drt_engine.retrieval.lexical import search_terms as terms
from drt_engine.store import Store
from tests.engine.store.helpers import add_document, document_id

PIECES = [
    "The captain's log of the ship. ",
    "The notice period is three months; notice must be in writing. ",
    "Periods of rest follow the long watch of the night. ",
    "Café NAÏVE straße Ελλάδα — re\u0301sume\u0301 and 東京 2024-05-06 O'Brien. ",
    "AND OR NOT NEAR text: (brackets) * ^ quotes. ",
]


@pytest.fixture
def filled(store: Store) -> Store:
    add_document(store, 1, PIECES)
    return store


def found(store: Store, query: str) -> list[int]:
    return [row.ordinal for row in store.chunk_rows([i for i, _ in store.search_text(query)])]


def test_best_first_with_positive_scores(filled: Store) -> None:
    hits = filled.search_text("What is the notice period?")
    assert [row.ordinal for row in filled.chunk_rows([i for i, _ in hits])] == [1, 2]
    scores = [score for _, score in hits]
    assert scores == sorted(scores, reverse=True) and scores[-1] > 0
    assert filled.search_text("notice period", limit=1) == hits[:1]
    assert filled.search_text("notice period", limit=0) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("periods", [1, 2]),
        ("cafe", [3]),
        ("RÉSUMÉ", [3]),
        ("re\u0301sume\u0301", [3]),
        ("ΕΛΛΆΔΑ", [3]),
        ("東京", [3]),
        ("2024-05-06", [3]),
        ("o'brien", [3]),
        ("captain's", [0]),
        ("near", [4]),
        ("zebra", []),
    ],
)
def test_words_are_found_in_any_form(filled: Store, query: str, expected: list[int]) -> None:
    assert sorted(found(filled, query)) == expected


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "?!.",
        '"',
        "'",
        '"unclosed',
        "a AND",
        "AND OR NOT",
        "NEAR(a b, 2)",
        "*",
        "text:*",
        "^text",
        "{text}: x",
        "-notice",
        "notice)(",
        "\x00notice",
        "\ud800 notice",
        "_",
        "%_';--",
        "\u0301\u0301",
        "💥",
        "word " * 3_000,
        " ".join(f"w{i}" for i in range(3_000)),
    ],
)
def test_hostile_queries_are_plain_words(filled: Store, query: str) -> None:
    assert all(score > 0 for _, score in filled.search_text(query))


def test_stop_words_count_only_when_nothing_else_is_left(filled: Store) -> None:
    assert terms("What IS the log of the log?") == ["log"]
    assert terms("to be or not to be") == ["to", "be", "or", "not"]
    assert 4 in found(filled, "and or not")


def test_documents_filter(filled: Store) -> None:
    add_document(filled, 2, ["a notice elsewhere "])
    [(chunk, _)] = filled.search_text("notice", documents=[document_id(2)])
    assert filled.chunk_rows([chunk])[0].document_id == document_id(2)
    assert len(filled.search_text("notice")) == 2
    assert filled.search_text("notice", documents=[]) == []
