"""The block tree is stored, checked, moved, kept by a rebuild, and learnt by older libraries."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from drt_engine.blocks.lookup import units_between
from drt_engine.documents import Source
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.rebuild import rebuild
from drt_engine.store import Store
from drt_engine.store.catalogue import row_values
from drt_engine.store.catalogue.row_checksums import pack_text
from drt_engine.store.view import LibraryView
from tests.engine.store.helpers import errors
from tests.model_folder import library, read, runtime

LINES = [f"07:{number:02} barge {number} entered" for number in range(15, 45)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lock.log"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path, file: Path) -> Path:
    with library(tmp_path / "library") as store:
        read(store, file)
    return tmp_path / "library"


def records(store: LibraryView) -> list[str]:
    row = store.documents()[0]
    text = store.text(row.id, 0, row.characters)
    return [text[n.start : n.end] for n in units_between(store, row.id, 0, row.characters)]


def test_another_process_reads_it(folder: Path) -> None:
    with Store.open(folder) as store:
        assert records(store) == LINES
        assert store.check() == []


def test_an_archive_and_a_rebuild_keep_it(folder: Path, tmp_path: Path) -> None:
    with Store.open(folder) as store, library(tmp_path / "other") as other:
        store.export_archive(tmp_path / "a.drt")
        other.import_archive(tmp_path / "a.drt")
        assert records(other) == LINES and other.check() == []
    rebuild(runtime(), folder, lock_timeout=1.0)
    with Store.open(folder) as store:
        assert records(store) == LINES and store.check() == []


def test_a_library_of_version_6_learns_it(folder: Path, file: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "catalog.db")) as connection, connection:
        row_values.update_document_checksum(connection, 1, version=6)
        connection.execute("DROP TABLE blocks")
        connection.execute("DROP INDEX documents_partial")
        connection.execute(
            "UPDATE sources SET digest = '4:' || substr(digest, instr(digest, ':') + 1)"
        )
        connection.execute("PRAGMA user_version = 6")
    with library(folder) as store:
        assert records(store) == [] and store.check() == []  # by the checksum of version 6
        ingest_source(runtime(), store, Source.from_path(file))
        assert records(store) == LINES and errors(store) == []


@pytest.mark.parametrize("nodes", ["[]", "{", '[["record", 0, 99999]]'])
def test_a_damaged_one_is_found_and_costs_no_answer(folder: Path, nodes: str) -> None:
    with contextlib.closing(sqlite3.connect(folder / "catalog.db")) as connection, connection:
        connection.execute("UPDATE blocks SET nodes = ?", (pack_text(nodes),))
    with Store.open(folder) as store:
        assert {"document", "blocks"} == {finding.kind for finding in store.check()}
        records(store)


def test_a_removed_document_leaves_none(folder: Path) -> None:
    with Store.open(folder) as store:
        store.remove_document(store.documents()[0].id)
        assert store.check() == []
    with contextlib.closing(sqlite3.connect(folder / "catalog.db")) as connection:
        assert connection.execute("SELECT count(*) FROM blocks").fetchone() == (0,)
