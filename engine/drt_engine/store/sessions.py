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
from drt_engine.store.turns import quoted_documents, read_documents
from drt_engine.store.types import SessionRow

_READ_BY_WRITER = (
    "the writer has read documents that were removed from the library meanwhile ({}): what it wrote"
    " is not kept"
)


class Sessions:
    """The sessions table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(
        self,
        name: str,
        *,
        transcript: list[dict[str, Any]],
        meta: dict[str, Any],
        state: bytes,
        stored_turns: int | None = None,
        elsewhere: Collection[str] = (),
    ) -> None:
        """Write or overwrite a session.

        Raises SessionError where a document was removed or forgotten that it quotes, or that a
        writer has read for what is new in it; those in ``elsewhere`` are in other libraries. So
        it does where the session has other turns than the ``stored_turns`` that this one goes on
        from, which are never overwritten; ``None`` does not look.
        """
        check_name(name)
        time = now()
        meta_json, turns_json = (json.dumps(value, allow_nan=False) for value in (meta, transcript))
        with self._database.transaction() as connection:
            _expect_quoted(connection, transcript, elsewhere)
            previous = connection.execute(
                "SELECT created, transcript, turns FROM sessions WHERE name = ?", (name,)
            ).fetchone()
            created, old_turns, count = previous or (time, "[]", stored_turns)
            if stored_turns is not None and count != stored_turns:
                raise SessionError(
                    f"conversation {name!r} was continued elsewhere meanwhile and has {count} turns"
                    f" there, expected {stored_turns}: open it again to go on"
                )
            if missing := _gone(connection, _newly_read(transcript, old_turns), elsewhere):
                raise SessionError(_READ_BY_WRITER.format(", ".join(missing)))
            row = (name, len(transcript), created, time, meta_json, turns_json, state)
            _put(connection, row)

    def add_writing(
        self,
        name: str,
        number: int,
        *,
        question: str,
        writing: dict[str, Any],
        elsewhere: Collection[str] = (),
    ) -> None:
        """Add what a writer wrote to turn ``number``, from 1, and touch nothing else.

        Raises NotFound where there is no such session any more, another question in its turn, or
        no document any more that the writer has read; those in ``elsewhere`` are not looked up.
        """
        with self._database.transaction() as connection:
            row = self.load(name)
            turn = row.transcript[number - 1] if 0 < number <= len(row.transcript) else {}
            if turn.get("question") != question:
                raise NotFound(f"session {name!r} has another turn {number} now")
            if missing := _gone(connection, read_documents(writing), elsewhere):
                raise NotFound(_READ_BY_WRITER.format(", ".join(missing)))
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


def _expect_quoted(
    connection: sqlite3.Connection,
    transcript: Sequence[dict[str, Any]],
    elsewhere: Collection[str],
) -> None:
    """Raise SessionError where a quoted document is gone, and no newer version has its source."""
    for document_id, source in quoted_documents(transcript).items():
        if (
            document_id not in elsewhere
            and not connection.execute(
                "SELECT 1 FROM documents WHERE id = ? OR (source = ? AND state = 'ready')",
                (document_id, source),
            ).fetchone()
        ):
            raise SessionError(
                f"this conversation quotes {source or document_id!r}, which was removed from the"
                " library meanwhile: it is not kept; begin another one"
            )


def _gone(
    connection: sqlite3.Connection, document_ids: Collection[str], elsewhere: Collection[str]
) -> list[str]:
    """Return those of the documents that the library does not have."""
    return sorted(
        document_id
        for document_id in document_ids
        if document_id not in elsewhere
        and not connection.execute(
            "SELECT 1 FROM documents WHERE id = ?", (document_id,)
        ).fetchone()
    )


def _newly_read(transcript: Sequence[dict[str, Any]], old_turns: str) -> set[str]:
    """Return the documents that writers have read for what is not stored yet.

    A document that is removed later leaves what was written of it, as it leaves quotes.
    """
    writings = [turn.get("writing") for turn in transcript]
    if not any(writings):
        return set()
    try:
        old = [turn.get("writing") for turn in json.loads(old_turns)]
    except (ValueError, TypeError, AttributeError):  # damaged: it is replaced
        old = []
    return set().union(*(read_documents(new) for new in writings if new not in old))


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
