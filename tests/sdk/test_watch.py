"""A library that is kept in step with a folder."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

import pytest

from drt import Assistant, DocumentError, Watch
from drt_engine.store import Store
from tests.sdk.fakes import FakeEngine

OLD = 1_000_000_000  # seconds: long settled


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    write(folder / "a.txt", "The notice period is thirty days.")
    write(folder / "deep" / "b.txt", "The keeper signs every log.")
    write(folder / ".hidden.txt", "Nobody reads this.")
    write(folder / "picture.bin", bytes(range(256)))
    return folder


def write(file: Path, content: str | bytes, *, when: int | None = OLD) -> None:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    if when is not None:
        os.utime(file, (when, when))


def names(assistant: Assistant) -> list[str]:
    return sorted(Path(one.source).name for one in assistant.library.documents())


def told(watch: Watch) -> list[tuple[str, str]]:
    return [(event.kind, Path(event.source).name) for event in watch.poll()]


def test_a_library_in_the_folder_is_left_alone(folder: Path, engine: FakeEngine) -> None:
    with Assistant(folder / "library") as assistant:
        watch = Watch(assistant, [folder])
        assert told(watch) == [("read", "a.txt"), ("read", "b.txt")]
        assert told(watch) == []


def test_new_changed_and_lost_files(assistant: Assistant, folder: Path) -> None:
    watch = Watch(assistant, [folder])
    assert told(watch) == [("read", "a.txt"), ("read", "b.txt")]
    assert names(assistant) == ["a.txt", "b.txt"]
    assert told(watch) == []
    write(folder / "a.txt", "Now the notice period is sixty days.", when=OLD + 5)
    assert told(watch) == [("read", "a.txt")]
    assert "sixty" in assistant.library.text("a.txt") and names(assistant) == ["a.txt", "b.txt"]
    (folder / "deep" / "b.txt").unlink()
    assert told(watch) == [("removed", "b.txt")]
    assert names(assistant) == ["a.txt"]


def test_a_file_is_read_once_nobody_writes_to_it(assistant: Assistant, folder: Path) -> None:
    watch = Watch(assistant, [folder])
    told(watch)
    write(folder / "c.txt", "Half a", when=None)
    assert told(watch) == []
    write(folder / "c.txt", "Half a sentence is whole now.", when=None)
    assert told(watch) == []
    assert told(watch) == [("read", "c.txt")]


def test_a_file_that_was_only_touched_is_not_told(assistant: Assistant, folder: Path) -> None:
    watch = Watch(assistant, [folder])
    told(watch)
    os.utime(folder / "a.txt", (OLD + 9, OLD + 9))
    assert told(watch) == []


def test_what_cannot_be_read_is_told_once(
    assistant: Assistant, engine: FakeEngine, folder: Path
) -> None:
    write(folder / "empty.txt", "   ")
    watch = Watch(assistant, [folder])
    (failed,) = [event for event in watch.poll() if event.kind == "failed"]
    assert "empty.txt" in failed.message and failed.document is None
    assert list(watch.poll()) == []


def test_documents_of_elsewhere_are_left_alone(
    assistant: Assistant, folder: Path, handbook: Path
) -> None:
    assistant.ingest(handbook)
    handbook.unlink()
    told(Watch(assistant, [folder]))
    assert "handbook.txt" in names(assistant)


def test_a_folder_that_is_away_loses_nothing(assistant: Assistant, folder: Path) -> None:
    watch = Watch(assistant, [folder])
    told(watch)
    folder.rename(folder.with_name("elsewhere"))
    assert told(watch) == [] and names(assistant) == ["a.txt", "b.txt"]


def test_only_folders_are_watched(assistant: Assistant, handbook: Path) -> None:
    with pytest.raises(DocumentError, match="not a folder"):
        next(assistant.watch(handbook))


def test_watching_goes_on_until_it_is_left(assistant: Assistant, folder: Path) -> None:
    events = list(islice(assistant.watch(folder, interval=0.01), 2))
    assert [event.kind for event in events] == ["read", "read"]
    assert events[0].to_dict()["document"]["title"] == "a.txt"


def test_a_copy_stays_when_the_first_file_is_deleted(assistant: Assistant, folder: Path) -> None:
    watch = Watch(assistant, [folder])
    told(watch)
    document = assistant.library.show("a.txt")
    write(folder / "copy.txt", (folder / "a.txt").read_bytes())
    with Store.open(assistant.library.path) as store:  # as reading the copy does
        store.note_source(str(folder / "copy.txt"), "digest", document.id)
    (folder / "a.txt").unlink()
    assert told(watch) == [] and names(assistant) == ["b.txt", "copy.txt"]
    (folder / "copy.txt").unlink()
    assert told(watch) == [("removed", "copy.txt")]
