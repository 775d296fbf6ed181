"""What was typed where a question and paths are expected: the likely slips, each in one sentence.

Looks only at the words and at which of them are files.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from ._errors import CliError, WrongUsage


def check_question(command: str, question: str, paths: Sequence[str], *, noun: str) -> None:
    """Raise for a question without words, behind its files, missing, or not in quotation marks.

    ``noun`` is what the command calls its question.
    """
    typed = [question, *paths]
    loose = [word for word in typed if _is_loose(word)]
    files = [word for word in typed if word == "-" or os.path.exists(word)]
    if os.path.isfile(question) or (files[:1] == [question] and loose):
        if loose:
            raise WrongUsage(f"the {noun} comes first: {_line(command, loose, files)}")
        raise WrongUsage(
            f"{question} is a file, and there is no {noun}: {_line(command, [noun.upper()], files)}"
        )
    # One in quotation marks mostly has spaces, and then the other words are meant as paths.
    if " " not in question and len(loose) > 1 and typed == loose + files:
        raise WrongUsage(f"put the {noun} in quotation marks: {_line(command, loose, files)}")
    if not re.search(r"\w", question):
        raise CliError(f"the {noun} has no words, expected plain language.")


def _is_loose(word: str) -> bool:
    """Return whether a word is part of a question rather than a path: no file, nor like one."""
    if word == "-" or os.path.exists(word):
        return False
    if " " in word:
        return True
    return not PurePath(word).suffix and not any(mark in word for mark in ("*", "[", "/", os.sep))


def _line(command: str, words: Iterable[str], files: Iterable[str]) -> str:
    """Return the command line that was probably meant."""
    text = " ".join(words)
    quoted = shlex.quote(text) if re.search(r'["$`\\!]', text) else f'"{text}"'
    return " ".join(["drt", command, quoted, *map(shlex.quote, files)])
