"""Sentences about what a reader left out of a document, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable

from drt_engine.documents.base.titles import one_line

_NOTES = 20


class Notes:
    """What a reader passed over and why, complete once the document is read."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._unnamed = 0

    def skip(self, what: str, why: str, count: int = 1) -> None:
        """Count `what` (a singular noun, or a named thing) that was passed over because of `why`.

        `why` must read well after one and after many. More than a few kinds are only counted, so
        that a file of nothing else stays small.
        """
        known = (one_line(what), one_line(why))
        if known in self._counts or len(self._counts) < _NOTES:
            self._counts[known] = self._counts.get(known, 0) + count
        else:
            self._unnamed += count

    def merge(self, other: Notes) -> None:
        """Add what was passed over in a part of the document."""
        for (what, why), count in other._counts.items():
            self.skip(what, why, count)
        self._unnamed += other._unnamed

    def take(self, sentences: Iterable[str]) -> None:
        """Add what another `Notes` said in `skipped`."""
        for sentence in sentences:
            self.skip(sentence, "")

    @property
    def skipped(self) -> tuple[str, ...]:
        """One phrase for each thing passed over: "3 images (pictures hold no text)"."""
        found = [_counted(what, why, n) for (what, why), n in self._counts.items()]
        return (*found, f"{self._unnamed} more") if self._unnamed else tuple(found)


_HEAD_NOUN = re.compile(r"(.*?)(\b(?: of| in| on| with| without| around| that)\b.*|)\Z")
_NAME_SIGNS = re.compile(r"[^a-z -]", re.IGNORECASE)


def _counted(what: str, why: str, count: int) -> str:
    named = what if count == 1 else f"{count} {_plural(what)}"
    return f"{named} ({why})" if why else named


def _plural(what: str) -> str:
    """More than one of a phrase: "ends of a result", "headers or footers", "attachments a.png"."""
    match = _HEAD_NOUN.match(what)
    noun, rest = (match[1], match[2]) if match else (what, "")
    first, _, name = noun.partition(" ")
    if _NAME_SIGNS.search(first):
        return f"times {what}"  # a name alone
    if _NAME_SIGNS.search(name):
        return f"{_more(first)} {name}{rest}"
    one, either, other = noun.partition(" or ")
    if either and " " not in other:
        return f"{_more(one)} or {_more(other)}{rest}"
    return _more(noun) + rest


def _more(noun: str) -> str:
    if noun.endswith("s"):
        return noun
    return noun[:-1] + "ies" if re.search(r"[^aeiou]y\Z", noun) else noun + "s"
