"""What a document is, in one line above its summary: title, author, date, pages and sections.

Sentences alone do not tell that a text is a collection of stories, minutes or a list of releases;
the names of its parts do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.summary.options import SummaryOptions
from drt_engine.text.words import words

_LONGEST = 300  # characters of all names that are listed
_LONGEST_NAME = 60
_LETTER = re.compile(r"[^\W\d_]{2}")
_CONTENTS = ("contents", "table of contents", "index")


def about_documents(
    view: LibraryView, documents: Sequence[DocumentRow], options: SummaryOptions
) -> str:
    """Return the line for what is summarised; empty for parts of a document."""
    if options.section is not None or options.pages is not None:
        return ""
    if len(documents) > 1:
        return f"{len(documents):,} documents: {_listed([d.title for d in documents])}"
    document = documents[0]
    places = view.places(document.id)
    pages = max((page for _, page, _ in places if page is not None), default=0)
    facts = [
        _shortened(document.title, 2 * _LONGEST_NAME),
        f"by {_shortened(document.author, 2 * _LONGEST_NAME)}" if document.author else "",
        document.date or "",
        f"{pages:,} pages" if pages > 1 else "",
    ]
    names = section_list([section for *_, section in places if section], document)
    line = ", ".join(fact for fact in facts if fact)
    if len(names) > 1:
        return f"{line}. {len(names):,} sections: {_listed(names)}"
    return "" if line == Path(document.source).name else line  # which says nothing new


def section_list(paths: Iterable[str], document: DocumentRow) -> list[str]:
    """Return the names of a document's largest sections, in order.

    ``paths`` are sections as "Part 1 > Chapter 2". One that holds all others, as a title does, is
    left for those below it; a bare number has the name of the first section below it.
    """
    split = [path.split(" > ") for path in paths]
    while len({parts[0] for parts in split}) == 1 and any(len(parts) > 1 for parts in split):
        split = [parts[1:] for parts in split if len(parts) > 1]
    named: dict[str, str] = {}
    for first, *below in split:
        inner = next((name for name in below if _LETTER.search(name)), "")
        named.setdefault(first, "")
        named[first] = named[first] or (first if _LETTER.search(first) else inner)
    titles = {" ".join(words(text)) for text in (document.title, document.author or "")}
    return [
        name
        for name in dict.fromkeys(named.values())
        if name and name.casefold() not in _CONTENTS and " ".join(words(name)) not in titles
    ]


def _listed(names: Sequence[str]) -> str:
    """Return as many of the names as fit, and how many more there are."""
    shown: list[str] = []
    left = _LONGEST
    for name in names:
        short = _shortened(name, _LONGEST_NAME)
        left -= len(short) + 2
        if left < 0 and shown:
            break
        shown.append(short)
    unlisted = len(names) - len(shown)
    return "; ".join([*shown, f"and {unlisted:,} more"] if unlisted else shown)


def _shortened(name: str, longest: int) -> str:
    """Return a name on one line, cut after a word where it is too long."""
    line = " ".join(name.split()).rstrip(".:")
    if len(line) <= longest:
        return line
    cut = line[: longest - 3]
    return cut[: cut.rfind(" ") if " " in cut else None] + "..."
