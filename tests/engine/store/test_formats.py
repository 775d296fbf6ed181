"""A library of every format that was ever written opens, is sound, and goes on.

``formats/version-N.tar.xz`` was written by the source tree of that version: two documents, a
session and a setting. A new version of the catalogue adds the library that it writes.
"""

from __future__ import annotations

import sqlite3
import tarfile
from pathlib import Path

from drt_engine.store import Store
from drt_engine.store.catalogue.migrations import MIGRATIONS
from drt_engine.store.transfer.backup import copy_library
from tests.engine.store.helpers import add_document, open_store
from tests.tables import each_row

FORMATS = Path(__file__).parent / "formats"
LAMP = "The lamp is lit at dusk. The keeper signs the log. Fog: two blasts. "
OIL = "Oil is kept in the cellar. Wicks are cut on Mondays."
VERSIONS = range(1, len(MIGRATIONS) + 1)


def unpacked(version: int, folder: Path) -> Path:
    place = folder / f"version-{version}.library"
    with tarfile.open(FORMATS / f"version-{version}.tar.xz") as archive:
        archive.extractall(place, filter="data")
    with sqlite3.connect(place / "catalog.db") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (version,)
    connection.close()
    return place


def expect_whole(store: Store) -> None:
    assert store.check() == []
    rows = store.documents()
    assert ["".join(store.iter_text(row.id)) for row in rows] == [LAMP, OIL]
    assert [(row.title, row.source) for row in rows] == [
        ("Part 1", "/docs/part-1.txt"),
        ("Part 2", "/docs/part-2.txt"),
    ]
    assert [row.chunks for row in rows] == [3, 2]
    assert store.get_setting("model") == "made-up"
    session = store.load_session("talk")
    assert (session.meta, session.state) == ({"kept": True}, b"state")


@each_row("version", VERSIONS)
def test_a_library_of_each_version_is_upgraded(version: int, tmp_path: Path) -> None:
    with open_store(unpacked(version, tmp_path)) as store:
        expect_whole(store)
        ids = [chunk for some, _ in store.scan_landmarks() for chunk in some]
        assert len(store.read_chunks(ids).ids) == 5
        ((chunk, _),) = store.search_text("cellar", limit=1)
        assert "cellar" in store.chunk_rows([chunk])[0].text
        add_document(store, 3, ["The boat comes on Fridays."])
        store.remove_document(store.documents()[0].id)
        assert store.check() == []


@each_row("version", [1, 4, VERSIONS[-1]])
def test_a_backup_of_each_version_is_restored_and_stays_as_it_is(
    version: int, tmp_path: Path
) -> None:
    old, new = unpacked(version, tmp_path), tmp_path / "new.library"
    assert copy_library(old, new).documents == 2
    with open_store(new) as store:
        expect_whole(store)
    with sqlite3.connect(old / "catalog.db") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (version,)
    connection.close()
