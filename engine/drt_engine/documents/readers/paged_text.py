"""Tells the breaks between the pages of a plain text: "Deutsch    Informational    [Page 3]".

RFCs and Internet-Drafts are printed so: a foot, a form feed, a head and empty lines are between two
lines of a paragraph. Knows lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_LONGEST = 120  # characters of a foot or a head
_FOOT = re.compile(r"\S.*\s\[Page (?:\d{1,4}|[ivxl]{1,6})\]\s*\Z")
# Two or three parts at the sides of the line, or what names the memo.
_HEAD = re.compile(r"(?:RFC|Internet)[ -]\S.*|\S(?:[^\s]| (?! ))* {2,}\S.*\d\s*")
_SENTENCE_ENDS = (".", ":", ";", "?", "!")


class TextLine(NamedTuple):
    """A line, and the text right before it that only parts two pages."""

    text: str
    passed_over: str = ""


def without_page_breaks(lines: Iterable[str]) -> Iterator[TextLine]:
    """Yield lines, those between two pages as what is passed over before the next line.

    A paragraph that goes on has no empty line left, others have one.
    """
    last = ""  # the last line that is not empty
    empty: list[str] = []  # those since, which may be of a break
    parting = ""  # the foot and all behind it
    is_headed = False
    for line in lines:
        bare = line.strip("\f \t\r\n")
        if parting:
            if not bare or (not is_headed and _is_head(bare)):
                parting += line
                is_headed = is_headed or bool(bare)
                continue
            if empty and not _goes_on(last, line):
                yield TextLine(empty.pop(0))
            yield TextLine(line, "".join(empty) + parting)
            last, empty, parting, is_headed = line, [], "", False
        elif not bare:
            empty.append(line)
        elif len(bare) <= _LONGEST and bare.endswith("]") and _FOOT.fullmatch(bare):
            parting = line
        else:
            yield from map(TextLine, empty)
            yield TextLine(line)
            last, empty = line, []
    if parting:
        yield TextLine("", "".join(empty) + parting)
    else:
        yield from map(TextLine, empty)


def _is_head(bare: str) -> bool:
    return len(bare) <= _LONGEST and _HEAD.fullmatch(bare) is not None


def _goes_on(last: str, line: str) -> bool:
    """Return whether a line goes on with the paragraph of the last one on the page before."""
    is_indented = line[:1].isspace() or not last[:1].isspace()
    return is_indented and not last.rstrip().endswith(_SENTENCE_ENDS)
