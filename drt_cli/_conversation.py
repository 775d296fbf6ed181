"""Saves conversations after their answers are printed, so that no answer waits for a lock."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ._errors import report

if TYPE_CHECKING:
    from drt import Session

NOT_SAVED = "the conversation was not saved"


def save_conversation(session: Session) -> str | None:
    """Save a named conversation; return the sentence that says why that failed.

    Another writer is waited for inside SQLite, which Ctrl-C does not interrupt: a thread does that,
    and the interruption, which is raised again, finds this one.
    """
    if session.name is None:
        return None
    problems: list[Exception] = []

    def save() -> None:
        try:
            session.save()
        except Exception as error:  # whatever it is, it becomes a sentence
            problems.append(error)
        ended.set()

    ended = threading.Event()
    try:
        threading.Thread(target=save, daemon=True).start()
        ended.wait()  # not join(): an interrupted one takes the thread for ended
    except KeyboardInterrupt:
        if not ended.is_set():
            report(f"interrupted; {NOT_SAVED}.")
        raise
    if not problems:
        return None
    reason = str(problems[0]) or type(problems[0]).__name__
    return f"the question was answered, but {NOT_SAVED}: {reason}"
