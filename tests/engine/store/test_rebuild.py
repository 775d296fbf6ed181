"""A rebuild while others write: nothing they did is lost or undone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drt_engine.errors import FingerprintMismatch, LockTimeout
from drt_engine.store import Store
from tests.engine.store.helpers import (
    FINGERPRINT,
    INT8,
    add_document,
    document_id,
    open_store,
    text_id,
)
from tests.engine.store.operations import held, read_again
from tests.engine.store.test_upkeep import folder_bytes

TEXT = "quillwort number {} grows by the lake. "


def add(store: Store, number: int, **options: str) -> str:
    return add_document(store, number, [TEXT.format(number), "More. "], **options).id


@pytest.fixture
def begun(store: Store) -> Store:
    """A library of three documents, two of which a rebuild has read before it stopped."""
    for number in (1, 2, 3):
        add(store, number)
    with store.rebuilding(FINGERPRINT, INT8) as fresh:
        read_again(store, fresh)
        fresh.remove_document(document_id(3))
    return store


def go_on(store: Store) -> int:
    """Finish a rebuild; returns how often what came meanwhile had to be read."""
    for times in range(1, 9):
        with store.rebuilding(FINGERPRINT, INT8) as fresh:
            fresh.remove_outdated(store)
            read_again(store, fresh)
        if store.swap_in_rebuilt():
            return times
    raise AssertionError("the rebuild never ends")


def sources(store: Store) -> dict[str, str]:
    return {row.id: row.source for row in store.documents()}


def test_what_was_read_meanwhile_is_waited_for(begun: Store) -> None:
    with open_store(begun.path) as other:
        before, present = held(begun), sources(begun)
        assert not begun.swap_in_rebuilt()
        assert (held(begun), sources(begun)) == (before, present)
        new = add(other, 4)
        assert go_on(begun) == 1
        assert sources(begun) == {**present, new: "/docs/4.txt"} == sources(other)
    assert begun.check() == []


def test_what_comes_between_reading_and_taking_over_is_waited_for(begun: Store) -> None:
    with begun.rebuilding(FINGERPRINT, INT8) as fresh:
        read_again(begun, fresh)
    with open_store(begun.path) as other:
        new = add(other, 4)
        assert not begun.swap_in_rebuilt() and new in sources(begun)
    assert go_on(begun) == 1 and new in sources(begun)
    assert begun.check() == []


def test_what_was_removed_replaced_or_moved_meanwhile_stays_so(begun: Store) -> None:
    first, second, third = (row.id for row in begun.documents())
    with begun.rebuilding(FINGERPRINT, INT8) as fresh:
        read_again(begun, fresh)
    with open_store(begun.path) as other:
        other.remove_document(first)
        other.rename_source(second, "/moved.txt")
        other.note_source("/moved.txt", "digest", second)
        other.save_session("talk", transcript=[], meta={}, state=b"new")
        assert begun.swap_in_rebuilt()  # what is left was read
        assert sources(begun) == {second: "/moved.txt", third: "/docs/3.txt"}
        assert begun.source_digest("/moved.txt") == ("digest", second)
        assert begun.load_session("talk").state == b"new"
        assert begun.search_text("number 1") == begun.search_text("number")
    assert begun.check() == [] and not (begun.path / "rebuild").exists()
    assert all("1 grows" not in "".join(begun.iter_text(id)) for id in sources(begun))


def test_a_document_that_was_read_again_meanwhile_is_read_again(begun: Store) -> None:
    first = begun.documents()[0]
    with open_store(begun.path) as other:
        other.remove_document(first.id)
        texts = [TEXT.format(1), "More. "]
        add_document(other, 1, texts, source="/elsewhere.md", created="2001-01-01T00:00:00+00:00")
        assert go_on(begun) == 1
        [row] = [row for row in begun.documents() if row.id == first.id]
        assert (row.source, row.created[:4]) == ("/elsewhere.md", "2001")
    assert begun.check() == []


def test_sources_that_changed_places_are_kept(begun: Store) -> None:
    first, second, third = (row.id for row in begun.documents())
    begun.rename_source(first, "/parked")
    begun.rename_source(second, "/docs/1.txt")
    begun.rename_source(first, "/docs/2.txt")
    assert go_on(begun) == 1
    assert sources(begun) == {first: "/docs/2.txt", second: "/docs/1.txt", third: "/docs/3.txt"}
    assert begun.check() == []


def test_forgetting_reaches_an_unfinished_rebuild(begun: Store) -> None:
    first, second, third = (row.id for row in begun.documents())
    begun.forget_document(first)
    secret = first.encode()
    assert secret not in folder_bytes(begun.path)
    assert [finding.kind for finding in begun.check()] == ["rebuild"]
    assert go_on(begun) == 1
    assert sorted(sources(begun)) == sorted([second, third])
    assert secret not in folder_bytes(begun.path) and begun.check() == []


def test_forgetting_under_a_running_rebuild_goes_on_later(library: Path) -> None:
    with open_store(library, lock_timeout=0.1) as store:
        first, second = add(store, 1), add(store, 2)
        with store.rebuilding(FINGERPRINT, INT8) as fresh, store.snapshot() as view:
            read_again(store, fresh)
            refused = pytest.raises(LockTimeout, match="bytes go with the next writing command")
            with open_store(library, lock_timeout=0.1) as other, refused:
                other.forget_document(first)
            assert [row.id for row in view.documents()] == [first, second]
    with open_store(library) as store:
        assert store.swap_in_rebuilt()
        assert [row.id for row in store.documents()] == [second]
        assert first.encode() not in folder_bytes(library)
        assert store.check() == []


def test_a_writer_for_the_older_model_is_refused_afterwards(library: Path) -> None:
    with open_store(library) as store, Store.open(library) as without_model:
        add(store, 1)
        with without_model.rebuilding("another model", INT8) as fresh:
            read_again(without_model, fresh)
        assert without_model.swap_in_rebuilt()
        with pytest.raises(FingerprintMismatch, match="rebuilt for another model meanwhile"):
            add(store, 2)
        add_ready = text_id([TEXT.format(1), "More. "])
        assert [row.id for row in without_model.documents()] == [add_ready]
        assert without_model.check() == []


def test_a_takeover_that_was_killed_before_its_commit_goes_on(begun: Store) -> None:
    with begun.rebuilding(FINGERPRINT, INT8) as fresh:
        read_again(begun, fresh)
    before = sources(begun)
    inner = sorted((begun.path / "rebuild" / "segments").glob("*.seg"))
    assert inner
    os.link(inner[0], begun.path / "segments" / inner[0].name)  # its second name
    assert begun.swap_in_rebuilt()
    assert sources(begun) == before and begun.check() == []
