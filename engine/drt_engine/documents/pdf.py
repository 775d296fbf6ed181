"""Reads the text of PDF files page by page, through the extra `pdf` (pypdfium2).

Columns are read one after the other, running headers and footers left out, words joined over line
ends; bookmarks are sections. Never looks at images, so a scanned page has no text.
"""

from __future__ import annotations

import importlib
import re
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from drt_engine.documents.base import (
    BLOCK_CHARACTERS,
    Block,
    Notes,
    OpenDocument,
    SectionPath,
    Source,
    one_line,
    runs_between,
)
from drt_engine.documents.pdf_layout import reading_order
from drt_engine.documents.pdf_lines import PageText as RawPage
from drt_engine.documents.pdf_margins import NEIGHBOURS, Page, running
from drt_engine.documents.pdf_text import PageText, continues, lay_out
from drt_engine.errors import EmptyDocument, UnreadableDocument

_WRITER_PREFIX = re.compile(r"Microsoft (?:Word|PowerPoint|Excel) - ")
_NO_TITLES = frozenset(("untitled", "title", "(anonymous)", "unknown"))
_BOOKMARKS = 20_000
_HEADING_EXTRA = 12  # characters that a heading's number may add to its bookmark

Bookmarks = dict[int, list[tuple[int, str]]]  # page index -> (level from 1, title)


def _load(library: Any, source: Source) -> Any:
    file = source.open()
    try:
        return library.PdfDocument(file, autoclose=True)
    except library.PdfiumError as error:
        file.close()
        if "password" in str(error).lower():
            raise UnreadableDocument(
                f"{source.name} is protected by a password; save a copy without one."
            ) from error
        raise UnreadableDocument(
            f"{source.name} is not a whole PDF file ({_reason(error)}); get or export it again."
        ) from error
    except BaseException:
        file.close()
        raise


def _reason(error: Exception) -> str:
    found = re.search(r"PDFium: ([^).]+)", str(error))
    return found[1].lower() if found else str(error).rstrip(".")


class _Document:
    """An open PDF: its pages as lines, with errors as sentences."""

    def __init__(self, library: Any, source: Source) -> None:
        self._library, self._name = library, source.name
        self.pdf = _load(library, source)

    def __enter__(self) -> _Document:
        return self

    def __exit__(self, *_: object) -> None:
        self.pdf.close()

    def page(self, index: int) -> Page:
        raw = importlib.import_module("pypdfium2.raw")
        try:
            with closing(self.pdf[index]) as page, closing(page.get_textpage()) as text:
                rotation = raw.FPDFPage_GetRotation(page)
                lines = RawPage(raw, text, rotation).lines()
                _, bottom, _, top = _shown(page.get_bbox(), rotation)
                return Page(index + 1, lines, bottom, top)
        except self._library.PdfiumError as error:
            raise UnreadableDocument(
                f"{self._name} is damaged on page {index + 1} ({_reason(error)}); "
                "get or export it again."
            ) from error

    def pages(self) -> Iterator[Page]:
        for index in range(len(self.pdf)):
            yield self.page(index)

    def title(self) -> str:
        title = one_line(_WRITER_PREFIX.sub("", self.pdf.get_metadata_value("Title")))
        return "" if title.lower() in _NO_TITLES else title

    def bookmarks(self) -> Bookmarks:
        found: Bookmarks = {}
        for mark in islice(self.pdf.get_toc(), _BOOKMARKS):
            target = mark.get_dest()
            page = target.get_index() if target is not None else None
            title = one_line(mark.get_title())
            if page is not None and title:
                found.setdefault(page, []).append((mark.level + 1, title))
        return found


def _shown(
    box: tuple[float, float, float, float], rotation: int
) -> tuple[float, float, float, float]:
    """A page's box as it is shown; see `pdf_lines`, which turns characters alike."""
    left, bottom, right, top = box
    if rotation == 1:
        return bottom, -right, top, -left
    if rotation == 2:
        return -right, -top, -left, -bottom
    return (-top, left, -bottom, right) if rotation == 3 else box


def _cleared(pages: Iterator[Page], notes: Notes) -> Iterator[Page]:
    """The pages without their running lines, each seen among its neighbours."""
    window: deque[Page] = deque(maxlen=2 * NEIGHBOURS + 1)
    ahead: deque[Page] = deque()
    for page in pages:
        window.append(page)
        ahead.append(page)
        if len(ahead) > NEIGHBOURS:
            yield _without_running(ahead.popleft(), window, notes)
    while ahead:
        yield _without_running(ahead.popleft(), window, notes)


def _without_running(page: Page, window: deque[Page], notes: Notes) -> Page:
    others = [one for one in window if 0 < abs(one.number - page.number) <= NEIGHBOURS]
    gone = running(page, others)
    if gone:
        notes.skip("header or footer line", "it runs through the pages", len(gone))
    kept = [line for line in page.lines if id(line) not in gone]
    return Page(page.number, kept, page.bottom, page.top, page.edges)


class _Sections:
    """Cuts pages at the headings that bookmarks name; a heading not found counts from the top."""

    def __init__(self, bookmarks: Bookmarks) -> None:
        self._bookmarks = bookmarks
        self._path = SectionPath()

    def cut(self, number: int, page: PageText) -> Iterator[tuple[int, str | None]]:
        """Where sections begin on the page, the one that goes on first."""
        marks = self._bookmarks.get(number - 1, [])
        places = [(_heading_at(page, title), level, title) for level, title in marks]
        at, line = 0, 0
        if not places or places[0][0]:
            yield 0, self._path.text
        for found, level, title in places:
            line = max(line, found)
            self._path.enter(level, title)
            at = page.starts[line][0] if line < len(page.starts) else at
            yield at, self._path.text


def _heading_at(page: PageText, title: str) -> int:
    """The number of the line that holds the bookmark's title; 0 where none does."""
    wanted = _letters(title)
    for number, (_, line) in enumerate(page.starts):
        found = _letters(line.text)
        within = wanted in found and len(found) <= len(wanted) + _HEADING_EXTRA
        if wanted and (within or (len(found) > 8 and wanted.startswith(found))):
            return number
    return 0


def _letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def _texts(document: _Document, notes: Notes) -> Iterator[tuple[int, PageText]]:
    """Number and text of every page that has any."""
    for page in _cleared(document.pages(), notes):
        text = lay_out(reading_order(page.lines))
        if text.text.strip():
            yield page.number, text
        elif not page.edges:
            notes.skip("page", "it holds no text; a scanned page needs OCR")


def _page_blocks(document: _Document, notes: Notes) -> Iterator[list[Block]]:
    sections = _Sections(document.bookmarks())
    for number, page in _texts(document, notes):
        text = page.text + "\n"
        cuts = list(sections.cut(number, page))
        ends = [at for at, _ in cuts[1:]] + [len(text)]
        yield [
            Block(text[a:b], number, section, origin=runs_between(page.origin, a, b))
            for (start, section), end in zip(cuts, ends, strict=True)
            for a, b in _pieces(start, end)
        ]


def _pieces(start: int, end: int) -> Iterator[tuple[int, int]]:
    for at in range(start, end, BLOCK_CHARACTERS):
        yield at, min(end, at + BLOCK_CHARACTERS)


def _joined(pages: Iterator[list[Block]]) -> Iterator[Block]:
    """The blocks of all pages, words joined over the end of a page."""
    held: Block | None = None
    for blocks in pages:
        if held is not None:
            open_word = held.text.removesuffix("\n")
            if continues(open_word, blocks[0].text):
                held = replace(held, text=open_word[:-1])
            yield held
        yield from blocks[:-1]
        held = blocks[-1]
    if held is not None:
        yield held


def _blocks(library: Any, source: Source, notes: Notes) -> Iterator[Block]:
    with _Document(library, source) as document:
        yield from _joined(_page_blocks(document, notes))


@dataclass(frozen=True)
class PdfReader:
    """The text layer of a PDF; pages without text are passed over."""

    def recognises(self, head: bytes) -> bool:
        return b"%PDF-" in head[:1024]

    def open(self, source: Source) -> OpenDocument:
        library = importlib.import_module("pypdfium2")
        with _Document(library, source) as document:
            title = document.title() or one_line(source.file_name)
            if not any(page.lines for page in document.pages()):
                raise EmptyDocument(
                    f"{source.name} has no text on any page ({len(document.pdf)} in all), it seems "
                    "to be scanned; run text recognition (OCR) on it first."
                )
        notes = Notes()
        return OpenDocument(title, "application/pdf", _blocks(library, source, notes), notes)
