"""Candidates by the approximate index, and how it is made with FAISS."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError, StoreError
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.retrieval import clustering
from drt_engine.retrieval.candidates import find_candidates, scan_index, scan_scope
from drt_engine.retrieval.filters import Scope
from drt_engine.retrieval.index import (
    IndexOptions,
    default_lists,
    default_probes,
    make_index,
    measure_recall,
)
from drt_engine.store import Store
from tests.engine.model.factories import tiny
from tests.engine.store.helpers import INT8, add_document, document_id, errors, open_store
from tests.engine.store.test_index import QUERY, pieces, plan


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(tmp_path / "library")
    for number in range(1, 5):
        add_document(store, number, pieces(number, 40))
    return store


def indexed(store: Store, probes: int) -> None:
    with store.snapshot() as view:
        store.make_index(view, plan(store), probes=probes)


def test_all_lists_give_the_candidates_of_an_exact_scan(store: Store) -> None:
    indexed(store, probes=5)
    scorer = LandmarkScorer(tiny(lexical_scores=True))
    words = {3: 1.0, 50: 0.4}
    exact = find_candidates(QUERY, scorer, scan_scope(store, Scope()), words, count=6)
    scan, info = scan_index(store, QUERY)
    approximate = find_candidates(QUERY, scorer, scan, words, count=6)
    assert not info.approximate and approximate.chunk_ids == exact.chunk_ids
    assert torch.equal(approximate.scores.total, exact.scores.total)


def test_chunks_with_words_have_their_scores_outside_of_the_lists(store: Store) -> None:
    indexed(store, probes=1)
    scorer = LandmarkScorer(tiny(lexical_scores=True))
    scan, info = scan_index(store, QUERY)
    scanned = {chunk_id for ids, _ in scan.parts for chunk_id in ids}
    outside = next(c for c in store.chunk_ids() if c not in scanned)
    found = find_candidates(QUERY, scorer, scan, {outside: 1.0}, count=6)
    exact = find_candidates(QUERY, scorer, scan_scope(store, Scope()), {outside: 1.0}, count=160)
    assert info.approximate and outside in found.chunk_ids
    place, exact_place = found.chunk_ids.index(outside), exact.chunk_ids.index(outside)
    assert found.scores.total[place] == exact.scores.total[exact_place]


def test_removed_chunks_make_room_for_the_next(store: Store) -> None:
    indexed(store, probes=5)
    scorer = LandmarkScorer(tiny())
    for number in (1, 3):  # documents have equal landmarks: the best of each are gone
        store.remove_document(document_id(number))
    exact = find_candidates(QUERY, scorer, scan_scope(store, Scope()), {}, count=9)
    found = find_candidates(QUERY, scorer, scan_index(store, QUERY)[0], {}, count=9)
    assert found.chunk_ids == exact.chunk_ids and len(found.chunk_ids) == 9


def test_without_an_index_everything_is_scanned(store: Store) -> None:
    scan, info = scan_index(store, QUERY)
    assert "no approximate index" in info.notes[0] and not info.approximate
    found = find_candidates(QUERY, LandmarkScorer(tiny()), scan, {}, count=9)
    exact = find_candidates(QUERY, LandmarkScorer(tiny()), scan_scope(store, Scope()), {}, count=9)
    assert found.chunk_ids == exact.chunk_ids


def test_lists_grow_with_the_root_of_the_chunks() -> None:
    assert [default_lists(n) for n in (1, 100, 1 << 14, 1 << 20, 1 << 30)] == [
        1,
        2,
        256,
        2048,
        65_536,
    ]
    assert [default_probes(n) for n in (1, 64, 256, 2048)] == [1, 32, 32, 128]
    with pytest.raises(ConfigError, match="probes is 0"):
        IndexOptions(probes=0)


def test_without_faiss_a_sentence_says_how_to_get_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'pip install "drt-assistant\[faiss\]"'):
        make_index(store)


@pytest.mark.thorough
def test_faiss_groups_what_is_alike(store: Store) -> None:
    pytest.importorskip("faiss")
    steps: list[str] = []
    info = make_index(
        store, IndexOptions(lists=8), progress=lambda step, done, total: steps.append(step)
    )
    assert (info.chunks, info.lists, info.probes) == (160, 8, 8)
    assert list(dict.fromkeys(steps)) == ["training", "sorting", "writing"]
    queries = list(torch.randn(8, INT8.landmark_size, generator=torch.Generator().manual_seed(1)))
    rows = measure_recall(store, queries, count=5)
    assert [row.probes for row in rows] == [1, 2, 4, 8] and rows[-1].recall == 1
    assert rows[0].recall > 0.25  # an eighth of the lists, were they made of chance
    assert errors(store) == []


def test_an_index_that_is_removed_while_it_is_made_is_a_sentence(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss")
    make_index(store)

    def meanwhile() -> None:
        with Store.open(store.path) as writer:
            writer.drop_index()

    monkeypatch.setattr(store, "clear_leftovers", meanwhile)
    with pytest.raises(StoreError, match="was removed at once.*make it again"):
        make_index(store)


def test_an_empty_library_has_nothing_to_group(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    with open_store(tmp_path / "empty") as empty, pytest.raises(StoreError, match="no documents"):
        make_index(empty)
    with pytest.raises(StoreError, match="no approximate index"):
        measure_recall(open_store(tmp_path / "empty"), [QUERY], count=1)


def test_a_landmark_without_direction_has_a_list() -> None:
    rows = torch.tensor([[0.0, 0.0], [float("nan"), 1.0]]).half()
    assert clustering.directions(rows).tolist() == [[0, 0], [0, 1]]
