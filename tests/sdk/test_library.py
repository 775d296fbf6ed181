"""The library without a model."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from drt import Assistant, ConfigError, Library, LibraryCorruptError, LibraryError, NotFoundError
from tests.sdk.conftest import HANDBOOK
from tests.sdk.fakes import FakeEngine


def test_where_there_is_nothing_there_are_no_documents(tmp_path: Path) -> None:
    library = Library(tmp_path / "none")
    assert (library.documents(), library.sessions()) == ([], [])
    assert not library.path.exists(), "listing made a library"
    for use in (library.check, library.stats, lambda: library.show("x")):
        with pytest.raises(LibraryError, match="there is no library"):
            use()


def test_a_path_of_no_name_is_refused() -> None:
    for path in ("", ["a", ""]):
        with pytest.raises(ConfigError, match="path of a library is empty"):
            Library(path)


def test_what_is_not_a_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear reader")
    for path in (tmp_path, tmp_path / "letter.txt"):
        with pytest.raises(LibraryError, match=str(tmp_path)):
            Library(path).documents()


def test_show_text_stats_and_remove(assistant: Assistant, handbook: Path) -> None:
    document = assistant.ingest(handbook)
    library = Library(assistant.library.path)
    shown = library.show("handbook.txt")
    assert (shown.id, shown.new) == (document.id, False)
    assert library.text(shown) == HANDBOOK
    assert library.text(shown, 4, 10) == "notice"
    assert library.text(shown, 70, 10_000) == HANDBOOK[70:]
    assert library.stats()["documents"] == 1
    assert library.remove(document.id[:6]).id == document.id
    assert library.documents() == []
    with pytest.raises(NotFoundError):
        library.show(document)


def test_check_finds_a_changed_segment(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    library = Library(assistant.library.path)
    segment = next((library.path / "segments").iterdir())
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) // 2])
    findings = library.check()
    assert findings and all(one.severity == "error" for one in findings)
    segment.write_bytes(whole)


def test_a_lost_catalogue_is_not_taken_for_an_empty_library(
    assistant: Assistant, handbook: Path
) -> None:
    assistant.ingest(handbook)
    assistant.close()
    path = assistant.library.path
    kept = {file.name: file.read_bytes() for file in path.glob("catalog.db*")}
    for name in kept:
        (path / name).unlink()
    with pytest.raises(LibraryCorruptError, match="lost"):
        Library(path).documents()
    for name, content in kept.items():
        (path / name).write_bytes(content)


def test_what_is_removed_can_be_forgotten(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    session = assistant.session("review")
    assert session.ask("Which period?").found
    library = Library(assistant.library.path)
    assert library.search_sessions("which PERIOD")[0].session == "review"
    assert library.search_sessions("zeppelin") == []
    assert library.remove("handbook.txt", forget=True).title
    assert library.sessions() == []
    files = [path for path in library.path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"keeper" in path.read_bytes()]
    assert library.check() == []


@pytest.mark.thorough
def test_an_archive_makes_the_same_library_elsewhere(
    assistant: Assistant, handbook: Path, tmp_path: Path
) -> None:
    assistant.ingest(handbook)
    library, copy = Library(assistant.library.path), Library(tmp_path / "copy.library")
    library.export_archive(tmp_path / "one.drtlib")
    (document,) = copy.import_archive(tmp_path / "one.drtlib")
    assert document.new and copy.text(document) == HANDBOOK
    assert copy.import_archive(tmp_path / "one.drtlib") == []
    copy.export_archive(tmp_path / "two.drtlib")
    assert (tmp_path / "one.drtlib").read_bytes() == (tmp_path / "two.drtlib").read_bytes()
    assert copy.compact() >= 0 and copy.check() == []
    (tmp_path / "two.drtlib").write_bytes(b"no archive")
    with pytest.raises(LibraryCorruptError, match="does not start like an archive"):
        copy.import_archive(tmp_path / "two.drtlib")


def test_repair_needs_no_model_for_the_search_index(
    assistant: Assistant, handbook: Path, engine: FakeEngine
) -> None:
    assistant.ingest(handbook)
    assistant.close()
    engine.loads.clear()
    library = Library(assistant.library.path)
    with closing(sqlite3.connect(library.path / "catalog.db")) as connection:
        connection.execute("INSERT INTO chunk_text (chunk_text) VALUES ('delete-all')")
        connection.commit()
    (library.path / "segments" / "left.tmp").write_bytes(b"left")
    assert {one.kind for one in library.check()} == {"search", "orphan"}
    assert library.repair() == []
    assert library.check() == [] and engine.loads == []


def test_a_broken_catalogue_is_a_finding(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    assistant.close()
    library = Library(assistant.library.path)
    kept = {file.name: file.read_bytes() for file in library.path.glob("catalog.db*")}
    (library.path / "catalog.db").write_bytes(b"not a database " * 400)
    assert [one.kind for one in library.check()] == ["catalog"]
    for name, content in kept.items():
        (library.path / name).write_bytes(content)


def test_repair_saves_what_is_left_beside_a_damaged_library(
    assistant: Assistant, handbook: Path, engine: FakeEngine
) -> None:
    assistant.ingest(handbook)
    assistant.close()
    engine.loads.clear()
    library = Library(assistant.library.path)
    before = [document.id for document in library.documents()]
    copy = shutil.copy(library.path / "catalog.db", library.path / "backup.db")
    (library.path / "catalog.db").write_bytes(b"not a database " * 400)
    findings = library.repair()
    assert [finding.kind for finding in findings] == ["catalog", "saved"]
    saved = Library(findings[1].where)
    assert saved.path.parent == library.path.parent and engine.loads == []
    assert [document.id for document in saved.documents()] == before and saved.check() == []
    assert (library.path / "catalog.db").read_bytes() == b"not a database " * 400
    Path(copy).rename(library.path / "catalog.db")  # as the user may, too


def test_documents_are_listed_in_parts(assistant: Assistant, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(f"The period of file {number}.")
        assistant.ingest(tmp_path / f"{number}.txt")
    library = assistant.library
    first, second, third = library.documents()
    assert library.documents(limit=2) == [first, second]
    assert library.documents(after=second.id) == [third]
    assert library.documents(after=third.id, limit=2) == []
    with pytest.raises(NotFoundError, match="no document has the id 'gone'; list from the start"):
        library.documents(after="gone")
    with pytest.raises(ConfigError, match="limit is 0, expected 1 or more"):
        library.documents(limit=0)
