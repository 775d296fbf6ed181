"""A damaged catalogue: what can be read of it is saved into a new library beside the old one."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from drt_engine.errors import StoreError
from drt_engine.store import Store
from drt_engine.store.catalogue.connection import connect
from drt_engine.store.filesystem.disk import Disk
from drt_engine.store.salvage import Salvage, free_name, salvage
from tests.engine.store.helpers import add_document, document_id, errors, open_store
from tests.engine.store.operations import TURN

PAGE = 4096


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("salvage") / "base.library"
    with open_store(path) as store:
        for number in range(1, 13):
            add_document(store, number, [f"heather {number} piece {i} " * 20 for i in range(30)])
        store.save_session("talk", transcript=[{**TURN, "citations": []}], meta={}, state=b"s")
    return path


@pytest.fixture
def made(base: Path, library: Path) -> Path:
    shutil.copytree(base, library)
    return library


def pages_of(file: Path, table: str) -> dict[int, int]:
    """The pages of a table that hold rows, from 1, and how many each holds."""
    sql = "SELECT pageno, ncell FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path"
    with sqlite3.connect(file) as connection:
        rows = connection.execute(sql, (table,)).fetchall()
    connection.close()
    return dict(rows)


def damage(file: Path, page: int) -> None:
    with file.open("r+b") as stream:
        stream.seek((page - 1) * PAGE)
        stream.write(b"\xff" * PAGE)


def saved(library: Path) -> Salvage:
    before = {path: path.read_bytes() for path in library.rglob("*") if path.is_file()}
    result = salvage(library, free_name(library), lock_timeout=1.0)
    after = {path: path.read_bytes() for path in library.rglob("*") if path.is_file()}
    names = {path.name for path in before} | {"readers"}
    assert {path.name for path in after} - {"catalog.db-wal", "catalog.db-shm"} <= names
    assert all(after[path] == data for path, data in before.items() if path.suffix == ".seg")
    return result


def has_dbstat() -> bool:
    options = {row[0] for row in sqlite3.connect(":memory:").execute("PRAGMA compile_options")}
    return "ENABLE_DBSTAT_VTAB" in options


needs_dbstat = pytest.mark.skipif(not has_dbstat(), reason="this SQLite does not tell its pages")


def test_a_whole_library_is_saved_whole(made: Path) -> None:
    result = saved(made)
    assert result.target == made.with_name("test.library-saved") and not result.lost
    assert len(result.documents) == 12 and result.sessions == ["talk"] and not result.unread
    with Store.open(made) as old, Store.open(result.target) as new:
        for store in (old, new):
            store.export_archive(store.path.parent / "out")
            store.old_bytes = (store.path.parent / "out").read_bytes()  # type: ignore[attr-defined]
        assert old.old_bytes == new.old_bytes  # type: ignore[attr-defined]
        assert errors(new) == []
    assert free_name(made).name == "test.library-saved2"


@needs_dbstat
def test_all_but_what_a_page_held_is_saved(made: Path) -> None:
    leaves = pages_of(made / "catalog.db", "chunks")
    assert len(leaves) > 3
    page = list(leaves)[len(leaves) // 2]
    damage(made / "catalog.db", page)
    result = saved(made)
    assert len(result.documents) + len(result.unread) + len(result.lost) == 12
    assert not any(document.is_whole for document in result.unread)
    left = sum(len(document.chunks) for document in result.unread)
    assert 30 * len(result.documents) + left == 12 * 30 - leaves[page]
    assert result.sessions == ["talk"]
    with Store.open(result.target) as new:
        assert errors(new) == [] and len(new.documents()) == len(result.documents)


@pytest.mark.few(2)
@needs_dbstat
@pytest.mark.parametrize("table", ["documents", "segments", "settings", "places", "sessions"])
def test_each_table_may_be_damaged(made: Path, table: str) -> None:
    for page in pages_of(made / "catalog.db", table):
        damage(made / "catalog.db", page)
    result = saved(made)
    texts = {*result.documents, *(document.row.id for document in result.unread)}
    if table == "documents":  # named by their segments
        assert texts == {document_id(number) for number in range(1, 13)}
        assert all(document.is_whole for document in result.unread)
    else:
        assert texts == {document_id(number) for number in range(1, 13)}
    assert (result.sessions == []) is (table == "sessions")


def test_a_copy_of_the_catalogue_replaces_a_lost_one(made: Path) -> None:
    shutil.copy(made / "catalog.db", made / "backup.db")
    (made / "catalog.db").write_bytes(b"not a database " * 400)
    result = saved(made)
    assert len(result.documents) == 12 and result.sessions == ["talk"]
    (made / "catalog.db").unlink()
    assert len(saved(made).documents) == 12


def test_without_any_catalogue_it_names_what_the_segments_belong_to(made: Path) -> None:
    (made / "catalog.db").unlink()
    result = saved(made)
    assert result.documents == [] and not result.target.exists()
    assert [finding.where for finding in result.lost] == sorted(
        f"document {document_id(number)}" for number in range(1, 13)
    )
    assert result.summary().severity == "error"


def test_a_document_without_its_memory_is_left_to_be_read_again(made: Path) -> None:
    victim = next((made / "segments").glob(f"{document_id(3)}*"))
    victim.unlink()
    result = saved(made)
    assert [document.row.id for document in result.unread] == [document_id(3)]
    assert result.unread[0].is_whole and result.unread[0].is_described
    result.note_unread("no model")
    assert "no model" in result.lost[0].message


# the copy that an operation keeps while it rewrites the catalogue


class Watching(Disk):
    """Sees what is beside the catalogue when SQLite rewrites it."""

    def __init__(self) -> None:
        self.copies: list[int] = []

    def maintain(self, connection: sqlite3.Connection, path: Path, statement: str) -> None:
        if statement == "VACUUM":
            copy = connect(path.with_name("backup.db"), timeout=0.0, read_only=True)
            self.copies += copy.execute("SELECT count(*) FROM documents").fetchone()
            copy.close()
        super().maintain(connection, path, statement)


def test_the_catalogue_is_copied_before_it_is_rewritten(made: Path) -> None:
    disk = Watching()
    with Store.open(made, disk=disk) as store:
        store.compact()
        assert disk.copies == [12] and not (made / "backup.db").exists()
        store.forget_document(document_id(2))
        assert disk.copies == [12, 11] and not (made / "backup.db").exists()
        assert store.check() == []


def test_the_copy_stays_where_the_catalogue_was_damaged(made: Path) -> None:
    class Damaging(Disk):
        """Hardware that breaks while SQLite writes."""

        def maintain(self, connection: sqlite3.Connection, path: Path, statement: str) -> None:
            super().maintain(connection, path, statement)
            if statement == "VACUUM":
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                damage(path, 3)
                connection.execute("PRAGMA cache_size = 0")
                raise OSError(5, "Input/output error")

    with (
        Store.open(made, disk=Damaging()) as store,
        pytest.raises(StoreError, match="Input/output error"),
    ):
        store.compact()
    assert (made / "backup.db").stat().st_mode & 0o777 == 0o600
    assert len(saved(made).documents) == 12


def test_forgetting_deletes_a_copy_that_was_left(made: Path) -> None:
    shutil.copy(made / "catalog.db", made / "backup.db")
    with open_store(made) as store:
        store.forget_document(document_id(2))
    assert not (made / "backup.db").exists()


def test_a_link_in_the_place_of_the_copy_is_refused(made: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    (made / "backup.db").symlink_to(tmp_path / "thesis.txt")
    with pytest.raises(StoreError, match="link or a special file"):
        salvage(made, free_name(made), lock_timeout=1.0)
    with pytest.raises(StoreError, match="link or a special file"):
        Store.open(made)
    assert (tmp_path / "thesis.txt").read_text() == "mine"
