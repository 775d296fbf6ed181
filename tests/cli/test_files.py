"""Files that commands write: as private as the library, and never a library's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from drt import LibraryError
from drt_cli._files import write_file, write_from_library, write_shared


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    (folder / "segments").mkdir(parents=True)
    (folder / "catalog.db").write_text("rows")
    folder.chmod(0o700)
    return folder


def test_a_file_of_a_library_is_never_written(library: Path, tmp_path: Path) -> None:
    link = tmp_path / "trace.html"
    link.symlink_to(library / "catalog.db")
    for target in (link, library / "trace.html", library / "segments" / "a.md"):
        with pytest.raises(LibraryError, match="inside the library"):
            write_from_library(target, "text", library)
        with pytest.raises(LibraryError, match="inside the library"):
            write_shared(target, "text")
    assert {path.name for path in library.rglob("*")} == {"segments", "catalog.db"}
    assert (library / "catalog.db").read_text() == "rows"


def test_a_file_with_a_second_name_is_replaced(library: Path, tmp_path: Path) -> None:
    hard = tmp_path / "trace.html"
    os.link(library / "catalog.db", hard)
    hard.chmod(0o640)
    write_file(hard, "text", private=True)
    assert hard.read_text() == "text" and hard.stat().st_mode & 0o777 == 0o640
    assert (library / "catalog.db").read_text() == "rows"


@pytest.fixture
def umask() -> Iterator[None]:
    old = os.umask(0o022)
    yield
    os.umask(old)


@pytest.mark.usefixtures("umask")
def test_rights(library: Path, tmp_path: Path) -> None:
    write_from_library(tmp_path / "new", "text", library)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600
    library.chmod(0o755)
    write_from_library(tmp_path / "open", "text", library)
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o644
    (tmp_path / "new").chmod(0o644)  # by its owner
    write_from_library(tmp_path / "new", "more", library)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o644
