"""A log of all questions in a file of the user's; loads no model and needs no library.

The file is an SQLite database that only its owner may read. Nothing that goes wrong with it keeps
an answer from its user: an entry that cannot be written at once is left out.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ._errors import DrtError
from ._types import AllAnswers, Answer, Citation

_PATIENCE = 0.2  # seconds that an answer may wait for another process that writes to the log
_COLUMNS = (
    "time",
    "library",
    "question",
    "answer",
    "state",
    "confidence",
    "seconds",
    "documents",
    "citations",
)
_TABLE = (
    "CREATE TABLE IF NOT EXISTS questions (number INTEGER PRIMARY KEY, time TEXT, library TEXT,"
    " question TEXT, answer TEXT, state TEXT, confidence REAL, seconds REAL, documents TEXT,"
    " citations TEXT)"
)


@dataclass(frozen=True)
class LogEntry:
    """A question that was asked, and its answer.

    ``time`` is UTC in ISO 8601. ``state`` is that of the ``Answer``; ``answer`` is empty where it
    is not "answer". ``documents`` are titles of the cited documents, ``citations`` handles with
    whole ids, which ``drt show`` takes.
    """

    time: str
    library: str
    question: str
    answer: str
    state: str
    confidence: float
    seconds: float
    documents: tuple[str, ...]
    citations: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain values."""
        return asdict(self)


LogEntry.__module__ = "drt"  # where users import it from


class QuestionLog:
    """The log in one file, which is made when the first question is logged."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"QuestionLog({str(self.path)!r})"

    def add(self, answer: Answer | AllAnswers, library: str | os.PathLike[str]) -> bool:
        """Log a question with its answer; return whether that was possible, and never raise."""
        citations = answer.citations
        values = (
            datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            os.fsdecode(os.path.abspath(library)),
            answer.question,
            answer.text,
            answer.state,
            answer.confidence,
            answer.seconds,
            json.dumps(list(dict.fromkeys(citation.title for citation in citations))),
            json.dumps([_full_handle(citation) for citation in citations]),
        )
        marks = ", ".join("?" * len(_COLUMNS))
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._connection(create=True) as connection:
                connection.execute(_TABLE)
                connection.execute(
                    f"INSERT INTO questions ({', '.join(_COLUMNS)}) VALUES ({marks})", values
                )
        except (OSError, sqlite3.Error, UnicodeError):
            return False
        return True

    def entries(self, text: str = "", *, limit: int | None = None) -> list[LogEntry]:
        """Return entries that contain all words of ``text``, in any case, the newest first.

        Words are looked for in questions, answers and titles. Raises ``DrtError`` for a damaged
        log.
        """
        words = text.casefold().split()
        matches: list[LogEntry] = []

        def collect(connection: sqlite3.Connection) -> None:
            rows = connection.execute(
                f"SELECT {', '.join(_COLUMNS)} FROM questions ORDER BY number DESC"
            )
            for row in rows:
                entry = _entry(row)
                shown = " ".join((entry.question, entry.answer, *entry.documents)).casefold()
                if all(word in shown for word in words):
                    matches.append(entry)
                if len(matches) == limit:
                    break

        self._on_file(collect)
        return matches

    def clear(self) -> int:
        """Delete the log; return how many entries it had, 0 for a damaged one."""
        count = 0
        with contextlib.suppress(DrtError):
            count = len(self.entries())
        for name in (self.path.name, f"{self.path.name}-journal"):
            try:
                self.path.with_name(name).unlink(missing_ok=True)
            except OSError as error:
                raise DrtError(f"{self.path} cannot be deleted ({error.strerror}).") from None
        return count

    def forget(self, document_id: str) -> int:
        """Delete the entries that cite a document; return how many these were."""
        forgotten = 0

        def delete(connection: sqlite3.Connection) -> None:
            nonlocal forgotten
            cursor = connection.execute(
                "DELETE FROM questions WHERE instr(citations, ?)", (f'"{document_id}:',)
            )
            forgotten = cursor.rowcount

        self._on_file(delete)
        return forgotten

    def _on_file(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Do something with the database where there is one; ``DrtError`` where that fails."""
        if not self.path.exists():
            return
        try:
            with self._connection(create=False) as connection:
                work(connection)
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):  # a kill came between the file and its table
                return
            raise DrtError(f"the log {self.path} cannot be used now ({error}).") from None
        except (OSError, sqlite3.Error, ValueError, TypeError) as error:
            raise DrtError(
                f"the log {self.path} is damaged ({error}); `drt log --clear` deletes it."
            ) from None

    @contextlib.contextmanager
    def _connection(self, *, create: bool) -> Iterator[sqlite3.Connection]:
        """Yield the database in one transaction, made for its owner alone."""
        # Nothing but SQLite may open it: closing a descriptor of the file would take the locks of
        # other threads' connections away, too.
        is_new = create and not os.path.lexists(self.path)
        if create and self.path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(self.path))
        connection = sqlite3.connect(self.path, timeout=_PATIENCE)
        try:
            if is_new:
                os.chmod(self.path, 0o600)
            with connection:
                connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
                yield connection
        finally:
            connection.close()


def _full_handle(citation: Citation) -> str:
    return f"{citation.document}:{citation.start}-{citation.end}"


def _entry(row: Sequence[Any]) -> LogEntry:
    *values, documents, citations = row
    lists = (json.loads(documents), json.loads(citations))
    if not all(
        isinstance(names, list) and all(isinstance(s, str) for s in names) for names in lists
    ):
        raise ValueError("it holds an entry that no drt writes")
    return LogEntry(*values, *map(tuple, lists))
