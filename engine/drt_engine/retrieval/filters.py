"""Filters: which part of a library is asked, searched or summarised; and what they leave.

Needs no torch, so that a search by words alone can be filtered without it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import PurePath

from drt_engine.documents import Format, all_formats
from drt_engine.documents.formats import by_suffix
from drt_engine.errors import ConfigError, NotFound
from drt_engine.store import DocumentRow
from drt_engine.store.catalogue.document_rows import nearest
from drt_engine.store.view import LibraryView
from drt_engine.text.sentences import Span

_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z")
_SINCE = re.compile(r"(\d{4})(?:-(0[1-9]|1[0-2])(?:-(0[1-9]|[12]\d|3[01]))?)?\Z")
_LISTED = 5  # names in the sentence that says what there is
# Formats of documents whose source has no suffix: standard input, README, members of archives.
_FORMATS = {
    "application/pdf": "pdf",
    "application/epub+zip": "epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.oasis.opendocument.text": "odt",
    "text/html": "html",
    "message/rfc822": "email",
    "application/mbox": "email",
    "application/x-ipynb+json": "notebook",
    "text/markdown": "markdown",
    "text/x-rst": "rst",
    "text/x-tex": "latex",
    "text/troff": "man",
    "text/csv": "csv",
    "application/jsonl": "jsonl",
    "text/x-source": "code",
    "text/plain": "text",
}


@dataclass(frozen=True)
class Filters:
    """What a document and a place in it must have to count; all of it together.

    ``section`` begins the name of the section or of one around it, ``pages`` are the first and the
    last, ``types`` are names of formats or suffixes, of which a document has one; it has all of the
    ``tags``. ``since`` is a day, month or year (YYYY-MM-DD): of the date that the document names,
    or, where it names none with certainty, of the day when it was read.
    """

    section: str | None = None
    pages: tuple[int, int] | None = None
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    since: str | None = None

    def __post_init__(self) -> None:
        if self.section is not None and not self.section.strip():
            raise ConfigError("the section is empty, expected the beginning of a section's name")
        if self.pages is not None and not 1 <= self.pages[0] <= self.pages[1]:
            raise ConfigError(
                f"pages are {self.pages[0]}-{self.pages[1]}, expected the first and the last, from"
                " 1 up"
            )
        if self.since is not None and not _is_date(self.since):
            raise ConfigError(f"since is {self.since!r}, expected YYYY, YYYY-MM or YYYY-MM-DD")

    @property
    def any(self) -> bool:
        """Whether anything is filtered."""
        return self != NO_FILTERS


NO_FILTERS = Filters()


@dataclass(frozen=True)
class Scope:
    """What may be retrieved: documents (``None``: all), and parts of them where there are any.

    ``spans`` are characters of each document in order, ``chunk_ids`` the chunks that have some of
    them; both are ``None`` where the documents count as a whole.
    """

    document_ids: tuple[str, ...] | None = None
    spans: Mapping[str, Sequence[Span]] | None = None
    chunk_ids: frozenset[int] | None = field(default=None, repr=False)

    def parts(self, document_id: str, start: int, end: int) -> list[Span]:
        """Return what is left of the characters ``start:end`` of a document, in order."""
        if self.spans is None:
            return [(start, end)]
        spans = self.spans.get(document_id, ())
        return [(max(a, start), min(b, end)) for a, b in spans if a < end and start < b]

    def holds(self, document_id: str, start: int, end: int) -> bool:
        """Return whether the characters ``start:end`` of a document are left."""
        return self.parts(document_id, start, end) == [(start, end)]


def resolve_scope(view: LibraryView, document_ids: Sequence[str] | None, filters: Filters) -> Scope:
    """Return what documents and filters leave of a library.

    Raises ``NotFound`` where nothing is left, with what there is.
    """
    scope_ids = None if document_ids is None else tuple(document_ids)
    if not filters.any:
        return Scope(scope_ids)
    rows = _filtered_documents(view, scope_ids, filters)
    ids = tuple(row.id for row in rows)
    if filters.section is None and filters.pages is None:
        return Scope(ids)
    spans = _filtered_spans(view, ids, filters)
    chunk_ids = {
        chunk_id
        for document_id, parts in spans.items()
        for start, end in parts
        for chunk_id in view.chunk_ids_between(document_id, start, end)
    }
    return Scope(tuple(spans), spans, frozenset(chunk_ids))


def section_matches(path: str | None, name: str) -> bool:
    """Return whether a section's path has this name: as a whole, or at the beginning of a part.

    Case and spaces do not count.
    """
    prefix = " ".join(name.casefold().split())
    folded = " ".join((path or "").casefold().split())
    return folded == prefix or any(part.startswith(prefix) for part in folded.split(" > "))


def document_type(row: DocumentRow) -> str:
    """Return the name of a document's format, by its suffix or else by what its reader gave."""
    format_of_suffix = by_suffix(PurePath(row.source).name)
    if format_of_suffix is not None and not format_of_suffix.archive:
        return format_of_suffix.name
    return _FORMATS.get(row.media_type.partition(";")[0], "text")


def document_day(row: DocumentRow) -> str:
    """Return the date that a document names, where it is certain, else the day it was read."""
    return row.date if _DAY.match(row.date) else row.created[:10]


def _filtered_documents(
    view: LibraryView, document_ids: Sequence[str] | None, filters: Filters
) -> list[DocumentRow]:
    rows = view.documents() if document_ids is None else view.documents_by_id(document_ids)
    if filters.types:
        named = [_type_test(name) for name in filters.types]
        matches = [row for row in rows if any(test(row) for test in named)]
        rows = _expected(
            matches, f"no document is of type {_alternatives(filters.types)}", rows, _types
        )
    for tag in filters.tags:
        matches = [row for row in rows if tag in row.tags]
        rows = _expected(matches, f"no document has the tag {tag!r}", rows, _tags)
    if filters.since is not None:
        first_day = _first_day(filters.since)
        matches = [row for row in rows if document_day(row) >= first_day]
        rows = _expected(matches, f"no document is of {first_day} or later", rows, _days)
    return rows


def _type_test(name: str) -> Callable[[DocumentRow], bool]:
    """Return whether a document is of a type: the name of a format, or a suffix."""
    plain = name.casefold().strip().removeprefix(".")
    formats: dict[str, Format] = {entry.name: entry for entry in all_formats()}
    if plain in formats:
        return lambda row: document_type(row) == plain
    suffix = f".{plain}"
    if not any(suffix in entry.suffixes for entry in formats.values()):
        raise NotFound(
            f"no format is called {name!r}: {nearest(plain, sorted(formats))}; `drt formats` lists"
            " them"
        )
    return lambda row: PurePath(row.source).name.casefold().endswith(suffix)


def _expected(
    matches: list[DocumentRow],
    problem: str,
    rows: Sequence[DocumentRow],
    describe: Callable[[Sequence[DocumentRow]], str],
) -> list[DocumentRow]:
    """Return the documents that are left; raise ``NotFound`` with what there is if there are none.

    ``rows`` are those before this filter.
    """
    if matches or not rows:  # a library without documents is reported by who asks it
        return matches
    raise NotFound(f"{problem}: {describe(rows)}")


def _types(rows: Sequence[DocumentRow]) -> str:
    return f"there is {_counted(document_type(row) for row in rows)}"


def _tags(rows: Sequence[DocumentRow]) -> str:
    tags = [tag for row in rows for tag in row.tags]
    return f"there is {_counted(tags)}" if tags else "`drt library tag DOC +NAME` gives one"


def _days(rows: Sequence[DocumentRow]) -> str:
    newest = max(rows, key=document_day)
    origin = "its own date" if _DAY.match(newest.date) else "read on this day"
    return f"the newest is {newest.title!r:.80} of {document_day(newest)} ({origin})"


def _is_date(since: str) -> bool:
    """Return whether it is a year, a month or a day of the calendar."""
    try:
        return bool(_SINCE.match(since)) and bool(date.fromisoformat(_first_day(since)))
    except ValueError:  # such as 30 February, or the year 0
        return False


def _first_day(since: str) -> str:
    year, month, day = since.partition("-")[0], since[5:7] or "01", since[8:10] or "01"
    return f"{year}-{month}-{day}"


def _alternatives(names: Sequence[str]) -> str:
    return " or ".join(map(repr, names))


def _counted(names: Iterable[str]) -> str:
    """Return names with how often they occur, the most frequent first."""
    counts = Counter(names).most_common()
    listed = ", ".join(f"{name!r} ({count})" for name, count in counts[:_LISTED])
    return f"{listed} and {len(counts) - _LISTED} more" if len(counts) > _LISTED else listed


def _filtered_spans(
    view: LibraryView, document_ids: Sequence[str], filters: Filters
) -> dict[str, list[Span]]:
    """Return the parts of documents that a section or pages leave, adjacent ones joined."""
    spans: dict[str, list[Span]] = {}
    names: dict[str, None] = {}
    pages: set[int] = set()
    for document_id, start, end, page, section in view.placed_parts(document_ids):
        names |= dict.fromkeys(part for part in (section or "").split(" > ") if part)
        if page is not None:
            pages.add(page)
        if filters.section is not None and not section_matches(section, filters.section):
            continue
        if filters.pages is not None and not (
            page is not None and filters.pages[0] <= page <= filters.pages[1]
        ):
            continue
        parts = spans.setdefault(document_id, [])
        if parts and parts[-1][1] == start:
            parts[-1] = (parts[-1][0], end)
        else:
            parts.append((start, end))
    if not spans:
        raise NotFound(_nothing_there(filters, list(names), sorted(pages)))
    return spans


def _nothing_there(filters: Filters, names: Sequence[str], pages: Sequence[int]) -> str:
    """Return the sentence about a section or pages that no document has."""
    if filters.section is not None and not any(section_matches(n, filters.section) for n in names):
        hint = nearest(filters.section, names) if names else "these documents have no sections"
        return f"no section {filters.section!r} in these documents: {hint}"
    assert filters.pages is not None
    where = "" if filters.section is None else f"of section {filters.section!r} "
    first, last = filters.pages
    page_range = f"they have pages {pages[0]} to {pages[-1]}" if pages else "they have no pages"
    return f"nothing {where}is on pages {first} to {last} of these documents: {page_range}"
