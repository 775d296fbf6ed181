"""Removing that can be undone: one archive of each document, until the library is compacted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from drt_engine.errors import CorruptStore, NotFound, StorageFull, StoreError
from drt_engine.store import Store
from drt_engine.store.transfer import removed
from drt_engine.store.transfer.backup import copy_library
from tests.engine.store.helpers import add_document, errors, open_store, text_id
from tests.engine.store.test_upkeep import folder_bytes

PIECES = ["moonseed grows here. ", "and there. ", "nowhere else. "]
ID = text_id(PIECES)


@pytest.fixture
def shortened(store: Store) -> Store:
    """A library of two documents, of which one was removed."""
    add_document(store, 1, PIECES, source="/moon", per_segment=2)
    add_document(store, 2, ["fern "], source="/fern")
    store.change_tags(ID, add=["wild"])
    store.save_session("talk", transcript=[], meta={}, state=b"s")
    assert store.remove_document(ID, undoable=True)
    return store


def archives(store: Store) -> list[str]:
    return sorted(path.name for path in (store.path / "removed").glob("*"))


def test_a_removed_document_comes_back_as_it_was(store: Store) -> None:
    row = add_document(store, 1, PIECES, source="/moon", per_segment=2)
    store.change_tags(ID, add=["wild"])
    memory = store.read_chunks(store.chunk_ids([ID]))
    row = store.document(ID)
    assert store.remove_document(ID, undoable=True)
    assert store.documents() == [] and store.search_text("moonseed") == []
    assert store.removed_documents() == [row] and store.check() == []
    assert store.removed_document("/moon") == store.removed_document(ID) == row
    assert store.undo_remove(ID) == row == store.document(ID)
    again = store.read_chunks(store.chunk_ids([ID]))
    assert all(
        bool((a == b).all())
        for a, b in zip(memory.__dict__.values(), again.__dict__.values(), strict=True)
    )
    assert "".join(store.iter_text(ID)) == "".join(PIECES)
    assert store.removed_documents() == [] and archives(store) == []
    with pytest.raises(NotFound):
        store.undo_remove(ID)


def test_it_comes_back_with_the_digests_of_its_files(shortened: Store, tmp_path: Path) -> None:
    shortened.undo_remove(ID)
    for number in range(3000):  # more than an archive's other parts of this kind may have
        shortened.note_source(f"/copies/{number}/moon", f"digest {number}", ID)
    shortened.note_source("/moon", "digest", ID)
    shortened.remove_document(ID, undoable=True)
    assert shortened.source_digest("/moon") is None
    fern = shortened.document("/fern").id
    with open_store(shortened.path) as other:  # where another text is at one of them meanwhile
        other.note_source("/copies/7/moon", "newer", fern)
        other.undo_remove(ID)
    assert shortened.source_digest("/moon") == ("digest", ID)
    assert shortened.source_digest("/copies/2999/moon") == ("digest 2999", ID)
    assert shortened.source_digest("/copies/7/moon") == ("newer", fern)
    shortened.remove_document(ID, undoable=True)
    archive = shortened.path / "removed" / f"{ID}.drtlib"
    with open_store(tmp_path / "elsewhere") as elsewhere:  # where an archive's paths mean nothing
        elsewhere.import_archive(archive)
        assert elsewhere.source_digest("/moon") is None and errors(elsewhere) == []
    shortened.compact()
    assert shortened.source_digest("/moon") is None and errors(shortened) == []


def test_the_last_one_is_named_first_and_others_stay(shortened: Store) -> None:
    fern = shortened.document("/fern").id
    os.utime(shortened.path / "removed" / f"{ID}.drtlib", (1, 1))
    shortened.remove_document(fern, undoable=True)
    assert [row.id for row in shortened.removed_documents()] == [fern, ID]
    shortened.undo_remove(ID)
    assert [row.id for row in shortened.removed_documents()] == [fern]
    with pytest.raises(NotFound, match="did you mean"):
        shortened.removed_document("/ferns")


@pytest.mark.parametrize("end", [Store.compact, lambda store: renew(store)], ids=["compact", "new"])
def test_compacting_and_rebuilding_end_it(shortened: Store, end: Callable[[Store], None]) -> None:
    assert shortened.stats()["removed_bytes"] > 0
    end(shortened)
    assert shortened.removed_documents() == [] and not (shortened.path / "removed").exists()
    assert shortened.stats()["removed_bytes"] == 0
    with pytest.raises(NotFound, match="none can be brought back"):
        shortened.removed_document("/moon")


def renew(store: Store) -> None:
    from tests.engine.store import operations

    operations.renew(store)


@pytest.mark.parametrize("is_back", [False, True])
def test_what_is_forgotten_cannot_be_brought_back(shortened: Store, is_back: bool) -> None:
    quoting = {"question": "?", "answer": "", "citations": [{"document": ID}]}
    if is_back:  # read again, while its archive is there still
        add_document(shortened, 1, PIECES, source="/moon")
        shortened.save_session("cites", transcript=[quoting], meta={}, state=b"s")
    assert shortened.document_to_forget("/moon").id == ID
    assert shortened.forget_document(ID) == (["cites"] if is_back else [])
    assert shortened.removed_documents() == [] and archives(shortened) == []
    held = folder_bytes(shortened.path)
    assert b"moonseed" not in held and ID.encode() not in held
    with pytest.raises(NotFound):
        shortened.undo_remove(ID)
    with pytest.raises(NotFound, match="no document"):
        shortened.document_to_forget("/moon")


def test_forgetting_goes_on_after_the_process_died(
    shortened: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(removed, "forget_removed", die)
        with pytest.raises(KeyboardInterrupt):
            shortened.forget_document(ID)
    assert archives(shortened) == [f"{ID}.drtlib"]
    with open_store(shortened.path) as other:
        add_document(other, 3, ["moss "])
    assert archives(shortened) == []


def test_a_newer_version_is_not_replaced(shortened: Store) -> None:
    newer = add_document(shortened, 4, ["moonseed is gone. "], source="/moon")
    with pytest.raises(StoreError, match=f"read again.*remove {newer.id} first"):
        shortened.undo_remove(ID)
    assert shortened.document("/moon") == newer
    shortened.remove_document(newer.id, undoable=True)
    assert shortened.undo_remove(ID).source == "/moon"
    assert [row.id for row in shortened.removed_documents()] == [newer.id]


def test_a_document_that_is_back_is_not_listed(shortened: Store) -> None:
    add_document(shortened, 1, PIECES, source="/other")
    assert shortened.removed_documents() == []
    assert shortened.undo_remove(ID).source == "/other"  # which it stays
    assert archives(shortened) == []


def test_a_removal_needs_no_room(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    add_document(store, 1, PIECES)

    def full(*_: object, **__: object) -> None:
        raise StorageFull("full")

    with monkeypatch.context() as patch:
        patch.setattr(removed, "write_document", full)
        assert not store.remove_document(ID, undoable=True)
    assert store.documents() == [] and store.removed_documents() == []


def test_damage_is_removed_and_not_brought_back(store: Store) -> None:
    add_document(store, 1, PIECES)
    segment = next((store.path / "segments").glob("*.seg"))
    segment.write_bytes(segment.read_bytes()[:-9])
    assert not store.remove_document(ID, undoable=True)
    assert archives(store) == []
    add_document(store, 1, PIECES)
    assert store.remove_document(ID, undoable=True)
    archive = store.path / "removed" / f"{ID}.drtlib"
    archive.write_bytes(archive.read_bytes()[:-9] + b"123456789")
    with pytest.raises(CorruptStore):
        store.undo_remove(ID)
    assert store.documents() == []


@pytest.mark.parametrize("target", ["/etc/passwd", "elsewhere"])
def test_links_are_not_followed(shortened: Store, target: str) -> None:
    archive = shortened.path / "removed" / f"{ID}.drtlib"
    archive.rename(shortened.path.parent / "elsewhere")
    archive.symlink_to(shortened.path.parent / target)
    assert shortened.removed_documents() == []
    with pytest.raises(StoreError, match="link or a special file"):
        shortened.undo_remove(ID)


def test_a_folder_that_is_a_link_is_refused(shortened: Store, tmp_path: Path) -> None:
    (shortened.path / "removed").rename(tmp_path / "moved")
    (shortened.path / "removed").symlink_to(tmp_path / "moved")
    with pytest.raises(StoreError, match="link"):
        open_store(shortened.path)


def test_backups_leave_it_out(shortened: Store, tmp_path: Path) -> None:
    copy_library(shortened.path, tmp_path / "copy")
    with open_store(tmp_path / "copy") as copy:
        assert copy.removed_documents() == [] and errors(copy) == []


def test_two_openings_bring_it_back_once(shortened: Store) -> None:
    with open_store(shortened.path) as other:
        assert other.removed_documents()[0].id == ID
        shortened.undo_remove(ID)
        with pytest.raises(NotFound):
            other.undo_remove(ID)
        other.remove_document(ID, undoable=True)
    assert shortened.undo_remove(ID).tags == ("wild",)
