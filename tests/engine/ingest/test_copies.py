"""Two files with one text are one document, which stays as long as one of them has the text."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from drt_engine.documents import OpenDocument, Source, expand_paths
from drt_engine.documents.readers.markdown import MarkdownReader
from drt_engine.errors import NotFound
from drt_engine.ingest import pipeline
from drt_engine.ingest.parallel import Workers
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.rebuild import rebuild
from drt_engine.store import Store
from tests.engine.ingest.test_members import members
from tests.model_folder import LETTERS, MANUAL, library, read, runtime, text_of

EDITED = MANUAL.replace("thirty days", "sixty days")


@pytest.fixture
def copy(manual: Path) -> Path:
    return Path(shutil.copy(manual, manual.with_name("copy.md")))


def texts(store: Store) -> dict[str, str]:
    assert store.check() == []
    return {Path(row.source).name: text_of(store, row) for row in store.documents()}


def test_a_copy_keeps_its_text_when_the_first_file_is_edited(
    store: Store, manual: Path, copy: Path
) -> None:
    first = read(store, manual)
    store.change_tags(first.id, add=["sea"])
    assert read(store, copy).id == first.id and store.document("copy.md").id == first.id
    manual.write_text(EDITED, encoding="utf-8")
    edited = read(store, manual)
    assert texts(store) == {"copy.md": MANUAL, "manual.md": EDITED}
    kept = store.document("copy.md")
    assert (kept.id, kept.source, kept.tags) == (first.id, str(copy), ("sea",))
    assert edited.tags == ("sea",) and store.document("manual.md").id == edited.id
    assert read(store, copy).id == first.id and read(store, manual).id == edited.id


def test_an_edited_copy_is_a_document_of_its_own(store: Store, manual: Path, copy: Path) -> None:
    read(store, manual), read(store, copy)
    copy.write_text(EDITED, encoding="utf-8")
    read(store, copy)
    manual.write_text(LETTERS, encoding="utf-8")
    read(store, manual)
    assert texts(store) == {"copy.md": EDITED, "manual.md": LETTERS}


def test_a_file_that_becomes_a_copy_gives_up_its_text(
    store: Store, manual: Path, copy: Path
) -> None:
    copy.write_text(LETTERS, encoding="utf-8")
    third = Path(shutil.copy(copy, copy.with_name("third.md")))
    read(store, manual)
    store.change_tags(read(store, copy).id, add=["mail"])
    read(store, third)
    copy.write_text(MANUAL, encoding="utf-8")
    assert read(store, copy).tags == ("mail",)
    assert texts(store) == {"copy.md": MANUAL, "third.md": LETTERS}
    assert store.document("manual.md") == store.document("copy.md")
    manual.write_text(EDITED, encoding="utf-8")
    read(store, manual)
    assert texts(store) == {"manual.md": EDITED, "third.md": LETTERS, "copy.md": MANUAL}


def test_two_files_become_each_other(store: Store, manual: Path, copy: Path) -> None:
    copy.write_text(LETTERS, encoding="utf-8")
    read(store, manual), read(store, copy)
    manual.write_text(LETTERS, encoding="utf-8"), copy.write_text(MANUAL, encoding="utf-8")
    read(store, manual), read(store, copy)
    assert texts(store) == {"manual.md": LETTERS, "copy.md": MANUAL}


def test_a_copy_is_not_parsed_again(
    store: Store, manual: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    open_file = MarkdownReader.open

    def counting(reader: MarkdownReader, source: Source) -> OpenDocument:
        opened.append(Path(source.name).name)
        return open_file(reader, source)

    monkeypatch.setattr(MarkdownReader, "open", counting)
    row = read(store, manual)
    read(store, copy)
    assert set(opened) == {"manual.md", "copy.md"}
    opened.clear()
    assert read(store, copy) == row and opened == []
    copy.write_text(EDITED, encoding="utf-8")
    assert read(store, copy) != row and set(opened) == {"copy.md"}


def test_a_moved_file_leaves_no_copy_behind(store: Store, manual: Path) -> None:
    row = read(store, manual)
    moved = manual.rename(manual.with_name("moved.md"))
    assert read(store, moved).id == row.id and store.copies(row.id) == []
    manual.write_text(LETTERS, encoding="utf-8")
    moved.write_text(EDITED, encoding="utf-8")
    read(store, moved)
    assert texts(store) == {"moved.md": EDITED}


def test_a_copy_takes_over_where_the_first_file_is_gone(
    store: Store, manual: Path, copy: Path
) -> None:
    row = read(store, manual)
    read(store, copy)
    manual.unlink()
    assert read(store, copy).source == str(copy) and store.copies(row.id) == []


def test_a_copy_that_is_gone_keeps_nothing(store: Store, manual: Path, copy: Path) -> None:
    read(store, manual), read(store, copy)
    copy.unlink()
    manual.write_text(EDITED, encoding="utf-8")
    read(store, manual)
    assert texts(store) == {"manual.md": EDITED}


def test_another_path_to_a_file_is_no_copy(store: Store, manual: Path) -> None:
    link = manual.with_name("link.md")
    link.symlink_to(manual)
    read(store, manual), read(store, link)
    manual.write_text(EDITED, encoding="utf-8")
    read(store, manual), read(store, link)
    assert texts(store) == {"manual.md": EDITED}


@pytest.mark.thorough
def test_members_of_one_archive_are_copies(store: Store, tmp_path: Path) -> None:
    box = tmp_path / "box.zip"
    for member in members(box, one=MANUAL, two=MANUAL):
        ingest_source(runtime(), store, member)
    for member in members(box, one=EDITED, two=MANUAL):
        ingest_source(runtime(), store, member)
    assert texts(store) == {"one.md": EDITED, "two.md": MANUAL}


@pytest.mark.thorough  # starts two processes; the copies above are read by this one
def test_workers_keep_copies(store: Store, manual: Path, copy: Path) -> None:
    with Workers(runtime(), 2) as workers:
        for _ in range(2):
            paths = expand_paths([str(manual.parent / "*.md")])
            for source, reading in workers.readings(store, paths):
                assert isinstance(source, Source)
                ingest_source(runtime(), store, source, reading=reading)
            copy.write_text(EDITED, encoding="utf-8")  # which was read first
    assert texts(store) == {"copy.md": EDITED, "manual.md": MANUAL}


def test_a_stopped_reading_loses_no_copy(
    store: Store, manual: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(store, manual), read(store, copy)
    manual.write_text(EDITED + LETTERS, encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "other_files", None)  # calling it, before the end, raises
        with pytest.raises(TypeError):
            read(store, manual)
    assert [text_of(store, row) for row in store.documents()] == [MANUAL]
    read(store, manual)
    assert texts(store) == {"manual.md": EDITED + LETTERS, "copy.md": MANUAL}


def test_a_rebuild_keeps_copies(tmp_path: Path, manual: Path, copy: Path) -> None:
    with library(tmp_path / "rebuilt") as store:
        read(store, manual), read(store, copy)
    rebuild(runtime(), tmp_path / "rebuilt", lock_timeout=5)
    with library(tmp_path / "rebuilt") as again:
        manual.write_text(EDITED, encoding="utf-8")
        read(again, manual)
        assert texts(again) == {"copy.md": MANUAL, "manual.md": EDITED}


def test_a_copy_is_removed_with_its_document(store: Store, manual: Path, copy: Path) -> None:
    row = read(store, manual)
    read(store, copy)
    store.remove_document(row.id)
    with pytest.raises(NotFound):
        store.document("copy.md")
    assert read(store, copy).source == str(copy)
