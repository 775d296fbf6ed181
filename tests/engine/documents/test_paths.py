"""What users name: files, folders, globs, standard input, and every way to get it wrong."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drt_engine.documents import Block, OpenDocument, Source, expand_paths, open_document
from drt_engine.errors import (
    DocumentError,
    EmptyDocument,
    UnreadableDocument,
    UnsupportedFormat,
)
from drt_engine.store import Store
from tests.engine.documents.helpers import joined
from tests.engine.documents.makers import make_zip

BINARY = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.md", "sub/c.html", "sub/deep/d.txt", ".hidden.txt", ".git/e.txt"):
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}")
    (tmp_path / "docs" / "image.bin").write_bytes(b"\x7fELF" + BINARY)
    return tmp_path / "docs"


def names(folder: Path, *arguments: str) -> list[str]:
    found = list(expand_paths(arguments))
    assert all(isinstance(item, Source) for item in found), found
    return [item.location.removeprefix(f"{folder}/") for item in found if isinstance(item, Source)]


def failure(argument: str) -> DocumentError:
    (item,) = expand_paths([argument])
    assert isinstance(item, DocumentError)
    return item


def refuse(monkeypatch: pytest.MonkeyPatch, *refused: Path) -> None:
    """Take away the right to read; tests may run as root, who always has it."""
    opens, lists = Path.open, os.listdir

    def open_path(self: Path, *args: Any, **options: Any) -> Any:
        if self in refused:
            raise PermissionError(13, "Permission denied")
        return opens(self, *args, **options)

    def list_path(path: Path) -> list[str]:
        if path in refused:
            raise PermissionError(13, "Permission denied")
        return lists(path)

    monkeypatch.setattr(Path, "open", open_path)
    monkeypatch.setattr(os, "listdir", list_path)


def test_folders_are_walked_in_order(folder: Path) -> None:
    assert names(folder, str(folder)) == ["a.md", "b.txt", "sub/c.html", "sub/deep/d.txt"]


def test_files_passed_over_are_counted_and_named(folder: Path) -> None:
    expansion = expand_paths([str(folder)])
    assert len(list(expansion)) == 4
    assert expansion.skipped == 1
    assert expansion.notes.skipped == (
        "2 hidden names (files and folders that begin with a dot, or that systems make)",
        f"{folder}/image.bin (no reader knows its type)",
    )


def test_what_is_named_may_be_hidden(folder: Path) -> None:
    assert names(folder, str(folder / ".git"), str(folder / ".hidden.txt")) == [
        ".git/e.txt",
        ".hidden.txt",
    ]


def test_globs(folder: Path) -> None:
    assert names(folder, f"{folder}/*.txt") == ["b.txt"]
    assert names(folder, f"{folder}/[ab].*", f"{folder}/b.txt") == ["a.md", "b.txt", "b.txt"]
    assert names(folder, f"{folder}/s*") == ["sub/c.html", "sub/deep/d.txt"]
    assert names(folder, f"{folder}/**/*.txt") == ["b.txt", "sub/deep/d.txt"]
    everything = ["a.md", "b.txt", "sub/c.html", "sub/deep/d.txt"]
    assert sorted(names(folder, f"{folder}/**")) == everything
    assert names(folder, f"{folder}/**/deep") == ["sub/deep/d.txt"]


def test_a_name_may_look_like_a_glob(folder: Path) -> None:
    (folder / "notes[1].txt").write_text("text")
    assert names(folder, f"{folder}/notes[1].txt") == ["notes[1].txt"]


def test_links_are_followed_once(folder: Path) -> None:
    (folder / "sub" / "up").symlink_to(folder)
    (folder / "also.txt").symlink_to(folder / "b.txt")
    assert names(folder, str(folder)) == [
        "a.md",
        "also.txt",
        "b.txt",
        "sub/c.html",
        "sub/deep/d.txt",
    ]


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("gone.txt", "gone.txt does not exist; check the path."),
        ("gone", "does not exist"),
        ("*.gone", "no file matches"),
        ("[broken", "no file matches"),
        ("a\0b", r"a\0b cannot be read"),
        ("x" * 300, "cannot be read"),
        ("/dev/null", "is a device"),
        ("", "does not exist"),
    ],
)
def test_bad_names_give_one_error_each(folder: Path, argument: str, sentence: str) -> None:
    where = argument if argument.startswith("/") else f"{folder}/{argument or 'no/file'}"
    bad, good = expand_paths([where, str(folder / "a.md")])
    assert isinstance(bad, UnreadableDocument) and sentence in str(bad)
    assert isinstance(good, Source)


def test_a_link_to_nothing_is_an_error(folder: Path) -> None:
    (folder / "lost.txt").symlink_to(folder / "gone")
    items = list(expand_paths([str(folder)]))
    assert [type(item) for item in items] == [Source, Source, UnreadableDocument, Source, Source]


def test_an_unknown_file_by_name_names_the_known_formats(folder: Path) -> None:
    error = failure(str(folder / "image.bin"))
    assert isinstance(error, UnsupportedFormat)
    for part in ("image.bin", ".txt", ".md", ".html", ".pdf"):
        assert part in str(error)
    with pytest.raises(UnsupportedFormat):
        open_document(Source.from_path(folder / "image.bin"))


def test_unreadable_files_and_folders_do_not_stop_the_rest(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, folder / "b.txt", folder / "sub" / "deep")
    items = list(expand_paths([str(folder), str(folder / "b.txt")]))
    shown = [item.name if isinstance(item, Source) else str(item) for item in items]
    refusal = "cannot be read (permission denied); give yourself the right to read it."
    assert shown == [
        f"{folder}/a.md",
        f"{folder}/b.txt {refusal}",
        f"{folder}/sub/c.html",
        f"{folder}/sub/deep {refusal}",
        f"{folder}/b.txt {refusal}",
    ]
    with pytest.raises(UnreadableDocument, match="permission denied"):
        open_document(Source.from_path(folder / "b.txt"))


def test_opening_what_is_gone_or_a_folder(folder: Path) -> None:
    with pytest.raises(UnreadableDocument, match="does not exist"):
        open_document(Source.from_path(folder / "gone.md"))
    with pytest.raises(UnreadableDocument, match="is a folder"):
        open_document(Source.from_path(folder))


def test_an_empty_file_of_any_kind_is_called_empty(folder: Path) -> None:
    for name in ("empty.txt", "empty.bin", "empty.pdf"):
        (folder / name).write_bytes(b"")
        (source,) = expand_paths([str(folder / name)])
        assert isinstance(source, Source)
        with pytest.raises(EmptyDocument, match=f"{name} is empty"):
            open_document(source)


def test_standard_input_is_read_twice_and_cleaned_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"piped\r\ntext")))
    (source,) = expand_paths(["-"])
    assert isinstance(source, Source) and source.path is None
    document = open_document(source)
    assert document.title == source.name == source.location == "standard input"
    assert joined(list(document.blocks)) == joined(list(open_document(source).blocks))
    source.close()
    with pytest.raises(UnreadableDocument, match="standard input does not exist"):
        open_document(source)


def test_standard_input_is_recognised_by_its_content() -> None:
    (source,) = expand_paths(["-"], stdin=io.BytesIO(b"<html><title>Piped</title><p>a"))
    assert isinstance(source, Source)
    assert open_document(source).title == "Piped"


@pytest.mark.thorough
def test_copies_have_no_name_that_could_stay_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "a.zip").write_bytes(make_zip({"a.txt": "text of a", "b.html": "<p>text of b"}))
    piped = list(expand_paths(["-"], stdin=io.BytesIO(b"text")))
    members = list(expand_paths([str(tmp_path / "a.zip")]))
    texts = [joined(list(open_document(one).blocks)) for one in piped + members]
    assert texts == ["text", "text of a", "text of b\n"]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_an_empty_path_is_not_the_current_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert "a path is empty" in str(failure(""))


def test_bad_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed" in str(failure("-"))

    class Broken(io.RawIOBase):
        def readinto(self, _: object) -> int:
            raise OSError(5, "Input/output error")

        def readable(self) -> bool:
            return True

    (item,) = expand_paths(["-"], stdin=io.BufferedReader(Broken()))
    assert isinstance(item, UnreadableDocument) and "standard input cannot be read" in str(item)
    (item,) = expand_paths(["-"], stdin=io.BytesIO(b""))
    assert isinstance(item, Source)
    with pytest.raises(EmptyDocument, match="standard input is empty"):
        open_document(item)


def test_a_named_pipe_is_read_once_and_kept(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"through a pipe",))
    writer.start()
    (source,) = expand_paths([str(pipe)])
    writer.join()
    assert isinstance(source, Source) and source.name == str(pipe)
    assert joined(list(open_document(source).blocks)) == "through a pipe"
    expansion = expand_paths([str(tmp_path)])
    assert (list(expansion), expansion.skipped) == ([], 1)


def test_a_library_in_a_folder_is_passed_over(folder: Path) -> None:
    Store.open(folder / "notes.library", create=True).close()
    expansion = expand_paths([str(folder)])
    assert not any("notes.library" in item.name for item in expansion if isinstance(item, Source))
    assert any("notes.library" in note and "a library" in note for note in expansion.notes.skipped)


def test_names_that_are_not_utf8_can_be_shown_and_stored(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    Path(os.fsdecode(path)).write_text("words")
    (source,) = expand_paths([str(tmp_path)])
    assert isinstance(source, Source)
    assert source.name.encode() and source.name.endswith(r"caf\xe9.txt")
    assert open_document(source).title == r"caf\xe9.txt"


def test_a_file_that_changes_while_read_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("words\n" * 20_000)
    document = open_document(Source.from_path(path))
    path.write_bytes(b"\xff\xfe\xff" * 50_000)
    with pytest.raises(UnreadableDocument, match="changed while it was read"):
        list(document.blocks)
    document = open_document(Source.from_path(__file__))
    monkey = Source.from_path(path)
    path.write_text("words")
    lost = open_document(monkey)
    path.unlink()
    with pytest.raises(UnreadableDocument, match="does not exist"):
        list(lost.blocks)
    document.close()


def test_a_document_closes_whatever_iterates_its_blocks() -> None:
    closed = []

    def blocks() -> Iterator[Block]:
        try:
            yield Block("a")
            yield Block("b")
        finally:
            closed.append(True)

    with OpenDocument("t", "text/plain", blocks()) as document:
        next(document.blocks)
    assert closed == [True]
    OpenDocument("t", "text/plain", iter([Block("a")])).close()
