"""What one command leaves for the next: the places that the last answers cited.

A small file of the user's; where it cannot be written, nothing but the shortcut is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ._errors import CliError
from ._files import write_file

if TYPE_CHECKING:
    from drt import Citation, Library, SearchHit

NAME = "last-answer.json"
MOST = 50  # answers that are remembered, one for each terminal and library


@dataclass(frozen=True)
class LastAnswer:
    """An answer's question and the handles of what it cited, best first.

    ``terminal`` and ``library`` are where it was asked.
    """

    library: str
    terminal: str
    question: str
    citations: tuple[str, ...]


def state_folder() -> Path:
    """Return ``DRT_STATE_DIR`` if set, else the platform's folder for such files."""
    named = os.environ.get("DRT_STATE_DIR")
    if named:
        return Path(named)
    from platformdirs import user_state_dir

    return Path(user_state_dir("drt", appauthor=False))


_terminal: str | None = None


def use_terminal(name: str) -> None:
    """Take the name of another process's terminal, for which this one works."""
    global _terminal
    _terminal = name


def this_terminal() -> str:
    """Return a name for the terminal window, or other session, that this process belongs to."""
    if _terminal is not None:
        return _terminal
    session = os.getsid(0) if hasattr(os, "getsid") else os.getppid()
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            if sys.platform != "win32" and stream is not None:
                return f"{os.ttyname(stream.fileno())} {session}"
    return f"- {session}"


def remember(library: Library, question: str, citations: Sequence[Citation | SearchHit]) -> None:
    """Store what was cited, so that ``drt show 1`` finds it."""
    handles = tuple(map(_full_handle, citations))
    answer = LastAnswer(_name(library), this_terminal(), question, handles)
    place = (answer.terminal, answer.library)
    earlier = [item for item in _remembered() if (item.terminal, item.library) != place]
    with contextlib.suppress(OSError):
        _store([answer, *earlier][:MOST])


def forget(document_id: str) -> None:
    """Drop the answers that cite a document, questions included; ``CliError`` where that fails."""
    answers = _remembered()
    left = [
        item
        for item in answers
        if not any(handle.partition(":")[0] == document_id for handle in item.citations)
    ]
    if len(left) == len(answers):
        return
    try:
        _store(left)
    except OSError as error:
        raise CliError(
            f"{state_folder() / NAME} still holds questions about it and cannot be written"
            f" ({error.strerror}); delete that file."
        ) from error


def _store(answers: Sequence[LastAnswer]) -> None:
    """Replace the file as a whole; OSError."""
    folder = state_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f"{NAME}.{os.getpid()}"
    try:
        write_file(draft, json.dumps({"answers": [asdict(item) for item in answers]}), private=True)
        draft.replace(folder / NAME)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def _name(library: Library) -> str:
    """Return the absolute path of a library, or of several that are read as one."""
    return os.pathsep.join(str(path.absolute()) for path in library.paths)


def _full_handle(item: Citation | SearchHit) -> str:
    """Return a handle with the whole id of its document; of a hit, that of its best sentence."""
    start, end = item.start, item.end
    if not hasattr(item, "quote"):
        start, end = item.sentence_start, item.sentence_end
    return f"{item.document}:{start}-{end}"


def _remembered() -> list[LastAnswer]:
    """Return the last answers, newest first; none if the file is not one of ours."""
    try:
        values = json.loads((state_folder() / NAME).read_text(encoding="utf-8"))
        return [
            LastAnswer(
                str(entry["library"]),
                str(entry["terminal"]),
                str(entry["question"]),
                tuple(map(str, entry["citations"])),
            )
            for entry in values["answers"]
        ]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def cited(number: int, library: Library) -> tuple[LastAnswer, str, str]:
    """Return the answer that a citation's number, from 1, belongs to, its handle, and whose it is.

    The last answer of this library in this terminal, else of this library, else of this terminal,
    else of all. What it is of is empty where nobody could think of another.
    """
    answers, terminal, folder = _remembered(), this_terminal(), _name(library)
    if not answers:
        raise CliError(
            "no answer is remembered; name a citation as `drt ask` prints it, DOCUMENT:START-END."
        )
    answer = max(answers, key=lambda item: (item.library == folder, item.terminal == terminal))
    latest = next((item for item in answers if item.terminal == terminal), None)
    if not 1 <= number <= len(answer.citations):
        count = len(answer.citations)
        raise CliError(
            f"the answer to {answer.question!r} has {count} citation{'' if count == 1 else 's'},"
            f" number {number} was asked for."
        )
    expected = answer is latest and answer.library == folder
    whose = "" if expected else _whose(answer, folder, terminal)
    return answer, answer.citations[number - 1], whose


def _whose(answer: LastAnswer, library: str, terminal: str) -> str:
    where = [] if answer.terminal == terminal else ["in another terminal"]
    where += [] if answer.library == library else [f"of the library at {answer.library}"]
    return f"From the answer to {answer.question!r}, asked {' '.join(where) or 'earlier'}."
