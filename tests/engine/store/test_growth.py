"""What work costs must not grow with the documents that it is not about: counted, not timed."""

from __future__ import annotations

import difflib
import os
import re
import sqlite3
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest
import torch

from drt_engine.errors import NotFound
from drt_engine.store import Store
from drt_engine.store.catalogue.database import Database
from drt_engine.store.catalogue.document_rows import nearest
from drt_engine.store.filesystem.library_folder import Folder
from drt_engine.store.segments import landmark_files
from drt_engine.store.segments import reader as readers
from drt_engine.store.types import RecordLayout, SegmentRow
from tests.engine.store.helpers import add_document, document_id, errors, open_store

LOOSE = 8  # segments that are brought together in a landmark file
MANY = LOOSE + 6
GROWING = {"documents", "segments", "chunks", "sources", "places", "origins", "blocks"}


def pieces(number: int) -> list[str]:
    return [f"Letter {number} is of the boat. ", f"Page two of letter {number} is of bread. "]


def filled(path: Path, count: int) -> Store:
    store = open_store(path)
    for number in range(1, count + 1):
        add_document(store, number, pieces(number))
    return store


@pytest.fixture(autouse=True)
def _small_landmark_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landmark_files, "MIN_LOOSE_SEGMENTS", LOOSE)


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Store]:
    with filled(tmp_path / "library", MANY) as store:
        yield store


def scans_of(store: Store, work: Callable[[], object]) -> set[str]:
    """The tables that SQLite went through from end to end for some work."""
    connection, statements = store._database._open(), []
    connection.set_trace_callback(statements.append)
    work()
    connection.set_trace_callback(None)
    scans: set[str] = set()
    for statement in filter(re.compile("SELECT|INSERT|UPDATE|DELETE").match, statements):
        try:
            plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        except sqlite3.OperationalError:  # of the full-text index, which has no plan
            continue
        for step in (row[3] for row in plan):
            whole = re.match(r"SCAN (?:TABLE )?(\w+)", step)
            scans |= {whole[1]} if whole else set()
    assert len(statements) > 3, "nothing was traced"
    return scans & (GROWING | {"d", "s", "c"})


def rows_of(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> int:
    """How many rows came out of the catalogue for some work."""
    count, query = 0, Database.query

    def counting(self: Database, *arguments: object) -> list[tuple[object, ...]]:
        nonlocal count
        rows = query(self, *arguments)  # type: ignore[arg-type]
        count += len(rows)
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(Database, "query", counting)
        work()
    return count


def landmarks_of(store: Store, documents: list[str] | None = None) -> dict[int, torch.Tensor]:
    scan = store.scan_landmarks(documents)
    return {id: row for ids, rows in scan for id, row in zip(ids, rows, strict=True)}


def test_reading_tagging_and_removing_one_goes_through_no_table(library: Store) -> None:
    add_document(library, 200, pieces(200))  # the first of an opening looks for leftovers
    assert scans_of(library, lambda: add_document(library, 201, pieces(201))) == set()
    newer = ["Letter 201 is lost. "]
    again = {"source": "/docs/201.txt"}
    assert scans_of(library, lambda: add_document(library, 202, newer, **again)) == set()
    tagged, removed = document_id(200), document_id(1)
    assert scans_of(library, lambda: library.change_tags(tagged, add=["seen"])) == set()
    assert scans_of(library, lambda: library.remove_document(removed)) == set()


def test_an_older_reading_that_was_interrupted_goes_with_the_next(library: Store) -> None:
    with library.begin_document(
        document_id="1" * 16, title="Half", source="/docs/half.txt", media_type=""
    ):
        pass
    assert len(library.partial_documents()) == 1
    add_document(library, 300, pieces(300), source="/docs/half.txt")
    assert library.partial_documents() == []


def test_a_document_is_named_without_listing_all(
    library: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.note_source("/copies/other.txt", "digest", document_id(7))
    library.note_source("/docs/7.txt", "digest", document_id(7))
    for name in ("/docs/7.txt", "Title 7", "7.txt", document_id(7)[:12], "other.txt"):
        assert library.document(name).id == document_id(7)
        assert rows_of(monkeypatch, lambda name=name: library.document(name)) < 8
    with pytest.raises(NotFound, match=r"did you mean 'Title 7\d?'"):
        library.document("Titel 7")


def test_the_nearest_of_many_names_is_looked_for_among_likely_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"a report on things and stuff {number}.txt" for number in range(3_000)]
    compared: list[int] = []
    close_matches = difflib.get_close_matches

    def counting(name: str, some: Collection[str], n: int) -> list[str]:
        compared.append(len(some))
        return close_matches(name, some, n=n)

    monkeypatch.setattr(difflib, "get_close_matches", counting)
    assert "'The Harbour'" in nearest("harbuor", [*names, "The Harbour"])
    assert "'harbour.txt'" in nearest("harbuor.txt", [*names, "harbour.txt"])
    assert max(compared) <= 1_000


def test_a_removed_document_costs_later_scans_no_row_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = []
    for count in (MANY, MANY + LOOSE):
        with filled(tmp_path / str(count), count) as store:
            store.remove_document(document_id(3))
            rows.append([rows_of(monkeypatch, lambda: landmarks_of(store)) for _ in range(2)])
    assert rows[0] == rows[1]
    assert rows[0][1] < rows[0][0] < 30  # what is left of a file is asked for once


@pytest.mark.parametrize("most_slices", [64, 0])
@pytest.mark.parametrize("part", [4, readers.SCAN_ROWS])
def test_scans_after_removals_have_what_is_left(
    library: Store, monkeypatch: pytest.MonkeyPatch, most_slices: int, part: int
) -> None:
    monkeypatch.setattr(readers, "_MAX_SLICES", most_slices)
    monkeypatch.setattr(readers, "SCAN_ROWS", part)
    before = landmarks_of(library)
    for number in (1, 3, 4, LOOSE, MANY):
        gone = library.chunk_ids([document_id(number)])
        library.remove_document(document_id(number))
        before = {chunk: row for chunk, row in before.items() if chunk not in gone}
        after = landmarks_of(library)
        assert after.keys() == before.keys() == set(library.chunk_ids())
        assert all(torch.equal(after[chunk], before[chunk]) for chunk in after)
        coded = [ids for ids, _ in library.scan_coded_landmarks()]
        assert {chunk for ids in coded for chunk in ids} == before.keys()
    one = landmarks_of(library, [document_id(7)])
    assert list(one) == library.chunk_ids([document_id(7)])
    assert errors(library) == []


def test_removals_by_another_process_are_seen_by_the_next_scan(library: Store) -> None:
    before = landmarks_of(library)
    with open_store(library.path) as other:
        gone = [*other.chunk_ids([document_id(2)]), *other.chunk_ids([document_id(9)])]
        other.remove_document(document_id(2))
        with library.snapshot() as view:
            assert landmarks_of(view).keys() == before.keys() - set(gone[:2])
            other.remove_document(document_id(9))
            assert landmarks_of(view).keys() == before.keys() - set(gone[:2])
    assert landmarks_of(library).keys() == before.keys() - set(gone)


@pytest.mark.parametrize("damaged", [False, True])
def test_landmark_files_that_join_are_copied_and_not_gathered_again(
    library: Store, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    library.remove_document(document_id(2))
    (old,) = library.catalog.landmark_files()
    if damaged:
        file = library.path / "segments" / old.name
        file.write_bytes(file.read_bytes()[:-8] + b"\x55" * 8)
    gathered: list[str] = []
    landmark_bytes = landmark_files.landmark_bytes

    def counting(folder: Folder, row: SegmentRow, layout: RecordLayout) -> bytearray:
        gathered.append(row.document_id)
        return landmark_bytes(folder, row, layout)

    monkeypatch.setattr(landmark_files, "landmark_bytes", counting)
    before = {} if damaged else landmarks_of(library)
    for number in range(400, 400 + LOOSE):
        add_document(library, number, pieces(number))
    (joined,) = library.catalog.landmark_files()
    assert joined.id != old.id and joined.chunks == joined.live
    assert (document_id(1) in gathered) is damaged
    assert len(gathered) == joined.chunks // 2 - (0 if damaged else LOOSE - 1)
    after = landmarks_of(library)
    assert all(torch.equal(after[chunk], row) for chunk, row in before.items())
    assert errors(library) == []


def test_words_of_one_document_are_looked_for_in_its_chunks_alone(library: Store) -> None:
    some = [document_id(6), document_id(7)]
    statements: list[str] = []
    connection = library._database._open()
    connection.set_trace_callback(statements.append)
    found = [chunk for chunk, _ in library.search_text("boat", documents=some)]
    connection.set_trace_callback(None)
    assert sorted(found) == library.chunk_ids(some)
    (ranking,) = [s for s in statements if "f.rank" in s and not s.startswith("--")]
    plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {ranking}"))
    assert re.search(r"SCAN f VIRTUAL TABLE INDEX \d+:[^ ]*[<>]", plan), plan
    assert library.holds_words("boat", documents=some)
    assert library.search_text("boat", documents=[]) == []


def test_deleted_files_are_closed_without_listing_the_folder(
    library: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, gone = (library.chunk_ids([document_id(number)]) for number in (MANY, MANY - 1))
    library.read_chunks([*kept, *gone])
    landmarks_of(library)
    reader = library._opened_reader()
    names = {row.name for row in library.catalog.segments([document_id(MANY)])}
    assert len(reader._files) == 2 and len(reader._copied) == 6
    monkeypatch.setattr(os, "listdir", None)
    library.remove_document(document_id(MANY - 1))
    reader.drop_deleted()
    assert set(reader._files) == names and len(reader._copied) == 5
    for number in range(400, 400 + LOOSE):  # now these are in a landmark file, too
        add_document(library, number, pieces(number))
    landmarks_of(library)
    assert len(reader._copied) < 10
