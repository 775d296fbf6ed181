"""Sessions are saved, loaded, listed, renamed and deleted, bytes for bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drt_engine.errors import CorruptStore, NotFound, SessionError
from drt_engine.store import Store
from tests.engine.store.helpers import add_document, document_id, open_store

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


def test_what_was_said_is_found(store: Store) -> None:
    turns = [
        {"question": "Who keeps the Log?", "answer": "The keeper"},
        {"question": "When?", "answer": "Every day, naïvely 😀"},
    ]
    store.save_session("first", transcript=turns, meta={}, state=b"")
    store.save_session("second", transcript=turns[1:], meta={}, state=b"")
    assert [(hit.session, hit.turn) for hit in store.search_sessions(["KEEPER", "log"])] == [
        ("first", 1)
    ]
    found = {(hit.session, hit.turn) for hit in store.search_sessions(["naïvely"])}
    assert found == {("first", 2), ("second", 1)}
    assert store.search_sessions(["keeper", "day"]) == []


def test_a_text_is_added_to_its_turn_alone(store: Store) -> None:
    save(store, "review")
    writing = {"sentences": [{"text": "Der Wärter."}]}
    store.add_writing("review", 1, question="Wer?", writing=writing)
    row = store.load_session("review")
    assert row.transcript == [{**TRANSCRIPT[0], "writing": writing}, TRANSCRIPT[1]]
    assert (row.state, row.meta["f"]) == (STATE, 0.1)
    assert [hit.answer for hit in store.search_sessions(["wärter"])] == ["Der Wärter."]
    for name, number, question in (("review", 1, "Was?"), ("review", 3, ""), ("other", 1, "Wer?")):
        with pytest.raises(NotFound):
            store.add_writing(name, number, question=question, writing=writing)
    for number in (0, -1):
        with pytest.raises(NotFound):
            store.add_writing("review", number, question="", writing=writing)
    assert store.load_session("review").transcript == row.transcript


def quoting(number: int, source: str = "") -> dict[str, Any]:
    return {"question": "?", "citations": [{"document": document_id(number), "source": source}]}


def test_what_is_forgotten_while_an_answer_is_made_is_not_saved(store: Store) -> None:
    for number in (1, 2, 3):
        add_document(store, number, [f"heather {number} "], source=f"/{number}")
    turns = [quoting(1, "/1"), quoting(2, "/2")]
    store.save_session("kept", transcript=turns[:1], meta={}, state=b"")
    store.save_session("talk", transcript=turns, meta={}, state=b"")
    assert store.forget_document(document_id(2)) == ["talk"]
    for name in ("talk", "new"):
        with pytest.raises(SessionError, match="quotes '/2', which was removed from the library"):
            store.save_session(name, transcript=turns, meta={}, state=b"")
    assert [info.name for info in store.sessions()] == ["kept"]
    add_document(store, 4, ["gorse "], source="/1")  # a newer version of the first
    store.save_session("kept", transcript=turns[:1], meta={}, state=b"again")
    written = quoting(4) | {"writing": {"sources": [{"citation": {"document": document_id(2)}}]}}
    with pytest.raises(SessionError, match="which was removed"):
        store.save_session("new", transcript=[written], meta={}, state=b"")


def test_what_is_written_from_a_forgotten_document_is_not_kept(store: Store) -> None:
    for number in (1, 2):
        add_document(store, number, [f"heather {number} "])
    writing = {"sentences": [{"text": "Heather."}], "documents": [document_id(2)]}
    store.save_session("talk", transcript=[quoting(1)], meta={}, state=b"")
    store.save_session("other", transcript=[quoting(1)], meta={}, state=b"")
    store.add_writing("other", 1, question="?", writing=writing)
    assert store.forget_document(document_id(2)) == ["other"]  # it names it nowhere else
    with pytest.raises(NotFound, match="the writer has read documents that were removed"):
        store.add_writing("talk", 1, question="?", writing=writing)
    turn = {**quoting(1), "writing": writing}
    with pytest.raises(SessionError, match="the writer has read documents that were removed"):
        store.save_session("talk", transcript=[turn], meta={}, state=b"")
    assert store.load_session("talk").transcript == [quoting(1)]
    # What was kept before a document was replaced stays, as quotes do.
    turn = quoting(1, "/docs/1.txt") | {"writing": {**writing, "documents": [document_id(1)]}}
    store.save_session("talk", transcript=[turn], meta={}, state=b"")
    add_document(store, 3, ["gorse "], source="/docs/1.txt")
    store.save_session("talk", transcript=[turn, quoting(3)], meta={}, state=b"")
    assert store.load_session("talk").transcript == [turn, quoting(3)]


def test_a_listing_reads_an_index_and_no_transcript(store: Store) -> None:
    plan = store._database.query(
        "EXPLAIN QUERY PLAN SELECT name, turns, updated FROM sessions ORDER BY updated DESC, name"
    )
    assert [row[-1] for row in plan] == ["SCAN sessions USING COVERING INDEX sessions_by_time"]


def test_a_session_is_replaced_whole_or_not_at_all(store: Store) -> None:
    store.save_session("one", transcript=[{"question": "q"}], meta={"a": 1}, state=b"old")
    kept = store.load_session("one")
    with pytest.raises(ValueError):
        store.save_session("one", transcript=[{"x": float("nan")}], meta={}, state=b"new")
    assert store.load_session("one") == kept
    store.rename_session("one", "two")
    assert store.load_session("two").state == b"old"
    store._database._open().execute("UPDATE sessions SET state = x'00'")
    assert [finding.kind for finding in store.check()] == ["session"]
    with pytest.raises(CorruptStore, match="'two' is damaged"):
        store.load_session("two")
    store.delete_session("two")
