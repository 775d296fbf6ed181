"""Who wrote a document, from the section that says so: "AUTHORS" of a man page, of a read-me.

Knows stored text and its sections.
"""

from __future__ import annotations

import re

from drt_engine.answer.metadata.values import Value
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView

_TITLE = re.compile(
    r"(?i)(?:[\d.]+ +)?(?:the +)?(?:original +)?(?:authors?|author\(s\)|written by)"
)
_LONGEST = 600  # characters of such a section, or of its first paragraph
_NAME = re.compile(r"[A-Z][^\W\d_]*\.?(?: [A-Z]\.)*[ -][A-Z][^\W\d_]+")


def author_section(view: LibraryView, document: DocumentRow) -> Value | None:
    """Return the text of the one section that names the authors; None without one."""
    places = view.places(document.id)
    starts = [
        number
        for number, (_, _, section) in enumerate(places)
        if section and _TITLE.fullmatch(section.rpartition(" > ")[2].strip())
    ]
    sections = {places[number][2] for number in starts}
    if len(sections) != 1:
        return None
    first, last = starts[0], starts[-1]
    if starts != list(range(first, last + 1)):
        return None
    start = places[first][0]
    end = places[last + 1][0] if last + 1 < len(places) else document.characters
    text = view.text(document.id, start, min(end, start + 2 * _LONGEST))
    lead = re.match(r"[^\n]*\n(?:[-=~^]+[ \t]*\n)?\s*", text)  # the title
    if lead is None:
        return None
    body = text[lead.end() :].rstrip()
    if len(body) > _LONGEST:
        body = re.split(r"\n[ \t]*\n", body, maxsplit=1)[0].rstrip()
    if not _NAME.search(body) or len(body) > _LONGEST:
        return None
    return Value(body, start + lead.end(), start + lead.end() + len(body))
