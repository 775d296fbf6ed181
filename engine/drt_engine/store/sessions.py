"""Saved sessions: a name, a transcript, metadata, and a state of opaque bytes.

Knows nothing of what the state means; a save is one SQLite transaction and needs no writer's lock.
"""

from __future__ import annotations

import json
from typing import Any

from drt_engine.errors import CorruptStore, NotFound, SessionError
from drt_engine.store.catalog import nearest, now
from drt_engine.store.database import Database
from drt_engine.store.types import SessionInfo, SessionRow


class Sessions:
    """The sessions table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(
        self, name: str, *, transcript: list[dict[str, Any]], meta: dict[str, Any], state: bytes
    ) -> None:
        """Write or overwrite a session."""
        _check_name(name)
        time = now()
        meta_json, turns_json = (json.dumps(value, allow_nan=False) for value in (meta, transcript))
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE"
                " SET turns = excluded.turns, updated = excluded.updated, meta = excluded.meta,"
                " transcript = excluded.transcript, state = excluded.state",
                (name, len(transcript), time, time, meta_json, turns_json, state),
            )

    def load(self, name: str) -> SessionRow:
        """A session in full; NotFound, or CorruptStore when its JSON is broken."""
        row = self._database.one(
            "SELECT transcript, meta, state, created, updated FROM sessions WHERE name = ?", (name,)
        )
        if row is None:
            raise self._missing(name)
        try:
            transcript, meta = json.loads(row[0]), json.loads(row[1])
        except ValueError as error:
            raise CorruptStore(
                f"session {name!r} is damaged ({error}): delete it and start another"
            ) from error
        return SessionRow(name, transcript, meta, bytes(row[2]), row[3], row[4])

    def infos(self) -> list[SessionInfo]:
        """All sessions, the one saved last first; reads no states."""
        rows = self._database.query(
            "SELECT name, turns, updated FROM sessions ORDER BY updated DESC, name"
        )
        return [SessionInfo(*row) for row in rows]

    def rename(self, name: str, new_name: str) -> None:
        """Give a session another name; NotFound, or SessionError when the name is taken."""
        _check_name(new_name)
        with self._database.transaction() as connection:
            taken = connection.execute("SELECT 1 FROM sessions WHERE name = ?", (new_name,))
            if new_name != name and taken.fetchone() is not None:
                raise SessionError(
                    f"a session {new_name!r} exists already: choose another name or delete it"
                )
            done = connection.execute(
                "UPDATE sessions SET name = ? WHERE name = ?", (new_name, name)
            )
            if not done.rowcount:
                raise self._missing(name)

    def delete(self, name: str) -> None:
        """Delete a session; NotFound."""
        with self._database.transaction() as connection:
            if not connection.execute("DELETE FROM sessions WHERE name = ?", (name,)).rowcount:
                raise self._missing(name)

    def _missing(self, name: str) -> NotFound:
        hint = nearest(name, [info.name for info in self.infos()])
        return NotFound(f"no session {name!r} in the library: {hint}")


def _check_name(name: str) -> None:
    if not name.strip() or not name.isprintable():
        raise SessionError(f"a session cannot be called {name!r}: use printable characters")
