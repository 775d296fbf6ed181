"""A library's own files under other names: not read while SQLite has them open, never written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drt_engine.documents import expand_paths
from drt_engine.documents.base import Source
from drt_engine.errors import DocumentError, StoreError
from drt_engine.files import DatabaseInUseError
from drt_engine.store import Store
from drt_engine.store.federation import write_list
from drt_engine.store.filesystem.library_folder import expect_outside
from tests.engine.store.helpers import add_document, open_durable, open_store
from tests.engine.store.test_processes import deleted_files, others_write
from tests.forks import Forks

PROC = Path("/proc/self/fd")


def other_names(library: Path, folder: Path) -> list[Path]:
    """Names of a library's catalogue and log that do not say so."""
    folder.mkdir()
    names = [folder / name for name in ("link.md", "log.md", "hard.md", "over.md")]
    names[0].symlink_to(library / "catalog.db")
    names[1].symlink_to(library / "catalog.db-wal")
    os.link(library / "catalog.db", names[2])
    names[3].symlink_to(names[0])
    if PROC.exists():
        ours = str(library / "catalog.db")
        numbers = os.listdir(PROC)
        names += [PROC / n for n in numbers if os.path.realpath(PROC / n) == ours]
        assert len(names) > 4
    return names


def test_a_catalogue_by_another_name_is_not_opened_beside_sqlite(
    library: Path, forks: Forks, tmp_path: Path
) -> None:
    with open_durable(library) as store:
        add_document(store, 1, ["text 1 "] * 3)
        names = [library / "catalog.db", *other_names(library, tmp_path / "folder")]
        (tmp_path / "folder" / ".gitignore").symlink_to(library / "catalog.db")
        for name in names:
            (found,) = expand_paths([str(name)])
            assert isinstance(found, DocumentError) and "not a document" in str(found)
            with pytest.raises(DatabaseInUseError):
                Source.from_path(name).descriptor()
            with pytest.raises(StoreError, match="a file of a library"):
                store.import_archive(name)
        assert all(isinstance(found, DocumentError) for found in expand_paths([str(tmp_path)]))
        others_write(forks, library, 2)
        if PROC.exists():
            assert deleted_files(library) == []
        add_document(store, 3, ["text 3 "] * 3)
        assert store.count_documents() == 3
    with Store.open(library) as store:
        assert store.count_documents() == 3 and store.check() == []
    Source.from_path(names[1]).open().close()  # which nobody has open now


def test_nothing_is_written_into_a_library(library: Path, tmp_path: Path) -> None:
    with open_store(library) as store:
        add_document(store, 1, ["text 1 "] * 3)
        inside = [library / "catalog.db", library / "new", library / "segments" / "new"]
        link, folder = tmp_path / "link", tmp_path / "folder"
        link.symlink_to(library / "catalog.db")
        folder.symlink_to(library / "segments")
        for target in (*inside, link, folder / "new"):
            with pytest.raises(StoreError, match="inside the library"):
                store.export_archive(target)
            with pytest.raises(StoreError, match="inside the library"):
                write_list(target, [library])
        expect_outside(tmp_path / "new")
        hard = tmp_path / "hard"
        os.link(library / "catalog.db", hard)
        store.export_archive(hard)  # which takes the name, and leaves the file
        assert store.check() == [] and store.count_documents() == 1
