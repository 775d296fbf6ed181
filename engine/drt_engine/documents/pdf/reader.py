"""Reads the text of PDF files page by page, through the extra ``pdf`` (pypdfium2).

Columns are read one after the other, tables row by row, words joined over line ends; bookmarks, or
else headings, are sections. Values of form fields are beside their labels, notes stuck on a page
behind its text, and so is a running line where it is first seen. Left out are other running lines,
tables of contents, line numbers and the words in drawings; footnotes follow the paragraph that
their page ends with. A page that is a picture has no text unless it is recognised.
"""

from __future__ import annotations

import importlib
import re
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from drt_engine.blocks.nodes import nodes_between
from drt_engine.documents.base import (
    BLOCK_CHARACTERS,
    Block,
    Node,
    Notes,
    OpenDocument,
    Source,
    date_of,
    one_line,
    runs_between,
)
from drt_engine.documents.metadata import Metadata
from drt_engine.documents.pdf.fields import fields_and_notes
from drt_engine.documents.pdf.layout import reading_order
from drt_engine.documents.pdf.lines import Line
from drt_engine.documents.pdf.lines import PageText as RawPage
from drt_engine.documents.pdf.margins import (
    NEIGHBOURS,
    Page,
    new_running_lines,
    running_lines,
)
from drt_engine.documents.pdf.marks import (
    ContentsLines,
    figure_labels,
    footnotes,
    has_caption,
    marked_notes,
    without_line_numbers,
)
from drt_engine.documents.pdf.scans import Scans, is_picture
from drt_engine.documents.pdf.sections import (
    Bookmark,
    Bookmarks,
    BookmarkSections,
    HeadingSections,
    Sections,
    title_of,
)
from drt_engine.documents.pdf.text import PageText, Spellings, continues, ends_sentence, lay_out
from drt_engine.documents.recognition import RECOGNISED
from drt_engine.documents.structure.contents import CONTENTS_LINE
from drt_engine.documents.structure.footnotes import note_nodes
from drt_engine.errors import EmptyDocument, UnreadableDocument

_WRITER_PREFIX = re.compile(r"Microsoft (?:Word|PowerPoint|Excel) - ")
_FILE_NAME = re.compile(r".+\.(?:docx?|odt|pdf|tex|dvi|indd|pptx?|xlsx?|rtf|qxd)", re.IGNORECASE)
_LIKE_A_FILE = re.compile(r"[^\s_]+(?:_[^\s_]+){2,}|[^\s-]+(?:-[^\s-]+){3,}")  # "Oil_Terms_v2"
_NO_TITLES = frozenset(("untitled", "title", "(anonymous)", "unknown"))
_BOOKMARKS = 20_000
_DRAWN_KINDS = (2, 3, 4, 5)  # paths, images, shadings and forms
_LONGEST_LABEL = 20
_MOST_DRAWN = 1500  # objects of a page that are measured


def load_pdf(library: Any, source: Source) -> Any:
    """Return a source's open document, which closes its file; raises UnreadableDocument."""
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
    match = re.search(r"PDFium: ([^).]+)", str(error))
    return match[1].lower() if match else str(error).rstrip(".")


class _Document:
    """An open PDF: its pages as lines, with errors as sentences."""

    def __init__(self, library: Any, source: Source, scans: Scans | None = None) -> None:
        self._library, self._name = library, source.name
        self.scans = scans or Scans()
        self.pdf = load_pdf(library, source)
        self._form = self._open_form()

    def __enter__(self) -> _Document:
        return self

    def __exit__(self, *_: object) -> None:
        self.pdf.close()

    def _open_form(self) -> Any:
        """Return PDFium's handle of the document's form, None where it has none."""
        if self.pdf.get_formtype() == 0:
            return None
        with suppress(self._library.PdfiumError):
            self.pdf.init_forms()
        return self.pdf.formenv.raw if self.pdf.formenv is not None else None

    def page(self, index: int) -> Page:
        raw = importlib.import_module("pypdfium2.raw")
        try:
            with closing(self.pdf[index]) as page, closing(page.get_textpage()) as text:
                rotation = raw.FPDFPage_GetRotation(page)
                lines = RawPage(raw, text, rotation).lines()
                left_edge, bottom, right_edge, top = _shown(page.get_bbox(), rotation)
                if not lines and self.scans.are_read and is_picture(page):
                    lines = self.scans.lines(self._name, index, page, (left_edge, top))
                notes: list[str] = []
                if not rotation and raw.FPDFPage_GetAnnotCount(page):
                    lines, notes = fields_and_notes(raw, page, self._form, lines)
                width = right_edge - left_edge
                shown_page = Page(index + 1, lines, bottom, top, width=width, notes=notes)
                shown_page.label = self._label(index)
                if has_caption(lines):
                    objects = islice(page.get_objects(_DRAWN_KINDS, max_depth=2), _MOST_DRAWN)
                    shown_page.drawn = [
                        _shown(drawing.get_bounds(), rotation) for drawing in objects
                    ]
                return shown_page
        except self._library.PdfiumError as error:
            raise UnreadableDocument(
                f"{self._name} is damaged on page {index + 1} ({_reason(error)}); "
                "get or export it again."
            ) from error

    def _label(self, index: int) -> str:
        """Return what is printed on a page, "" where that is its number or the file has none."""
        label = one_line(self.pdf.get_page_label(index))
        return "" if label == str(index + 1) or len(label) > _LONGEST_LABEL else label

    def pages(self) -> Iterator[Page]:
        for index in range(len(self.pdf)):
            yield self.page(index)

    def metadata(self) -> Metadata:
        """Return what the file says of itself; a file's name in place of the title says nothing."""
        title = one_line(_WRITER_PREFIX.sub("", self.pdf.get_metadata_value("Title")))
        if title.lower() in _NO_TITLES or _FILE_NAME.fullmatch(title):
            title = ""
        author = one_line(self.pdf.get_metadata_value("Author"))
        return Metadata(title, author, date_of(self.pdf.get_metadata_value("CreationDate")))

    def bookmarks(self) -> Bookmarks:
        bookmarks: Bookmarks = {}
        for mark in islice(self.pdf.get_toc(), _BOOKMARKS):
            target = mark.get_dest()
            page = target.get_index() if target is not None else None
            title = one_line(mark.get_title())
            if target is not None and page is not None and title:
                top = _height_of(*target.get_view())
                bookmarks.setdefault(page, []).append(Bookmark(mark.level + 1, title, top))
        return bookmarks


_TOP_AT = {1: 1, 3: 0, 5: 3, 7: 0}  # in views of the kinds XYZ, FitH, FitR, FitBH


def _height_of(kind: int, view: list[float]) -> float | None:
    """Return the height on its page that a bookmark points to, where its view tells one."""
    at = _TOP_AT.get(kind)
    return view[at] if at is not None and at < len(view) and view[at] > 0 else None


def _shown(
    box: tuple[float, float, float, float], rotation: int
) -> tuple[float, float, float, float]:
    """Return a box as the rotated page shows it; ``pdf.lines`` turns characters in the same way."""
    left, bottom, right, top = box
    if rotation == 1:
        return bottom, -right, top, -left
    if rotation == 2:
        return -right, -top, -left, -bottom
    return (-top, left, -bottom, right) if rotation == 3 else box


def _cleared(pages: Iterator[Page], notes: Notes, spellings: Spellings) -> Iterator[Page]:
    """Yield the pages without their running lines, each seen among its neighbours."""
    window: deque[Page] = deque(maxlen=2 * NEIGHBOURS + 1)
    kept_lines: set[str] = set()  # running lines that were kept once
    ahead: deque[Page] = deque()
    for page in pages:
        spellings.see(page.lines)
        window.append(page)
        ahead.append(page)
        if len(ahead) > NEIGHBOURS:
            yield _without_running(ahead.popleft(), window, notes, kept_lines)
    while ahead:
        yield _without_running(ahead.popleft(), window, notes, kept_lines)


def _without_running(page: Page, window: deque[Page], notes: Notes, known: set[str]) -> Page:
    """Return a page without its running lines; what is new is kept apart."""
    neighbours = [
        neighbour for neighbour in window if 0 < abs(neighbour.number - page.number) <= NEIGHBOURS
    ]
    running_ids = running_lines(page, neighbours)
    new: list[Line] = []
    if running_ids:
        new = new_running_lines(page, running_ids, neighbours, known)
        notes.skip("header or footer line", "running through the pages", len(running_ids))
    lines = [line for line in page.lines if id(line) not in running_ids]
    return replace(page, lines=lines, running=new)


class _Layout:
    """Lays out pages as text and footnotes, without what is neither."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._contents = ContentsLines()
        self.spellings = Spellings()

    def lay_out(self, page: Page) -> tuple[PageText, PageText | None]:
        """Return the running text of a page, and its footnotes."""
        lines, numbers = without_line_numbers(page.lines)
        if numbers:
            self._notes.skip("line number", "printed beside the text", numbers)
        lines = self._without(lines, self._contents.find(lines), *CONTENTS_LINE)
        if page.drawn:
            size = page.width * (page.top - page.bottom)
            labels = figure_labels(lines, page.drawn, size)
            lines = self._without(lines, labels, "line of words in a figure", "no running text")
        foot = footnotes(lines, page.usual)
        text = lay_out(reading_order(_without(lines, foot)), self.spellings)
        if not foot:
            return text, None
        return text, lay_out(reading_order(marked_notes(foot)), self.spellings)

    def _without(
        self, lines: list[Line], dropped: list[Line], subject: str, reason: str
    ) -> list[Line]:
        if dropped:
            self._notes.skip(subject, reason, len(dropped))
        return _without(lines, dropped)


def _without(lines: list[Line], dropped: list[Line]) -> list[Line]:
    ids = {id(line) for line in dropped}
    return [line for line in lines if id(line) not in ids] if ids else lines


def page_blocks(
    pages: Iterator[Page],
    notes: Notes,
    title: str,
    *,
    bookmarks: Bookmarks,
    scans: Scans,
) -> Iterator[Block]:
    """Yield the text of pages in blocks, words joined over the end of a page."""
    return _joined(_blocks_of_pages(pages, notes, title, bookmarks, scans))


def _blocks_of_pages(
    pages: Iterator[Page], notes: Notes, title: str, bookmarks: Bookmarks, scans: Scans
) -> Iterator[list[Block]]:
    sections: Sections = BookmarkSections(bookmarks) if bookmarks else HeadingSections(title)
    layout = _Layout(notes)
    waiting: list[Block] = []  # footnotes of the last page, whose last sentence goes on
    for page in _cleared(pages, notes, layout.spellings):
        text, foot = layout.lay_out(page)
        if not text.text.strip() and foot is None and not (page.notes or page.running):
            if not page.usual:
                notes.skip("page", 'no text; a scanned page needs the extra "ocr"')
            continue
        if page.number in scans:
            notes.skip("picture of a page", RECOGNISED)
        blocks = [_labelled(block, page) for block in _blocks_of(text, page, sections)]
        if waiting:
            blocks = _after_paragraph(blocks, waiting)
            waiting = []
        section = blocks[-1].section if blocks else None
        beside = _note_blocks(foot, text.text, page.number, section) if foot is not None else []
        beside += (replace(block, section=section) for block in _further_blocks(page))
        beside = [_labelled(block, page) for block in beside]
        if beside and blocks and not ends_sentence(text.text):
            waiting = beside
        else:
            blocks = [*blocks, *beside]
        if blocks:
            yield blocks
    if waiting:
        yield waiting


def _blocks_of(page: PageText, page_lines: Page, sections: Sections) -> list[Block]:
    """Return a page's text in blocks that are each in one section."""
    cuts = list(sections.cut(page_lines, page))
    if not page.text.strip():
        return []
    text = page.text + "\n"
    ends = [at for at, _ in cuts[1:]] + [len(text)]
    return [
        Block(
            text[a:b],
            page_lines.number,
            section,
            origin=runs_between(page.origin, a, b),
            nodes=nodes_between(page.nodes, a, b, by=-a),
        )
        for (start, section), end in zip(cuts, ends, strict=True)
        for a, b in _pieces(start, end)
    ]


def _labelled(block: Block, page: Page) -> Block:
    """Return a block with a node for its page, if another number or name is printed on that."""
    if not page.label:
        return block
    node = Node("page", 0, len(block.text), place=page.label)
    return replace(block, nodes=(node, *block.nodes))


def _further_blocks(page: Page) -> Iterator[Block]:
    """Yield what is beside a page's text, a paragraph each: new running lines, and stuck notes."""
    for line in page.running:
        text = PageText()
        text.add(line, "")
        text.end()
        origin = tuple((at + 1, index) for at, index in text.origin)
        yield Block(f"\n{text.text}\n\n", page.number, origin=origin)
    for note in page.notes:
        yield Block(f"\n{note}\n\n", page.number, nodes=(Node("note", 1, len(note) + 1),))


def _note_blocks(foot: PageText, page_text: str, number: int, section: str | None) -> list[Block]:
    """Return footnotes as a paragraph of their own, if there are any."""
    if not foot.text.strip():
        return []
    text = f"\n{foot.text}\n\n"
    origin = [(at + 1, index) for at, index in foot.origin]
    nodes = tuple(note_nodes(text, page_text))
    return [
        Block(
            text[a:b],
            number,
            section,
            origin=runs_between(origin, a, b),
            nodes=nodes_between(nodes, a, b, by=-a),
        )
        for a, b in _pieces(0, len(text))
    ]


def _after_paragraph(blocks: list[Block], notes: list[Block]) -> list[Block]:
    """Return a page's blocks with the footnotes of the page before after its first paragraph."""
    for number, block in enumerate(blocks):
        end = block.text.find("\n\n") + 1
        if not end and number + 1 < len(blocks) and blocks[number + 1].section == block.section:
            continue
        end = end or len(block.text)
        head = _part(block, 0, end)
        tail_start = end + 1  # of the two newlines that end the paragraph the note brings one
        tail = []
        if tail_start < len(block.text):
            tail = [_part(block, tail_start, len(block.text))]
        return [*blocks[:number], head, *notes, *tail, *blocks[number + 1 :]]
    return [*blocks, *notes]


def _part(block: Block, start: int, end: int) -> Block:
    return replace(
        block,
        text=block.text[start:end],
        origin=runs_between(block.origin, start, end),
        nodes=nodes_between(block.nodes, start, end, by=-start),
    )


def _pieces(start: int, end: int) -> Iterator[tuple[int, int]]:
    for at in range(start, end, BLOCK_CHARACTERS):
        yield at, min(end, at + BLOCK_CHARACTERS)


def _joined(pages: Iterator[list[Block]]) -> Iterator[Block]:
    """Yield the blocks of all pages, words joined over the end of a page."""
    last_block: Block | None = None
    for blocks in pages:
        if last_block is not None:
            open_word = last_block.text.removesuffix("\n")
            if continues(open_word, blocks[0].text):
                last_block = _part(last_block, 0, len(open_word) - 1)
            yield last_block
        yield from blocks[:-1]
        last_block = blocks[-1]
    if last_block is not None:
        yield last_block


def _blocks(
    library: Any, source: Source, notes: Notes, title: str, scans: Scans
) -> Iterator[Block]:
    with _Document(library, source, scans) as document:
        bookmarks = document.bookmarks()
        yield from page_blocks(document.pages(), notes, title, bookmarks=bookmarks, scans=scans)


@dataclass(frozen=True)
class PdfReader:
    """The text layer of a PDF; pages that are pictures are read as ``scans`` says."""

    scans: Scans = field(default_factory=Scans)

    def recognises(self, head: bytes) -> bool:
        return b"%PDF-" in head[:1024]

    def open(self, source: Source) -> OpenDocument:
        library = importlib.import_module("pypdfium2")
        with _Document(library, source, self.scans) as document:
            about, pages = document.metadata(), len(document.pdf)
            first = next((page for page in document.pages() if page.lines), None)
            if first is None:
                raise EmptyDocument(
                    f"{source.name} has no text on its pages ({pages} in all), and none was"
                    " recognised in pictures; scan it again with more contrast."
                    if self.scans.are_read
                    else f"{source.name} has no text on any page ({pages} in all), it seems to be"
                    ' scanned; have it recognised after: pip install "drt-assistant[ocr]"'
                )
            printed = not about.title or _LIKE_A_FILE.fullmatch(about.title)
            title = (title_of(first.lines, first.usual) if printed else "") or about.title
        notes = Notes()
        return OpenDocument(
            title or one_line(source.file_name),
            "application/pdf",
            _blocks(library, source, notes, title, self.scans),
            notes,
            about.author,
            about.date,
            pages,
        )
