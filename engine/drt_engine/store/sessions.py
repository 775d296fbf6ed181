"""Saved sessions: a name, a transcript, metadata, and a state of opaque bytes.

Knows nothing of what the state means; a save is one SQLite transaction and needs no writer's lock.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

from drt_engine.errors import CorruptStore, NotFound, SessionError
from drt_engine.results import FoundTurn, SessionInfo
from drt_engine.store.catalogue.database import Database
from drt_engine.store.catalogue.document_rows import nearest
from drt_engine.store.catalogue.row_checksums import expect
from drt_engine.store.catalogue.row_values import SessionValues, now, session_checksum
from drt_engine.store.types import SessionRow


class Sessions:
    """The sessions table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(
        self, name: str, *, transcript: list[dict[str, Any]], meta: dict[str, Any], state: bytes
    ) -> None:
        """Write or overwrite a session."""
        check_name(name)
        time = now()
        meta_json, turns_json = (json.dumps(value, allow_nan=False) for value in (meta, transcript))
        with self._database.transaction() as connection:
            previous = connection.execute("SELECT created FROM sessions WHERE name = ?", (name,))
            created = (previous.fetchone() or (time,))[0]
            row = (name, len(transcript), created, time, meta_json, turns_json, state)
            _put(connection, row)

    def add_writing(
        self, name: str, number: int, *, question: str, writing: dict[str, Any]
    ) -> None:
        """Add what a writer wrote to turn ``number``, from 1, and touch nothing else.

        Raises NotFound where there is no such session any more, or another question in its turn.
        """
        with self._database.transaction() as connection:
            row = self.load(name)
            turn = row.transcript[number - 1] if 0 < number <= len(row.transcript) else {}
            if turn.get("question") != question:
                raise NotFound(f"session {name!r} has another turn {number} now")
            turn["writing"] = writing
            meta, turns = (
                json.dumps(value, allow_nan=False) for value in (row.meta, row.transcript)
            )
            count = len(row.transcript)
            _put(connection, (name, count, row.created, now(), meta, turns, row.state))

    def put(self, row: SessionRow) -> None:
        """Write a session of another library as it was, times included."""
        check_name(row.name)
        meta, turns = (json.dumps(value, allow_nan=False) for value in (row.meta, row.transcript))
        with self._database.transaction() as connection:
            times = (row.created, row.updated)
            _put(connection, (row.name, len(row.transcript), *times, meta, turns, row.state))

    def load(self, name: str) -> SessionRow:
        """Return a session in full; NotFound, or CorruptStore when its JSON is broken."""
        row = self._database.first_row(
            "SELECT name, turns, created, updated, meta, transcript, state, seal FROM sessions"
            " WHERE name = ?",
            (name,),
        )
        if row is None:
            raise self._missing(name)
        expect(row[:7], "sissssb")
        if session_checksum(row[:7]) != row[7]:
            raise _damaged(name, "its checksum is wrong")
        transcript, meta = _parsed(name, row[5]), _parsed(name, row[4])
        if not isinstance(meta, dict) or not _is_transcript(transcript):
            raise _damaged(name, "it does not hold turns")
        return SessionRow(name, transcript, meta, bytes(row[6]), row[2], row[3])

    def search(self, words: Sequence[str]) -> list[FoundTurn]:
        """Return turns that hold all the words, in any case, newest sessions first."""
        folded_words = [word.casefold() for word in words]
        rows = self._database.query(
            "SELECT name, transcript FROM sessions ORDER BY updated DESC, name"
        )
        hits = []
        for name, text in rows:
            expect((name, text), "ss")
            transcript = _parsed(name, text)
            if not _is_transcript(transcript):
                raise _damaged(name, "it does not hold turns")
            for number, turn in enumerate(transcript, start=1):
                question, answer = str(turn.get("question", "")), str(turn.get("answer", ""))
                for reply in (answer, _written_text(turn)):  # a writer's only where drt's does not
                    turn_text = f"{question}\n{reply}".casefold()
                    if all(word in turn_text for word in folded_words):
                        hits.append(FoundTurn(name, number, question, reply))
                        break
        return hits

    def citing(self, documents: Collection[str]) -> list[str]:
        """Return the names of sessions whose turns cite any of these documents."""
        names = []
        for name, text in self._database.query("SELECT name, transcript FROM sessions"):
            expect((name, text), "ss")
            if any(document_id in text for document_id in documents):
                names.append(name)
        return sorted(names)

    def infos(self) -> list[SessionInfo]:
        """Return all sessions, the one saved last first; reads no states."""
        rows = self._database.query(
            "SELECT name, turns, updated FROM sessions ORDER BY updated DESC, name"
        )
        for row in rows:
            expect(row, "sis")
        return [SessionInfo(*row) for row in rows]

    def rename(self, name: str, new_name: str) -> None:
        """Give a session another name; NotFound, or SessionError when the name is taken."""
        check_name(new_name)
        with self._database.transaction() as connection:
            same_name = connection.execute("SELECT 1 FROM sessions WHERE name = ?", (new_name,))
            if new_name != name and same_name.fetchone() is not None:
                raise SessionError(
                    f"a session {new_name!r} exists already: choose another name or delete it"
                )
            done = connection.execute(
                "UPDATE sessions SET name = ? WHERE name = ?", (new_name, name)
            )
            if not done.rowcount:
                raise self._missing(name)
            row = connection.execute(
                "SELECT name, turns, created, updated, meta, transcript, state FROM sessions"
                " WHERE name = ?",
                (new_name,),
            ).fetchone()
            _put(connection, row)

    def delete(self, name: str) -> None:
        """Delete a session; NotFound."""
        with self._database.transaction() as connection:
            if not connection.execute("DELETE FROM sessions WHERE name = ?", (name,)).rowcount:
                raise self._missing(name)

    def _missing(self, name: str) -> NotFound:
        hint = nearest(name, [info.name for info in self.infos()])
        return NotFound(f"no session {name!r} in the library: {hint}")


def _put(connection: sqlite3.Connection, row: SessionValues) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO sessions"
        " (name, turns, created, updated, meta, transcript, state, seal)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, session_checksum(row)),
    )


def _parsed(name: str, text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise _damaged(name, str(error)) from error


def _written_text(turn: dict[str, Any]) -> str:
    """Return what a writer wrote in a turn; empty where it has none, or is damaged."""
    try:
        return " ".join(sentence["text"] for sentence in turn["writing"]["sentences"])
    except (KeyError, TypeError):
        return ""


def _is_transcript(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(turn, dict) for turn in value)


def _damaged(name: str, reason: str) -> CorruptStore:
    return CorruptStore(f"session {name!r} is damaged ({reason}): delete it and start another")


def check_name(name: str) -> None:
    """Raise SessionError for what cannot be a session's name."""
    if not name.strip() or not name.isprintable():
        raise SessionError(f"a session cannot be called {name!r}: use printable characters")
