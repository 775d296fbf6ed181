"""Sessions are saved, loaded, listed, renamed and deleted, bytes for bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.errors import NotFound, SessionError
from drt_engine.store import Store
from tests.engine.store.helpers import open_store

TRANSCRIPT = [{"question": "Wer?", "answer": "Zoë 😀 \ud800"}, {"question": "", "answer": None}]
STATE = bytes(range(256)) * 40


def save(store: Store, name: str, turns: int = 2) -> None:
    store.save_session(
        name, transcript=TRANSCRIPT[:turns], meta={"documents": ["a"], "f": 0.1}, state=STATE
    )


def test_save_and_load_in_another_store(library: Path, store: Store) -> None:
    save(store, "review")
    with open_store(library) as other:
        row = other.load_session("review")
    assert (row.name, row.transcript, row.state) == ("review", TRANSCRIPT, STATE)
    assert row.meta == {"documents": ["a"], "f": 0.1}


def test_saving_again_overwrites_and_keeps_the_start(store: Store) -> None:
    save(store, "s", turns=1)
    created = store.load_session("s").created
    save(store, "s")
    [info] = store.sessions()
    assert (info.name, info.turns) == ("s", 2)
    assert store.load_session("s").created == created


def test_rename_and_delete(store: Store) -> None:
    save(store, "one")
    save(store, "two")
    store.rename_session("one", "uno")
    store.rename_session("uno", "uno")
    assert {info.name for info in store.sessions()} == {"uno", "two"}
    with pytest.raises(SessionError, match="exists already"):
        store.rename_session("uno", "two")
    store.delete_session("two")
    assert [info.name for info in store.sessions()] == ["uno"]
    assert store.stats()["sessions"] == 1


def test_missing_and_impossible_names(store: Store) -> None:
    save(store, "review")
    with pytest.raises(NotFound, match="did you mean 'review'"):
        store.load_session("reveiw")
    with pytest.raises(NotFound):
        store.delete_session("x")
    with pytest.raises(NotFound):
        store.rename_session("x", "y")
    for name in ("", "  ", "a\nb"):
        with pytest.raises(SessionError, match="printable"):
            save(store, name)
