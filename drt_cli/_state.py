"""What one command leaves for the next: the places that the last answer cited.

A small file of the user's; where it cannot be written, nothing but the shortcut is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ._errors import CliError

if TYPE_CHECKING:
    from drt import Citation

NAME = "last-answer.json"


@dataclass(frozen=True)
class LastAnswer:
    """The library that was asked and the handles of what was cited, best first."""

    library: str
    citations: tuple[str, ...]


def state_folder() -> Path:
    """`DRT_STATE_DIR` where it is set, else the platform's folder for such files."""
    named = os.environ.get("DRT_STATE_DIR")
    if named:
        return Path(named)
    from platformdirs import user_state_dir

    return Path(user_state_dir("drt", appauthor=False))


def remember(library: Path, citations: Sequence[Citation]) -> None:
    """Keeps what was cited, so that `drt show 1` finds it."""
    folder = state_folder()
    kept = {
        "library": str(library.absolute()),
        "citations": [f"{one.document}:{one.start}-{one.end}" for one in citations],
    }
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = folder / f"{NAME}.{os.getpid()}"
        new.write_text(json.dumps(kept), encoding="utf-8")
        new.replace(folder / NAME)


def last_answer() -> LastAnswer:
    """What was cited last; `CliError` where nothing was."""
    try:
        kept = json.loads((state_folder() / NAME).read_text(encoding="utf-8"))
        return LastAnswer(str(kept["library"]), tuple(str(one) for one in kept["citations"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise CliError(
            "no answer is remembered; name a citation as `drt ask` prints it, DOCUMENT:START-END."
        ) from None


def cited(number: int) -> tuple[str, str]:
    """The library and handle of the last answer's citation with this number, from 1."""
    last = last_answer()
    if not 1 <= number <= len(last.citations):
        raise CliError(
            f"the last answer has {len(last.citations)} citation(s), number {number} was asked for."
        )
    return last.library, last.citations[number - 1]
