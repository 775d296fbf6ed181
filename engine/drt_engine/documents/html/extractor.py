"""Second pass over a page: the text of one part as paragraphs, lists, rows and headings."""

from __future__ import annotations

import re

from drt_engine.documents.html.elements import (
    BLOCKS,
    CELLS,
    HEADINGS,
    INITIAL,
    LISTS,
    PAGE_NUMBER,
    SOFT,
    STRUCK,
    VOID,
    Attributes,
    Elements,
    Part,
    is_page_mark,
    note_link,
    page_of,
)
from drt_engine.documents.html.parser import SafeParser
from drt_engine.documents.html.spans import RowSpans, Span, span_of
from drt_engine.documents.html.styles import Styles
from drt_engine.documents.writer import BlockWriter, tidy

_PARAGRAPH_CHARACTERS = 32768
_LAYOUT_CELL_CHARACTERS = 200

_DEEPEST_INDENT = 16  # of lists in lists: what is deeper is hostile
_ONE_LETTER_WORDS = frozenset("AIOÀÉÓY")

_NOTE_MARK = re.compile(r"\s*(\d{1,3}|[a-z]|[*\u2020\u2021\u00a7]{1,3})\s*")
_POWER = re.compile(r"\s*[-+\u2212]?\d{1,4}\s*")
_RAISED = str.maketrans(
    "0123456789+-\u2212",
    "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b\u207b",
)
_SPACE = re.compile(r"[ \t\n\f\r]{2,}|[\t\n\f\r]")  # all but single spaces, for speed


class Extractor(SafeParser):
    """Writes the text of one part of the page.

    Text is collected until a block element begins or ends, then written as one piece.
    """

    def __init__(self, part: Part, styles: Styles | None = None) -> None:
        super().__init__()
        self.writer = BlockWriter()
        self._part: Part = part
        self._elements = Elements(styles)
        self._inline: list[str] = []
        self._size = 0
        self._blank = True  # nothing but white space is collected
        self._initial = ""  # a picture of the paragraph's first letter, waiting for the rest
        self._continues = False  # the paragraph was too long and its beginning is written
        self._pre = False
        self._heading: int | None = None
        self._lists: list[int | None] = []  # the next number of an ordered list
        self._bullet: str | None = None
        self._cells: list[str] | None = None
        self._spans: list[Span] = []  # of the cells of this row
        self._row_spans = RowSpans()
        self._grouped = False  # in an hgroup, whose headings are one
        self._page: int | None = None  # of the printed book
        self._first_page: int | None = None  # where the collected text begins
        self._reads_page = False
        self._raised = False  # in a <sup>
        self._struck = 0  # pieces collected before struck-out text, and 1; 0 outside
        self._note_link: str | None = None  # "raised" in a link that is a note's where it is raised

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        if tag == "br":
            self._add(" " if self._cells is not None or self._grouped else "\n")
        elif tag in BLOCKS or tag in CELLS:
            self._initial = ""
            self._border(tag)
        if tag == "table":
            self._row_spans = RowSpans()
        if tag not in VOID:
            self._elements.start(tag, attrs)
        attributes = dict(attrs)
        if is_page_mark(attributes):
            self._page = page_of(attributes) or self._page
            self._reads_page = page_of(attributes) is None
        if self._elements.state.within(self._part):
            self._enter(tag, attributes)

    def handle_startendtag(self, tag: str, attrs: Attributes) -> None:
        if tag in VOID:
            self.handle_starttag(tag, attrs)
        elif is_page_mark(attributes := dict(attrs)):  # <span epub:type="pagebreak" ... />
            self._page = page_of(attributes) or self._page

    def handle_endtag(self, tag: str) -> None:
        if tag == "hgroup":
            self._grouped = False
        if tag in BLOCKS and tag not in CELLS:
            self._border(tag)
        if tag in HEADINGS and not self._grouped:
            self._heading = None
        elif tag == "pre":
            self._pre = False
        elif tag == "li":
            self._bullet = None
        elif tag in LISTS and self._lists and self._elements.state.within(self._part):
            self._lists.pop()
        elif tag == "sup":
            self._raised = False
        elif tag in STRUCK and self._struck:
            self._end_struck()
        elif tag == "a":
            self._note_link = None
        self._elements.end(tag)

    def handle_data(self, data: str) -> None:
        if self._reads_page and (match := PAGE_NUMBER.fullmatch(data)):
            self._page, self._reads_page = int(match[1]), False
        if not self._elements.state.within(self._part):
            return
        if self._initial:
            data = _with_initial(self._initial, data)
            self._initial = ""
        if self._is_note_mark() and (mark := _NOTE_MARK.fullmatch(data)):
            data = f"[{mark[1]}]"  # or the year before it would become another number
        elif self._raised and _POWER.fullmatch(data):
            data = data.translate(_RAISED)  # 10 to the power of 3 is not 103
        self._add(data if self._pre else _SPACE.sub(" ", data))
        if self._size > _PARAGRAPH_CHARACTERS:
            self._flush(ends=False)

    def _enter(self, tag: str, attributes: dict[str, str | None]) -> None:
        if tag == "img" and self._blank and not self._continues:
            description = (attributes.get("alt") or "").strip()
            self._initial = description if INITIAL.fullmatch(description) else ""
        elif tag == "sup":
            self._raised = True
        elif tag in STRUCK:
            self._struck = len(self._inline) + 1
        elif tag == "a":
            self._note_link = note_link(attributes)
        elif tag in HEADINGS:
            first = self._heading if self._grouped else None
            self._heading = HEADINGS[tag] if first is None else min(first, HEADINGS[tag])
        elif tag == "hgroup":
            self._grouped = True
        elif tag == "pre":
            self._pre = True
        elif tag in CELLS:
            if self._cells is None:
                self._cells, self._spans = [], []
            self._spans.append(span_of(tag, attributes))
        elif tag in LISTS:
            start = attributes.get("start") or ""
            first = int(start) if start.isdecimal() and len(start) < 9 else 1
            self._lists.append(first if tag == "ol" else None)
        elif tag == "li":
            self._bullet = self._next_bullet()

    def _end_struck(self) -> None:
        """Put marks around the text that was struck out, unless nothing was."""
        first, self._struck = self._struck - 1, 0
        text = "".join(self._inline[first:])
        if bare := text.strip():
            lead, _, tail = text.partition(bare)
            self._inline[first:] = [f"{lead}~~{bare}~~{tail}"]

    def _next_bullet(self) -> str:
        number = self._lists[-1] if self._lists else None
        if number is None:
            return "- "
        self._lists[-1] = number + 1
        return f"{number}. "

    def _is_note_mark(self) -> bool:
        """Return whether text is the mark of a footnote: a link that is raised or named so."""
        return self._note_link == "named" or (self._raised and self._note_link == "raised")

    def _border(self, tag: str) -> None:
        """Write the text before a block that begins or ends."""
        self._raised, self._note_link = False, None
        if self._struck:
            self._end_struck()
        if self._grouped:
            self._add(" ")
        elif self._cells is None:
            self._flush()
        elif tag in CELLS:
            self._cells.append(self._take())
        elif tag in SOFT and self._size < _LAYOUT_CELL_CHARACTERS:
            self._add(" ")
        else:
            self._flush()

    def _add(self, text: str) -> None:
        if self._blank:
            self._first_page = self._page
            self._blank = not text or text.isspace()
        self._inline.append(text)
        self._size += len(text)

    def _take(self, *, ends: bool = True) -> str:
        """Return the collected text, laid out.

        Unless the piece ``ends``, white space at its end is written back for the text that follows.
        """
        text = "".join(self._inline)
        self._inline, self._size, self._blank = [], 0, True
        edge = "\n" if self._pre else None
        text = text if self._pre else tidy(text)
        text = text if self._continues else text.lstrip(edge)
        written = text if self._pre and not ends else text.rstrip(edge)
        if not ends:
            self._add(text[len(written) :])
        return written

    def _flush(self, *, ends: bool = True) -> None:
        kind, text = self._piece(ends=ends)
        if text.strip() or (text and self._continues):
            self.writer.page = self._first_page
            # A heading is one line: what follows an unclosed one is text again.
            self.writer.write(kind, text, self._heading)
            self._heading = None
            self._continues = True
        self._continues = self._continues and not ends

    def _piece(self, *, ends: bool) -> tuple[str, str]:
        text = self._take(ends=ends)
        cells, self._cells = self._cells, None
        if self._continues:
            return "rest", text
        if cells is not None:
            texts = [*cells, text]
            if len(texts) == len(self._spans):  # as in a table that is well-formed
                texts = self._row_spans.laid_out(texts, self._spans)
            return "row", " | ".join(texts) if any(texts) else ""
        if not text.strip() or not (self._lists or self._bullet):
            return "paragraph", text
        indent = "  " * min(max(0, len(self._lists) - 1), _DEEPEST_INDENT)
        bullet, self._bullet = self._bullet, None
        return "item", indent + (bullet or "  ") + text


def _with_initial(initial: str, text: str) -> str:
    """Return text with its first letter, where that was a picture and the text goes on the word."""
    letter = initial[-1]
    goes_on = text[:1].isalpha() or text[:1] in "'’"
    if letter.isupper() and (goes_on or (letter in _ONE_LETTER_WORDS and text[:1].isspace())):
        return initial + text
    return text
