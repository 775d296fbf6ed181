"""Tags of documents are stored, checked, changed, moved, and taken over by a new version."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from drt_engine.errors import ConfigError, CorruptStore, NotFound, StoreError
from drt_engine.ingest.rebuild import rebuild
from drt_engine.store import Store
from drt_engine.store.catalogue import row_values
from tests.engine.store.test_archive import frames_of, write
from tests.model_folder import library, read_text, runtime


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A library with one document that has two tags."""
    with library(tmp_path / "library") as store:
        row = read_text(store, tmp_path, name="lamp.md", text="The lamp burns whale oil.\n")
        assert row.tags == ()
        assert store.change_tags(row.id, add=["work", "2024"]) == ("2024", "work")
    return tmp_path / "library"


def tags_of(store: Store) -> list[tuple[str, ...]]:
    return [row.tags for row in store.documents()]


def test_another_process_reads_and_changes_them(folder: Path) -> None:
    with Store.open(folder) as store:
        assert tags_of(store) == [("2024", "work")]
        (row,) = store.documents()
        store.change_tags(row.id, add=["draft", "work"], remove=["2024", "absent"])
        assert tags_of(store) == [("draft", "work")] and store.check() == []
        store.change_tags(row.id, remove=["draft", "work"])
        assert tags_of(store) == [()] and store.check() == []


@pytest.mark.few(3)
@pytest.mark.parametrize("tag", ["", "two words", "a,b", "+x", "-x", "tab\t", "\x00", "x" * 65])
def test_what_is_no_tag_is_refused(folder: Path, tag: str) -> None:
    with Store.open(folder) as store:
        (row,) = store.documents()
        with pytest.raises(ConfigError, match="is not a tag, expected 1 to 64"):
            store.change_tags(row.id, add=["good", tag])
        with pytest.raises(NotFound):
            store.change_tags("0" * 16, add=["good"])
        assert tags_of(store) == [("2024", "work")]


@pytest.mark.parametrize("value", ["", '["2025"]', "[]", '["b", "a"]', "not JSON", '["a b"]'])
def test_changed_ones_are_found(folder: Path, value: str) -> None:
    with contextlib.closing(sqlite3.connect(folder / "catalog.db")) as connection, connection:
        connection.execute("UPDATE documents SET tags = ?", (value,))
    with Store.open(folder) as store:
        assert "document" in [finding.kind for finding in store.check()]
        if value not in ("", '["2025"]'):
            with pytest.raises(CorruptStore, match="tags"):
                store.documents()


def test_a_library_of_version_5_opens(folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "catalog.db")) as connection, connection:
        row_values.update_document_checksum(connection, 1, version=5)
        connection.execute("ALTER TABLE documents DROP COLUMN tags")
        connection.execute("DROP TABLE blocks")
        connection.execute("DROP INDEX documents_partial")
        connection.execute("PRAGMA user_version = 5")
    with Store.open(folder) as store:
        assert tags_of(store) == [()] and store.check() == []  # by the checksum of version 5


def test_archives_carry_them_and_older_ones_have_none(folder: Path, tmp_path: Path) -> None:
    with Store.open(folder) as store, library(tmp_path / "new") as new:
        store.export_archive(tmp_path / "a.drt")
        assert [row.tags for row in new.import_archive(tmp_path / "a.drt")] == [("2024", "work")]
        assert tags_of(new) == [("2024", "work")] and new.check() == []

    def changed(name: str, version: int, tags: object) -> Path:
        frames = []
        for kind, payload in frames_of(tmp_path / "a.drt"):
            if kind == b"DOCU":
                values = json.loads(payload) | {"tags": tags}
                if tags is None:
                    del values["tags"]
                payload = json.dumps(values).encode()
            frames.append((kind, payload))
        return write(tmp_path / name, frames, version=version)

    with library(tmp_path / "old") as old:
        for number, wrong in enumerate(("work", ["a b"], [1], {"a": 1})):
            with pytest.raises(CorruptStore, match="damaged"):
                old.import_archive(changed(f"wrong{number}.drt", 4, wrong))
        old.import_archive(changed("older.drt", 3, None))
        assert tags_of(old) == [()]


def test_a_new_version_of_a_file_and_a_rebuild_keep_them(folder: Path, tmp_path: Path) -> None:
    with library(folder) as store:
        read_text(store, tmp_path, name="lamp.md", text="The lamp burns coal now.\n")
        assert tags_of(store) == [("2024", "work")] and store.check() == []
    rebuild(runtime(), folder, lock_timeout=1.0)
    with Store.open(folder) as store:
        assert tags_of(store) == [("2024", "work")] and store.check() == []
        with pytest.raises(StoreError, match="cannot be written"), store.snapshot() as view:
            view._catalog.change_tags(store.documents()[0].id, add=["x"])
