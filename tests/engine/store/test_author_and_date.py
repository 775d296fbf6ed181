"""What documents name as their author and date is stored, checked, moved and kept."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from drt_engine.documents import Source
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.rebuild import rebuild
from drt_engine.store import Store
from drt_engine.store.catalogue import migrations, row_values
from drt_engine.store.transfer.archive_format import MAGIC
from tests.engine.store.helpers import errors
from tests.engine.store.test_archive import frames_of, write
from tests.model_folder import library, read, runtime

FRONT_MATTER = """---
title: The lamp
author: Ada Keeper
date: 2020-03-02
---

The lamp burns whale oil for thirty days.
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lamp.md"
    path.write_text(FRONT_MATTER, encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path, file: Path) -> Path:
    """A library with one document that names its author and its date."""
    with library(tmp_path / "library") as store:
        read(store, file)
    return tmp_path / "library"


def named(store: Store) -> list[tuple[str, str, str]]:
    return [(row.title, row.author, row.date) for row in store.documents()]


NAMED = [("The lamp", "Ada Keeper", "2020-03-02")]
UNNAMED = [("The lamp", "", "")]


def as_version_4(folder: Path) -> None:
    """Make the catalogue what version 4 left of the same document."""
    with contextlib.closing(sqlite3.connect(folder / "catalog.db")) as connection, connection:
        connection.execute("UPDATE documents SET author = '', date = ''")
        row_values.update_document_checksum(connection, 1, version=4)
        for column in ("author", "date", "tags"):
            connection.execute(f"ALTER TABLE documents DROP COLUMN {column}")
        connection.execute(
            "UPDATE sources SET digest = '3:' || substr(digest, instr(digest, ':') + 1)"
        )
        connection.execute("DROP TABLE blocks")
        connection.execute("DROP INDEX documents_partial")
        connection.execute("PRAGMA user_version = 4")


def test_another_process_reads_them(folder: Path) -> None:
    with Store.open(folder) as store:
        assert named(store) == NAMED
        assert store.check() == []


@pytest.mark.parametrize("column", ["author", "date"])
@pytest.mark.parametrize("value", ["", "Bob Keeper"])
def test_a_changed_one_is_found(folder: Path, column: str, value: str) -> None:
    with contextlib.closing(sqlite3.connect(folder / "catalog.db")) as connection, connection:
        connection.execute(f"UPDATE documents SET {column} = ?", (value,))
    with Store.open(folder) as store:
        assert [finding.kind for finding in store.check()] == ["document"]


def test_a_library_of_version_4_opens_and_learns_them(folder: Path, file: Path) -> None:
    as_version_4(folder)
    with library(folder) as store:
        assert named(store) == UNNAMED
        assert store.check() == []  # by the checksums that version 4 wrote
        row, new = ingest_source(runtime(), store, Source.from_path(file))
        assert (row.author, row.date, new) == ("Ada Keeper", "2020-03-02", False)
        assert named(store) == NAMED
        assert errors(store) == []


def test_an_archive_carries_them(folder: Path, tmp_path: Path) -> None:
    with Store.open(folder) as store, library(tmp_path / "other") as other:
        store.export_archive(tmp_path / "a.drt")
        other.import_archive(tmp_path / "a.drt")
        assert named(other) == NAMED
        assert other.check() == []


def test_an_archive_of_version_2_has_none(folder: Path, tmp_path: Path) -> None:
    with Store.open(folder) as store:
        store.export_archive(tmp_path / "a.drt")
    frames = []
    for kind, payload in frames_of(tmp_path / "a.drt"):
        values = json.loads(payload) if kind == b"DOCU" else {}
        if values:
            del values["author"], values["date"], values["tags"]
            payload = json.dumps(values).encode()
        frames.append((kind, payload))
    older = write(tmp_path / "older.drt", frames, version=2)
    assert older.read_bytes().startswith(MAGIC + b"\2")
    with library(tmp_path / "other") as other:
        other.import_archive(older)
        assert named(other) == UNNAMED
        assert other.check() == []


def test_a_rebuild_keeps_them(folder: Path) -> None:
    rebuild(runtime(), folder, lock_timeout=1.0)
    with Store.open(folder) as store:
        assert named(store) == NAMED
        assert store.check() == []


def test_the_last_version_is_that_of_the_last_migration() -> None:
    assert len(migrations.MIGRATIONS) == row_values.LAST_VERSION
