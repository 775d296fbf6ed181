"""Damaged libraries: `check` names what is wrong, reading refuses it, nothing else suffers."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from drt_engine.errors import CorruptStore, StoreError
from drt_engine.store import RecordLayout, Store
from drt_engine.store.segments.format import (
    HEADER_SIZE,
    SegmentHeader,
    pack_header,
    parse_header,
    plan,
)
from tests.engine.store.helpers import (
    BF16,
    INT8,
    add_document,
    document_id,
    errors,
    open_store,
    segment_files,
)
from tests.tables import each_row

CHUNKS = 5
SECTIONS = [
    pytest.param(layout, name, id=f"{layout.encoding}-{name}")
    for layout in (INT8, BF16)
    for name in plan(layout, CHUNKS)[0]
]


def make(library: Path, layout: RecordLayout = INT8) -> Path:
    """A library with a good document (chunks 1 to 3) and one to break; its segment file."""
    with open_store(library, layout) as store:
        add_document(store, 1, ["fine "] * 3)
        add_document(store, 2, ["broken "] * CHUNKS)
    return next(path for path in segment_files(library) if path.name.startswith(document_id(2)))


def change(path: Path, at: int, bit: int = 0x10) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= bit
    path.write_bytes(data)


def findings(library: Path) -> set[str]:
    with Store.open(library) as store:
        return {finding.kind for finding in store.check()}


@pytest.mark.few(6)
@pytest.mark.parametrize(("layout", "name"), SECTIONS)
def test_a_flipped_bit_is_found_in_every_section(
    library: Path, layout: RecordLayout, name: str
) -> None:
    segment = make(library, layout)
    begin, end = plan(layout, CHUNKS)[0][name].span(2)
    change(segment, (begin + end) // 2)
    with open_store(library, layout) as store:
        found = [f for f in store.check() if f.kind == "crc"]
        assert [f.where for f in found] == [f"{segment.name}, chunk 6"]
        with pytest.raises(CorruptStore, match=f"chunk 2 of document {document_id(2)} is damaged"):
            store.read_chunks([1, 6])
        assert len(store.read_chunks([1, 2, 3, 4, 5, 7, 8]).ids) == 7


def test_every_header_byte_counts(library: Path) -> None:
    segment = make(library)
    whole = segment.read_bytes()
    for at in range(HEADER_SIZE):
        data = bytearray(whole)
        data[at] ^= 0x41
        with pytest.raises(CorruptStore, match="is damaged"):
            parse_header(bytes(data[:HEADER_SIZE]), file_size=len(whole), where="x")
    change(segment, 36)
    assert findings(library) == {"segment"}
    with open_store(library) as store:
        with pytest.raises(CorruptStore, match="checksum"):
            store.read_chunks([5])
        with pytest.raises(CorruptStore, match="checksum"):
            list(store.scan_landmarks())
        assert len(store.read_chunks([1]).ids) == 1


@each_row(
    ("at", "value"),
    [(8, 2), (12, 64), (16, 3), (20, 0), (24, 2**31), (28, 0), (32, 2**32 - 1), (36, 0), (80, 1)],
)
def test_a_sealed_header_out_of_range_is_refused(at: int, value: int) -> None:
    data = bytearray(pack_header(SegmentHeader(INT8, document_id(1), 0, CHUNKS)))
    data[at : at + 4] = value.to_bytes(4, "little")
    data[-4:] = zlib.crc32(data[:-4]).to_bytes(4, "little")
    with pytest.raises(CorruptStore, match="is damaged"):
        parse_header(bytes(data), file_size=plan(INT8, CHUNKS)[1], where="x")


@pytest.mark.parametrize("size", [0, 5, HEADER_SIZE, -1, 1], ids=str)
def test_a_wrong_size_is_found(library: Path, size: int) -> None:
    segment = make(library)
    total = segment.stat().st_size
    os.truncate(segment, total + size if abs(size) == 1 else size)
    assert findings(library) == {"segment"}
    with open_store(library) as store:
        for broken in (lambda: store.read_chunks([4]), lambda: list(store.scan_landmarks())):
            with pytest.raises(CorruptStore, match="is damaged"):
                broken()
        assert len(store.read_chunks([3]).ids) == 1
        store.remove_document(document_id(2))
        assert store.check() == []


def test_a_missing_segment_is_found(library: Path) -> None:
    make(library).unlink()
    assert findings(library) == {"missing"}
    with open_store(library) as store:
        for broken in (lambda: store.read_chunks([4]), lambda: list(store.scan_landmarks())):
            with pytest.raises(CorruptStore, match="is missing"):
                broken()


def test_a_segment_in_anothers_place_is_found(library: Path) -> None:
    segment = make(library)
    other = next(path for path in segment_files(library) if path != segment)
    segment.write_bytes(other.read_bytes())
    assert findings(library) == {"header"}
    with open_store(library) as store, pytest.raises(CorruptStore, match="catalogue says"):
        store.read_chunks([4])


def test_bytes_between_sections_are_checked(library: Path) -> None:
    segment = make(library)
    change(segment, plan(INT8, CHUNKS)[0]["lengths"].offset - 1)
    assert findings(library) == {"gap"}


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("DELETE FROM chunks WHERE id = 5", "offsets"),
        ("UPDATE chunks SET start = start + 1 WHERE id = 5", "offsets"),
        ("UPDATE chunks SET text = 'shrunk' WHERE id = 5", "search"),
        ("UPDATE chunks SET tokens = 3 WHERE id = 5", "lengths"),
        ("UPDATE documents SET tokens = 7 WHERE number = 2", "totals"),
        ("DELETE FROM documents WHERE number = 2", "catalog"),
        ("DELETE FROM segments WHERE document = 2", "catalog"),
        ("UPDATE settings SET value = '{\"chunk_tokens\": 0}' WHERE key = 'layout'", "catalog"),
        ("UPDATE settings SET value = '[' WHERE key = 'layout'", "catalog"),
    ],
)
def test_rows_that_disagree_are_found(library: Path, statement: str, kind: str) -> None:
    make(library)
    with closing(sqlite3.connect(library / "catalog.db")) as connection:
        connection.execute(statement)
        connection.commit()
    with Store.open(library) as store:
        assert kind in {f.kind for f in store.check() if f.severity == "error"}


@pytest.mark.parametrize("garbage", [b"not a database " * 400, b"\0" * 5_000])
def test_a_catalogue_of_garbage_is_refused(library: Path, garbage: bytes) -> None:
    make(library)
    (library / "catalog.db").write_bytes(garbage)
    with pytest.raises(CorruptStore, match="damaged or not a database"):
        Store.open(library)
    assert len(segment_files(library)) == 2


def test_a_damaged_page_of_the_catalogue_is_found(library: Path) -> None:
    make(library)
    data = bytearray((library / "catalog.db").read_bytes())
    for page in range(4096 * 2, len(data), 4096):
        data[page : page + 64] = b"\xa5" * 64
    (library / "catalog.db").write_bytes(data)
    with pytest.raises(CorruptStore), Store.open(library) as store:
        kinds = {finding.kind for finding in store.check()}
        assert "catalog" in kinds
        store.documents()


def test_a_lost_catalogue_is_not_replaced_by_an_empty_one(library: Path) -> None:
    make(library)
    (library / "catalog.db").unlink()
    with pytest.raises(CorruptStore, match=r"has lost its catalog\.db"):
        open_store(library)
    assert len(segment_files(library)) == 2


def test_an_empty_catalogue_is_not_taken_for_a_new_library(library: Path) -> None:
    make(library)
    (library / "catalog.db").write_bytes(b"")
    with pytest.raises(CorruptStore, match=r"has lost its catalog\.db"):
        open_store(library)
    assert len(segment_files(library)) == 2


def test_databases_of_others_and_of_the_future_are_refused(library: Path) -> None:
    make(library)
    with closing(sqlite3.connect(library / "catalog.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="version 99 and this program knows"):
        Store.open(library)
    with closing(sqlite3.connect(library / "catalog.db")) as connection:
        connection.execute("PRAGMA application_id = 1")
    with pytest.raises(StoreError, match="another program"):
        Store.open(library)


@pytest.fixture
def with_leftovers(library: Path) -> Iterator[Path]:
    make(library)
    for name in ("a.seg", "b.tmp", "README"):
        (library / "segments" / name).write_bytes(b"left")
    yield library
    with Store.open(library) as store:
        assert errors(store) == []


def test_orphans_are_notes_until_a_writer_clears_them(with_leftovers: Path) -> None:
    with open_store(with_leftovers) as store:
        notes = [(f.kind, f.where, f.severity) for f in store.check()]
        assert notes == [("orphan", name, "note") for name in ("README", "a.seg", "b.tmp")]
        add_document(store, 3, ["new"])
        assert [f.where for f in store.check()] == ["README"]
