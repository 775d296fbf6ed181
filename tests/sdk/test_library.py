"""The library without a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt import Assistant, Library, LibraryCorruptError, LibraryError, NotFoundError
from tests.sdk.conftest import HANDBOOK


def test_where_there_is_nothing_there_are_no_documents(tmp_path: Path) -> None:
    library = Library(tmp_path / "none")
    assert (library.documents(), library.sessions()) == ([], [])
    assert not library.path.exists(), "listing made a library"
    for use in (library.check, library.stats, lambda: library.show("x")):
        with pytest.raises(LibraryError, match="there is no library"):
            use()


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
