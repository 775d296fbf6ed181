"""The approximate index: what a scan with it sees, and what damage, writers and upkeep do to it."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ReferenceType as Reference
from weakref import ref

import pytest
import torch

from drt_engine.errors import FingerprintMismatch, NotFound, StoreError
from drt_engine.store import Store
from drt_engine.store.federation import FederatedStore
from drt_engine.store.index import writer
from drt_engine.store.index.probe import ProbedLandmarks
from drt_engine.store.index.writer import IndexPlan
from drt_engine.store.segments import landmark_files, reader
from drt_engine.store.segments.landmark_files import MappedLandmarkFile, map_landmark_file
from drt_engine.store.view import LibraryView
from tests.engine.store.helpers import (
    FINGERPRINT,
    INT8,
    add_document,
    document_id,
    errors,
    make_batch,
    make_texts,
    open_store,
    text_id,
)

LISTS = 5
QUERY = torch.tensor([1.0, 0.5, -0.5, 0.0, 0.0, 0.2])


def pieces(number: int, count: int = 30) -> list[str]:
    return [f"document {number}, sentence {n}.\n" for n in range(count)]


def plan(view: LibraryView, fingerprint: str | None = None) -> IndexPlan:
    """Each landmark in the list of the nearest of a few random centroids."""
    rows = torch.cat([part for _, part in view.scan_landmarks()]).float()
    chance = torch.Generator().manual_seed(0)
    centroids = torch.randn(LISTS, rows.shape[1], generator=chance)
    centroids = torch.nn.functional.normalize(centroids, dim=1)
    lists = (rows @ centroids.T).argmax(dim=1).int()
    return IndexPlan(
        centroids, lists, *view.index.gaps(), fingerprint or view.fingerprint or FINGERPRINT
    )


def make_index(store: Store, probes: int = 2) -> Path:
    with store.snapshot() as view:
        store.make_index(view, plan(store), probes=probes)
    store.clear_leftovers()
    (file,) = (store.path / "segments").glob("*.ivf")
    return file


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(tmp_path / "library")
    for number in range(1, 5):
        add_document(store, number, pieces(number))
    return store


def landmarks(probed: ProbedLandmarks | Store) -> dict[int, list[float]]:
    """The landmark of each chunk that is scanned."""
    scanned = probed.parts if isinstance(probed, ProbedLandmarks) else probed.scan_coded_landmarks()
    rows = {}
    for ids, part in scanned:
        assert len(ids) == len(part) and not rows.keys() & set(ids)
        rows |= dict(zip(ids, part.rows.tolist(), strict=True))
    return rows


def scores(probed: ProbedLandmarks) -> list[float]:
    return sorted(sum((part.rows.float() @ QUERY).tolist() for _, part in probed.parts))


@pytest.mark.parametrize("pass_bytes", [writer.PASS_BYTES, 200])
def test_all_lists_together_are_the_library(
    store: Store, pass_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PASS_BYTES", pass_bytes)  # 200: some lists, and one alone
    make_index(store)
    assert landmarks(store.index.probe(QUERY, LISTS)) == landmarks(store)
    assert errors(store) == []
    info = store.index.info()
    assert info is not None and (info.chunks, info.chunks_since, info.lists) == (120, 0, LISTS)


def test_a_scan_is_of_the_nearest_lists(store: Store) -> None:
    make_index(store, probes=2)
    probed, every = store.index.probe(QUERY), landmarks(store)
    assert (probed.info.probed_lists, probed.info.lists) == (2, LISTS) and probed.info.approximate
    nearest = (plan(store).centroids @ QUERY).topk(2).indices.tolist()
    places = dict(zip(every, plan(store).lists.tolist(), strict=True))
    assert landmarks(probed) == {c: row for c, row in every.items() if places[c] in nearest}
    store.set_index_probes(LISTS + 1)  # than which there are no more
    assert not store.index.probe(QUERY).info.approximate
    info = store.index.info()
    assert info is not None and info.probes == LISTS


def test_what_was_read_later_is_scanned_and_what_is_gone_is_known(store: Store) -> None:
    interrupted = pieces(9, 6)
    begun = {"title": "t", "source": "/docs/9.txt", "media_type": "text/plain"}
    with store.begin_document(document_id=text_id(interrupted), **begun) as document:
        document.append(make_batch(INT8, [4] * 3), make_texts(interrupted[:3]))
    make_index(store)
    first = set(landmarks(store))
    add_document(store, 5, pieces(5))
    add_document(store, 9, interrupted)  # goes on: half of it is before the index, half behind
    added = set(landmarks(store)) - first
    assert len(added) == 36
    info = store.index.info()
    assert info is not None and (info.chunks, info.chunks_since) == (120, 36)
    assert landmarks(store.index.probe(QUERY, LISTS)) == landmarks(store)
    assert added < set(landmarks(store.index.probe(QUERY, 1)))
    gone = set(store.chunk_ids([document_id(2)]))
    store.remove_document(document_id(2))
    scanned = set(landmarks(store.index.probe(QUERY, LISTS)))
    assert store.index.present(sorted(scanned)) == scanned - gone == set(landmarks(store))
    store.compact()  # joins segments; chunks keep their ids
    info = store.index.info()
    assert info is not None and info.chunks_since == 36
    chosen = sorted(landmarks(store))[::7]
    assert store.index.landmarks(chosen).tolist() == [landmarks(store)[c] for c in chosen]
    with pytest.raises(StoreError, match="chunk"):
        store.index.landmarks([min(gone)])
    assert errors(store) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("place", [0.0, 0.05, 0.5, 0.97])
def test_damage_costs_the_index_not_the_answer(store: Store, place: float) -> None:
    file = make_index(store, probes=LISTS)
    data = bytearray(file.read_bytes())
    data[int(place * len(data))] ^= 1
    file.write_bytes(data)
    with Store.open(store.path, fingerprint=FINGERPRINT, layout=INT8) as again:
        probed = again.index.probe(QUERY)
        assert "is damaged" in probed.info.notes[0] and not probed.info.approximate
        assert landmarks(probed) == landmarks(again)
        findings = again.check()
        assert [finding.kind for finding in findings] == ["index"]
        again.repair(findings)
        assert again.index.info() is None and errors(again) == [] and not file.exists()


@pytest.mark.few(1)
@pytest.mark.parametrize("damage", ["missing", "short", "empty", "setting", "foreign"])
def test_other_damage(store: Store, damage: str) -> None:
    file = make_index(store)
    if damage == "missing":
        file.unlink()
    elif damage == "setting":
        store.set_setting("approximate_index", '{"name": "../catalog.db", "crc": 1, "probes": 1}')
    elif damage == "foreign":
        file.write_bytes(b"PK\3\4" * 100)
    else:
        file.write_bytes(file.read_bytes()[: 100 if damage == "short" else 0])
    with Store.open(store.path, fingerprint=FINGERPRINT, layout=INT8) as again:
        probed = again.index.probe(QUERY)
        assert landmarks(probed) == landmarks(again) and probed.info.notes
        assert "index" in [finding.kind for finding in again.check()]
        assert again.drop_index() and errors(again) == []
        assert not again.drop_index()


def test_a_file_that_is_cut_short_while_it_is_open(store: Store) -> None:
    file = make_index(store, probes=LISTS)
    assert not store.index.probe(QUERY).info.notes
    with file.open("r+b") as open_file:
        open_file.truncate(file.stat().st_size // 2)
    probed = store.index.probe(QUERY)
    assert "cut short" in probed.info.notes[0] and landmarks(probed) == landmarks(store)


def test_a_new_index_takes_the_old_ones_place(store: Store) -> None:
    old = make_index(store)
    assert "no approximate index" not in str(store.index.probe(QUERY).info.notes)
    new = make_index(store)
    assert old != new and not old.exists()
    (store.path / "segments" / "index-0123456789ab.ivf").write_bytes(b"of a killed writer")
    with Store.open(store.path) as again:
        again.set_index_probes(1)  # the next writer deletes it
        assert list((store.path / "segments").glob("*.ivf")) == [new]
        again.drop_index()
        with pytest.raises(NotFound, match="no approximate index"):
            again.set_index_probes(1)


@pytest.mark.thorough
def test_no_landmark_file_stays_open_that_another_has_replaced(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landmark_files, "MIN_LOOSE_SEGMENTS", 2)
    opened: list[Reference[MappedLandmarkFile]] = []

    def noted(*arguments: Any) -> MappedLandmarkFile:
        file = map_landmark_file(*arguments)
        opened.append(ref(file))
        return file

    monkeypatch.setattr(reader, "map_landmark_file", noted)
    make_index(store)
    for number in range(5, 9):
        add_document(store, number, pieces(number))
        store.compact()  # makes one landmark file of all
        assert landmarks(store.index.probe(QUERY, LISTS)).keys() == set(store.chunk_ids())
    gc.collect()
    assert len(opened) > 2 and len([file for file in opened if file() is not None]) == 1


def test_no_landmark_stays_in_it_that_is_forgotten_or_written_anew(store: Store) -> None:
    file = make_index(store)
    store.forget_document(document_id(1))
    assert store.index.info() is None and not file.exists()
    file = make_index(store)
    row = store.catalog.all_segments()[0]
    assert store.replace_segment(row, make_batch(INT8, [4] * row.chunks, seed=99))
    assert store.index.info() is None and not file.exists()
    assert errors(store) == []


def test_an_index_of_another_model_is_refused(store: Store) -> None:
    with store.snapshot() as view, pytest.raises(FingerprintMismatch, match="another model"):
        store.make_index(view, plan(store, "another"), probes=1)
    store.clear_leftovers()
    assert not list((store.path / "segments").glob("*.ivf"))


def federated(paths: Sequence[Path]) -> FederatedStore:
    open_one = partial(Store.open, fingerprint=FINGERPRINT, layout=INT8)
    return FederatedStore.open(paths[0], paths, open_one)


def test_several_libraries_have_an_index_each(store: Store, tmp_path: Path) -> None:
    paths = [store.path, tmp_path / "second", tmp_path / "third"]
    for path, numbers in zip(paths[1:], ([6, 7], [1, 8]), strict=True):
        with open_store(path) as other:
            for number in numbers:
                add_document(other, number, pieces(number))
    make_index(store, probes=LISTS)
    with open_store(paths[1]) as second, federated(paths[:2]) as both:
        probed = both.index.probe(QUERY)
        assert "second: there is no approximate index" in probed.info.notes[0]
        assert landmarks(probed) == landmarks(both)  # type: ignore[arg-type]
        make_index(second)
        probed = both.index.probe(QUERY, 1)
        assert (probed.info.probed_lists, probed.info.lists) == (2, 2 * LISTS)
        every = landmarks(both)  # type: ignore[arg-type]
        rows = landmarks(probed)
        assert rows.items() <= every.items() and 0 < len(rows) < len(every)
        chosen = sorted(every)[::9][::-1]
        assert both.index.landmarks(chosen).tolist() == [every[c] for c in chosen]
        assert both.index.present([*chosen, 10_000]) == set(chosen)
        with pytest.raises(StoreError, match="name one"):
            both.index.info()
    with federated(paths) as three:  # a document of the first is in the third, too
        probed = three.index.probe(QUERY, LISTS)
        assert "third: it shares documents" in probed.info.notes[0]
        assert landmarks(probed) == landmarks(three)  # type: ignore[arg-type]
