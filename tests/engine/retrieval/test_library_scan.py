"""The library's scan, which keeps only a few chunks, chooses what scoring every chunk would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor

from drt_engine.config.model import preset
from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.retrieval.candidates import (
    Candidates,
    LandmarkScan,
    LexicalScores,
    RetrieverName,
    find_candidates,
    lexical_scores,
)
from drt_engine.retrieval.filters import Scope
from drt_engine.retrieval.library import (
    LibraryQuery,
    SearchOptions,
    choose_chunks,
    library_candidates,
)
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_kernels.scan import Landmarks
from tests.engine.model.factories import tiny
from tests.tables import each_row

WIDTH = preset("drt-tiny").width
NO_QUESTION = ChunkMemory(*(torch.zeros(1, 0) for _ in range(4)))
PARTS = [range(100, 400), [7, 900, 3, 12], range(1000, 1010), [5000]]


class Scanned:
    """As much of a store as the scan needs: parts with ids in any order, and their landmarks."""

    def __init__(self) -> None:
        self.parts = [(ids, torch.randn(len(ids), WIDTH).half()) for ids in PARTS]

    def scan_coded_landmarks(
        self, documents: Sequence[str] | None = None
    ) -> Iterator[tuple[Sequence[int], Landmarks]]:
        yield from ((ids, Landmarks(landmarks)) for ids, landmarks in self.parts)

    def looked_up(self, lookup: object) -> object:
        return self

    def neighbours_of(self, chunk_ids: Sequence[int]) -> dict[int, tuple[int | None, int | None]]:
        return dict.fromkeys(chunk_ids, (None, None))


def candidates(
    store: Scanned,
    query: Tensor,
    scorer: LandmarkScorer,
    lexical: dict[int, float],
    retriever: RetrieverName = "hybrid",
) -> Candidates:
    """The candidates of five chunks for a query, given the BM25 scores of its words."""
    runtime = SimpleNamespace(config=tiny(), device=torch.device("cpu"))
    library = LibraryQuery(
        cast(Runtime, runtime),
        cast(Store, store),
        (),
        SearchOptions(top_k=5, retriever=retriever),
        LexicalScores(lexical, lexical) if retriever != "landmark" else LexicalScores(),
    )
    return library_candidates(library, query, scorer, NO_QUESTION)


def every_score(
    store: Scanned, query: Tensor, scorer: LandmarkScorer, bonus: dict[int, float]
) -> dict[int, float]:
    weight = 0.0 if scorer.lexical is None else scorer.lexical.item()
    found = {}
    for ids, landmarks in store.parts:
        scores = scorer.scores(query[None], landmarks.float()).total[0].tolist()
        found.update({c: s + weight * bonus.get(c, 0) for c, s in zip(ids, scores, strict=True)})
    return found


def best(scores: dict[int, float], count: int) -> dict[int, float]:
    return dict(sorted(scores.items(), key=lambda item: -item[1])[:count])


def assert_same_choice(scanned: Candidates, scores: dict[int, float], count: int = 5) -> None:
    ids, totals = scanned.chunk_ids, scanned.scores.total
    actual = best(dict(zip(ids, totals.tolist(), strict=True)), count)
    wanted = best(scores, count)
    assert list(actual) == list(wanted)
    assert list(actual.values()) == pytest.approx(list(wanted.values()), rel=1e-5, abs=1e-5)
    assert len(ids) == len(set(ids)) < 40


@each_row("weight", [4.0, 0.3, -2.0])
@each_row("retriever", ["hybrid", "landmark"])
@each_row("lexical", [{}, {3: 1.0, 5000: 0.5, 250: 0.4, 251: 0.1, 1003: 0.2}])
def test_the_best_are_among_the_few(
    retriever: RetrieverName, lexical: dict[int, float], weight: float
) -> None:
    store = Scanned()
    scorer = LandmarkScorer(tiny(lexical_scores=True))
    assert scorer.lexical is not None
    scorer.lexical.data.fill_(weight)
    query = torch.randn(WIDTH)
    with torch.inference_mode():
        scanned = candidates(store, query, scorer, lexical, retriever)
        bonus = lexical if retriever == "hybrid" else {}
        assert_same_choice(scanned, every_score(store, query, scorer, bonus))


def test_a_scorer_without_lexical_scores_needs_no_words() -> None:
    store = Scanned()
    scorer = LandmarkScorer(tiny(lexical_scores=False))
    query = torch.randn(WIDTH)
    scanned = candidates(store, query, scorer, {3: 1.0})
    assert scanned.scores.lexical is None
    assert_same_choice(scanned, every_score(store, query, scorer, {}))


def test_by_words_alone_only_their_chunks_are_scored() -> None:
    store = Scanned()
    scorer = LandmarkScorer(tiny(lexical_scores=True))
    lexical = {3: 1.0, 5000: 0.9, 250: 0.8, 251: 0.7, 1003: 0.6, 1004: 0.5, 77_777: 0.95}
    query = torch.randn(WIDTH)
    with torch.inference_mode():
        scanned = candidates(store, query, scorer, lexical, "lexical")
        wanted = every_score(store, query, scorer, lexical)
    # The best five by words, but for the one that no part holds.
    ids = scanned.chunk_ids
    assert ids == [3, 250, 251, 5000]
    assert scanned.scores.total.tolist() == pytest.approx([wanted[c] for c in ids], rel=1e-5)


def test_without_a_word_that_occurs_the_landmarks_decide() -> None:
    store = Scanned()
    scorer = LandmarkScorer(tiny(lexical_scores=True))
    query = torch.randn(WIDTH)
    with torch.inference_mode():
        scanned = candidates(store, query, scorer, {}, "lexical")
        assert_same_choice(scanned, every_score(store, query, scorer, {}))


def test_an_empty_library_has_nothing() -> None:
    store = Scanned()
    store.parts = []
    scanned = candidates(store, torch.randn(WIDTH), LandmarkScorer(tiny()), {}, "landmark")
    assert scanned.chunk_ids == [] and scanned.scores.total.shape == (0,)


def test_neighbours_of_chunks_with_the_words_gain_a_part_of_their_share() -> None:
    torch.manual_seed(3)
    store = Scanned()
    beside = {250: (249, 251), 100: (None, 101), 5000: (None, None)}
    asked: list[list[int]] = []

    def neighbours_of(
        chunk_ids: Sequence[int],
    ) -> dict[int, tuple[int | None, int | None]]:
        asked.append(list(chunk_ids))
        return {chunk: beside[chunk] for chunk in chunk_ids}

    store.neighbours_of = neighbours_of  # type: ignore[method-assign]
    own = {250: 1.0, 100: 0.5, 5000: 0.2}
    store.search_text = lambda *_, **options: list(own.items())  # type: ignore[attr-defined]
    lexical = lexical_scores(cast(Store, store), "question", Scope(), neighbour_weight=0.3)
    wanted = {250: 1.0, 100: 0.5, 5000: 0.2, 249: 0.3, 251: 0.3, 101: 0.15}
    assert lexical.matches == own and lexical.spread == pytest.approx(wanted)
    query = torch.randn(WIDTH)
    scorer = LandmarkScorer(tiny(lexical_scores=True))
    landmarks = LandmarkScan(store.scan_coded_landmarks())
    scanned = find_candidates(query, scorer, landmarks, lexical.spread, count=5)
    assert_same_choice(scanned, every_score(store, query, scorer, wanted))
    assert asked == [list(own)]  # all in one query


def test_the_best_by_words_are_among_the_chosen() -> None:
    scores = torch.linspace(9, 0, 10)
    words = torch.zeros(10)
    words[9], words[8], words[7] = 0.9, 0.8, 0.7
    chosen = choose_chunks(scores, 8, words)
    assert [choice.number for choice in chosen] == [0, 1, 2, 3, 4, 5, 8, 9]
    expected = torch.softmax(scores[[0, 1, 2, 3, 4, 5, 8, 9]], dim=0)  # of the scores themselves
    assert torch.tensor([choice.probability for choice in chosen]).allclose(expected)
    assert len(choose_chunks(scores, 1, words)) == 1
    without = [choice.number for choice in choose_chunks(scores, 8, None)]
    assert without == [choice.number for choice in choose_chunks(scores, 8, 0 * words)]
    assert without == list(range(8))
