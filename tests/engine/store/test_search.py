"""BM25 over chunk texts: order, filters, and queries that mean no harm or do."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pytest

from drt_engine.store import Store
from drt_engine.store.catalogue import search
from drt_engine.store.catalogue.index_text import WORDS
from drt_engine.text.lexical import search_terms as terms
from tests.engine.store.helpers import add_document, document_id, open_store

APART = "moss " * WORDS  # so that no margin reaches the words of another chunk
PIECES = [
    f"{APART}{piece} {APART}"
    for piece in (
        "The captain's log of the ship.",
        "The notice period is three months; notice must be in writing.",
        "Periods of rest follow the long watch of the night.",
        "Café NAÏVE straße Ελλάδα — re\u0301sume\u0301 and 東京 2024-05-06 O'Brien.",
        "AND OR NOT NEAR text: (brackets) * ^ quotes.",
    )
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


@pytest.mark.few(6)
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


# frequent words


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """5,000 chunks of words that are as frequent as words of English are."""
    chance = random.Random(0)
    weights = list(accumulate(1 / (rank + 5) for rank in range(3_000)))
    names = [f"w{rank}" for rank in range(3_000)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        with open_store(tmp_path_factory.mktemp("large") / "library") as store:
            for number in range(1, 5):
                pieces = [
                    " ".join(chance.choices(names, cum_weights=weights, k=chance.randrange(5, 40)))
                    for _ in range(1_250)
                ]
                add_document(store, number, pieces)
            yield store


def hits_of_all_words(store: Store, query: str, **only: Any) -> list[tuple[int, float]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_by_rarer_words", lambda *_: None)
        return store.search_text(query, **only)


def questions(count: int) -> list[str]:
    """Words of every frequency, two to seven of them."""
    chance = random.Random(1)
    return [
        " ".join(f"w{int(3_000 ** chance.random())}" for _ in range(chance.randrange(2, 8)))
        for _ in range(count)
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("count", [12, pytest.param(400, marks=pytest.mark.slow)])
def test_leaving_frequent_words_out_changes_no_hit(
    large: Store, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(search, "_FEW", 200)
    tried = []
    by_rarer_words = search._by_rarer_words

    def spy(*arguments: Any) -> search.Hits | None:
        hits = by_rarer_words(*arguments)
        tried.append(hits is not None)
        return hits

    for query in questions(count):
        for limit in (8, 64):
            monkeypatch.setattr(search, "_by_rarer_words", spy)
            hits = large.search_text(query, limit=limit)
            monkeypatch.setattr(search, "_by_rarer_words", by_rarer_words)
            exact = hits_of_all_words(large, query, limit=limit)
            assert [score for _, score in hits] == pytest.approx([score for _, score in exact])
            # among equals at the end, any may be kept
            last = exact[-1][1] * (1 + 1e-9) if exact else 0.0
            kept = [{chunk for chunk, score in some if score > last} for some in (hits, exact)]
            assert kept[0] == kept[1]
    print(f"{len(tried)} searches, {sum(tried)} by the rarer words")
    assert 0.1 < sum(tried) / len(tried) < 0.9  # both ways were taken


@pytest.mark.thorough
def test_leaving_frequent_words_out_minds_the_documents(
    large: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_FEW", 200)
    for query in questions(8):
        for documents in ([document_id(2)], [document_id(1), document_id(4)]):
            hits = large.search_text(query, documents=documents, limit=20)
            exact = hits_of_all_words(large, query, documents=documents, limit=20)
            assert [s for _, s in hits] == pytest.approx([s for _, s in exact])


def test_a_small_library_is_searched_as_ever(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []
    monkeypatch.setattr(search, "count", lambda catalog, word: counted.append(word) or 1)
    assert filled.search_text("captain notice period") and counted == []
