"""Sentences about what a reader left out of a document, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable

from drt_engine.documents.base.titles import one_line

_MAX_KINDS = 20


class Notes:
    """Counts what a reader left out and why; complete once the document is read."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._unnamed = 0

    def skip(self, what: str, why: str, count: int = 1) -> None:
        """Count ``what`` (a singular noun, or a named thing) that was left out because of ``why``.

        ``why`` must read well after one and after many. Beyond ``_MAX_KINDS`` kinds, new ones are
        only counted, so that a file of nothing else cannot fill the memory.
        """
        kind = (one_line(what), one_line(why))
        if kind in self._counts or len(self._counts) < _MAX_KINDS:
            self._counts[kind] = self._counts.get(kind, 0) + count
        else:
            self._unnamed += count

    def merge(self, notes: Notes) -> None:
        """Add what was left out of a part of the document."""
        for (subject, reason), count in notes._counts.items():
            self.skip(subject, reason, count)
        self._unnamed += notes._unnamed

    def take(self, sentences: Iterable[str]) -> None:
        """Add the phrases of ``skipped`` of a reader in another process."""
        for sentence in sentences:
            self.skip(sentence, "")

    @property
    def skipped(self) -> tuple[str, ...]:
        """One phrase for each kind of thing left out: "3 images (pictures hold no text)"."""
        phrases = [
            _phrase(subject, reason, count) for (subject, reason), count in self._counts.items()
        ]
        return (*phrases, f"{self._unnamed} more") if self._unnamed else tuple(phrases)


_COMPLEMENT = re.compile(r"\b(?: of| in| on| with| without| around| after| that| called)\b")
_NAMED_NOUN = re.compile(r"(attachment|file) (.+)\Z", re.DOTALL)
_NAME_SIGNS = re.compile(r"[^a-z -]", re.IGNORECASE)


def _phrase(what: str, why: str, count: int) -> str:
    subject = what if count == 1 else f"{count} {_plural(what)}"
    return f"{subject} ({why})" if why else subject


def _plural(what: str) -> str:
    """Return the plural: "ends of a result", "headers or footers", "attachments a.png"."""
    if named := _NAMED_NOUN.match(what):  # whatever words the name is made of
        return f"{named[1]}s {named[2]}"
    match = _COMPLEMENT.search(what)
    end = match.start() if match else len(what)
    noun, complement = what[:end], what[end:]
    first_word, _, name = noun.partition(" ")
    if _NAME_SIGNS.search(first_word):
        return f"times {what}"  # a name alone
    if _NAME_SIGNS.search(name):
        return f"{_plural_noun(first_word)} {name}{complement}"
    first, conjunction, second = noun.partition(" or ")
    if conjunction and " " not in second:
        return f"{_plural_noun(first)} or {_plural_noun(second)}{complement}"
    return _plural_noun(noun) + complement


def _plural_noun(noun: str) -> str:
    if noun.endswith("s"):
        return noun
    return noun[:-1] + "ies" if re.search(r"[^aeiou]y\Z", noun) else noun + "s"
