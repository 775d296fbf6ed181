"""The lines of one PDF page with their boxes, as PDFium finds them.

Knows PDFium's character lists; knows nothing of columns, margins or other pages.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

# PDFium writes a hyphen that ends a line as U+FFFE (U+0002 in old versions) and drops the line end.
HYPHENS = "\ufffe\x02\u00ad"
_LINE = re.compile(f"[^\r\n{HYPHENS}]*(?:[{HYPHENS}]|\r\n?|\n|$)")
_BLANK = " \t\r\n\0"
# Codes of TeX's fonts that do not tell what their characters are, where they are no formula's. One
# character takes the place of one, so that all others keep their index.
_CODES = dict(
    zip(
        "\x0b\x0c\x0e\x0f\x1b\x1c\x1d\x1e\x1f\x10\x11\x15",
        "\ufb00\ufb01\ufb03\ufb04\ufb00\ufb01\ufb02\ufb03\ufb04\u201c\u201d\u2013",
        strict=True,
    )
)
_CODE = re.compile(
    r"[\x0b\x0c\x0e\x0f\x1b-\x1f](?=[a-z]{2})|\x1c(?=[tx]\b)"
    r"|(?<=[A-Za-z]{2})[\x0b\x0c\x0e\x0f\x1b-\x1f](?!\d)"
    r"|(?<![^\s(])\x10(?=[A-Za-z])|(?<=[a-z.,!?])\x11|(?<=\d)\x15(?=\d)"
    r"|(?<![^\r\n])[\uf020-\uf0ff](?=[ \t])"  # of a picture font, which begins an item
)
_WORD = re.compile(r"\S+")
_RAISED = 0.15  # of the height of the line's first character: a mark of a footnote
_MARK = re.compile(r"(?<=[^\s\d])(?<!\d\.)[ ]?(\d{1,3})(?=[\s,;:)]|\.(?!\d)|\Z)")  # not of "0.2.1"
# Digits behind a number or a short unit, which may be raised: "4503" is 450 with the note 3.
_FUSED = re.compile(
    r"(?:\d|(?<![^\W\d_])[^\W\d_]{1,2}(?=[\d]))((?<=\d)\d{1,12}|\d)(?![\d.,]{0,40}\d)"
)
_EXPONENT = re.compile(r"(?:[x\u00d7*\u00b7] ?10|\b[^\W\d_]{1,2})\Z")
_SUPERSCRIPTS = str.maketrans(
    "0123456789", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
)
_SMALLER = 0.85  # of the height of a digit: one that is raised
_BULLET = re.compile(r"[\u2022\u25aa\u25cf\u25e6\u25a0\uf020-\uf0ff][ \t]+(?=\S)")
_BEFORE_WORD = re.compile(r"[(\[{\"'\u201c\u2018\u00ab]{1,3}(?=[^\W_])")
_BEHIND_WORD = re.compile(r"[^\W_](?=[)\]}\"'\u201d\u2019\u00bb]{1,3}\Z)")
_BESIDE = 4  # characters before a mark, of which some do not go below the line
_LONGEST_MARKED = 1000  # characters; more is no line
_BEFORE_MARK = re.compile(r"(?:[^\W\d_]{3}|[.,;:!?)\]\"\u201d\u2019\u00bb])\Z")  # no exponent
_NUMBERED = re.compile(r"\d{1,3}(?:\.\d{1,3}){0,5}[.)]?\s+[^\W\d_]")
_BOLD = re.compile(rb"bold|black|heavy|cmbx|-bd", re.IGNORECASE)
_SAMPLED_LINES = 4
_ROW_END = re.compile(r"\s\S{0,3}\d[\d.,:%]*\Z")
_LETTER = re.compile(r"[^\W\d_]")
_GAP = 1.6  # in line heights: wider than any space, narrower than any gutter between columns


@dataclass(slots=True)
class Line:
    """A line, or the part of a line before or after a wide gap; boxes in points, y upwards."""

    text: str
    index: int  # of the first character in PDFium's list of the page
    x0: float
    x1: float
    y0: float
    y1: float
    indices: tuple[int, ...] = ()  # of all characters, where they do not simply count up
    bold: bool = False  # asked only of what may be a numbered heading
    size: float = 0.0  # height of its first letter, which no index or bracket makes higher
    height: float = field(init=False)
    middle: float = field(init=False)
    upright: bool = field(init=False)  # runs from left to right, not up or down a margin

    def __post_init__(self) -> None:
        self.height = self.y1 - self.y0
        self.size = self.size or self.height
        self.middle = (self.y0 + self.y1) / 2
        self.upright = len(self.text) < 4 or self.x1 - self.x0 > self.height / 2


def _is_raised(box: tuple[float, float, float, float], bottom: float, top: float) -> bool:
    """Return whether a character is smaller than its line, and higher than its foot."""
    height = top - bottom
    return box[1] > bottom + _RAISED * height and box[3] - box[1] < height


def _is_above(
    box: tuple[float, float, float, float], base: tuple[float, float, float, float]
) -> bool:
    """Return whether a character is smaller than the one before, and raised."""
    height = base[3] - base[1]
    return box[1] > base[1] + _RAISED * height and box[3] - box[1] < _SMALLER * height


def with_letters(text: str) -> str:
    """Return the text with what codes are for: ligatures, quotation marks, dashes and bullets."""
    return _CODE.sub(lambda match: _CODES.get(match[0], "\u2022"), text)


_Box = tuple[float, float, float, float]


class PageText:
    """PDFium's text of an open page; ``lines`` measures only the characters it needs."""

    def __init__(self, raw: Any, textpage: Any, rotation: int) -> None:
        self._raw, self._page, self._rotation = raw, textpage, rotation
        self._box = raw.FS_RECTF()
        self._boxes: dict[int, _Box] = {}  # of characters that were measured
        self._same = False  # whether characters of the text and of the list count alike
        self._text, self._units = self._read()

    def _read(self) -> tuple[str, list[int] | None]:
        """Return the text, and the UTF-16 unit of each character where some take two."""
        count = self._raw.FPDFText_CountChars(self._page)
        if count <= 0:
            return "", None
        # Twice as much as documented: PDFium has been seen to write more than it counts.
        buffer = (ctypes.c_ushort * (2 * count + 2))()
        written = self._raw.FPDFText_GetText(self._page, 0, count, buffer)
        data = memoryview(buffer).cast("B")[: 2 * max(written - 1, 0)]
        text = with_letters(bytes(data).decode("utf-16-le", "surrogatepass"))
        if len(text) == len(data) // 2:
            # The text only ever leaves characters of the list out.
            self._same = len(text) == count
            return text, None
        units, at = [], 0
        for character in text:
            units.append(at)
            at += 1 + (ord(character) > 0xFFFF)
        return text, units

    def lines(self) -> list[Line]:
        """Return the lines in the order of the page's content, parted at wide gaps."""
        spans = list(self._spans())
        longest_whole = self._longest_whole(spans)
        lines: list[Line] = []
        for start, end in spans:
            is_parted = end - start <= longest_whole
            lines.extend(self._parts(start, end) if is_parted else [self._line(start, end)])
        return lines

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Yield where each line begins and ends, without white space around it."""
        text = self._text
        for match in _LINE.finditer(text):
            start, end = match.span()
            while end > start and text[end - 1] in _BLANK:
                end -= 1
            while start < end and text[start] in _BLANK:
                start += 1
            if start < end:
                yield start, end

    def _longest_whole(self, spans: list[tuple[int, int]]) -> float:
        """Return how long the lines are at most that may hold a gap; to look at all takes too long.

        All where some of the long ones do, else the short ones of a table, else none.
        """
        longest = max((end - start for start, end in spans), default=0)
        long = [span for span in spans if span[1] - span[0] > 0.7 * longest]
        sample = long[:: max(1, len(long) // _SAMPLED_LINES)]
        if any(self._has_gap(*span) for span in sample):
            return math.inf
        # Rows of a table between paragraphs are short, and mostly end in a number.
        rows = [span for span in spans if span[1] - span[0] <= 0.7 * longest]
        rows = [
            (start, end)
            for start, end in rows
            if _ROW_END.search(self._text[max(start, end - 24) : end])
        ]
        sample = rows[:: max(1, len(rows) // _SAMPLED_LINES)]
        has_table = len(rows) > 1 and any(self._has_gap(*span) for span in sample)
        return 0.7 * longest if has_table else 0.0

    def _gaps(self, start: int, end: int) -> Iterator[int]:
        """Yield where the words behind wide gaps of a line begin."""
        previous = None
        for match in _WORD.finditer(self._text, start, end):
            word_start, word_end = match.span()
            left = self._measure(self._char_index(word_start))
            if previous is not None and left[0] - previous > _GAP * (left[3] - left[1]):
                yield word_start
            previous = self._measure(self._char_index(word_end - 1))[2]

    def _has_gap(self, start: int, end: int) -> bool:
        return next(self._gaps(start, end), None) is not None

    def _parts(self, start: int, end: int) -> Iterator[Line]:
        """Yield the parts of a line between wide gaps."""
        begin = start
        for word_start in self._gaps(start, end):
            yield self._line(begin, begin + len(self._text[begin:word_start].rstrip()))
            begin = word_start
        yield self._line(begin, end)

    def _line(self, start: int, end: int) -> Line:
        first, last = self._char_index(start), self._char_index(end - 1)
        text = self._text[start:end]
        x0, y0, x1, y1 = self._measure(first)
        # A bullet is of another font; brackets and quotation marks may be higher than letters.
        if mark := _BULLET.match(text) or _BEFORE_WORD.match(text):
            _, y0, _, y1 = self._measure(self._char_index(start + mark.end()))
        if end - start > 1:
            # The mark of a hyphen has no box of its own in some versions.
            has_hyphen = text[-1] in HYPHENS
            a, b, c, d = self._measure(self._char_index(end - 2) if has_hyphen else last)
            x0, x1 = min(x0, a), max(x1, c)
            if behind := _BEHIND_WORD.search(text, end - start - 4):
                _, b, _, d = self._measure(self._char_index(start + behind.start()))
            # A raised mark does not make its line higher, as if it were a heading.
            if not (text[-1].isdigit() and _is_raised((a, b, c, d), y0, y1)):
                y0, y1 = min(y0, b), max(y1, d)
        indices: tuple[int, ...] = ()
        if last - first != end - 1 - start:
            indices = tuple(self._char_index(at) for at in range(start, end))
        bold = text[0].isdigit() and _NUMBERED.match(text) is not None and self._is_bold(first)
        letter = _LETTER.search(text)
        box = self._measure(self._char_index(start + letter.start()) if letter else first)
        line = Line(text, first, x0, x1, y0, y1, indices, bold, min(box[3] - box[1], y1 - y0))
        if end - start > _LONGEST_MARKED:
            return line
        line = self._with_raised_digits(line) if _FUSED.search(text) else line
        return self._with_marks(line) if _MARK.search(line.text) else line

    def _is_bold(self, index: int) -> bool:
        name, flags = ctypes.create_string_buffer(128), ctypes.c_int()
        self._raw.FPDFText_GetFontInfo(self._page, index, name, len(name), flags)
        return _BOLD.search(name.value) is not None

    def _with_raised_digits(self, line: Line) -> Line:
        """Return a line whose numbers do not go on with the raised digits behind them.

        Those behind a power's base or a unit are an exponent, others the mark of a note.
        """
        for match in reversed(list(_FUSED.finditer(line.text))):
            indices = line.indices or tuple(range(line.index, line.index + len(line.text)))
            start, end = match.span(1)
            base = self._measure(indices[start - 1])
            if not _is_above(self._measure(indices[end - 1]), base):
                continue
            boxes = [base, *(self._measure(indices[at]) for at in range(start, end))]
            at = next(
                (n for n in range(end - start, 0, -1) if not _is_above(boxes[n], boxes[0])), 0
            )
            first = start + at  # of the raised digits
            if first == end:
                continue
            digits, signs = line.text[first:end], indices[first:end]
            if _EXPONENT.search(line.text, 0, first):
                raised, marks = digits.translate(_SUPERSCRIPTS), signs
            else:
                raised, marks = f"[{digits}]", (signs[0], *signs, signs[-1])
            line = replace(
                line,
                text=line.text[:first] + raised + line.text[end:],
                indices=(*indices[:first], *marks, *indices[end:]),
            )
        return line

    def _with_marks(self, line: Line) -> Line:
        """Return a line with the raised marks of footnotes in brackets, where they are printed.

        PDFium gives a raised mark at a line's end wherever it is in the line.
        """
        for mark in reversed(list(_MARK.finditer(line.text))):
            all_indices = line.indices or tuple(range(line.index, line.index + len(line.text)))
            box = self._measure(all_indices[mark.start(1)])
            before = range(max(0, mark.start() - _BESIDE), mark.start())
            feet = [self._measure(all_indices[n])[1] for n in before if line.text[n].isalpha()]
            if not _is_raised(box, max(feet, default=line.y0), line.y1):
                continue
            at = mark.start()
            if mark.end() == len(line.text):
                boxes = (
                    (n, self._measure(all_indices[n])) for n in range(at) if line.text[n] > " "
                )
                at = max((n + 1 for n, (a, _, c, _) in boxes if (a + c) / 2 < box[0]), default=0)
            if not _BEFORE_MARK.search(line.text, 0, at):
                continue
            signs = (*all_indices[mark.start(1) : mark.end(1)], all_indices[mark.start(1)])
            text = f"{line.text[:at]}[{mark[1]}]{line.text[at : mark.start()]}"
            indices = (*all_indices[:at], signs[0], *signs, *all_indices[at : mark.start()])
            line = replace(
                line,
                text=text + line.text[mark.end() :],
                indices=indices + all_indices[mark.end() :],
            )
        return line

    def _char_index(self, at: int) -> int:
        if self._same:
            return at
        unit = at if self._units is None else self._units[at]
        index: int = self._raw.FPDFText_GetCharIndexFromTextIndex(self._page, unit)
        return max(0, index)

    def _measure(self, index: int) -> _Box:
        """Left, bottom, right and top of a character on the page as it is shown."""
        if (box := self._boxes.get(index)) is None:  # to ask PDFium takes longer
            box = self._boxes[index] = self._measured(index)
        return box

    def _measured(self, index: int) -> _Box:
        box = self._box
        if not self._raw.FPDFText_GetLooseCharBox(self._page, index, box):
            return 0.0, 0.0, 0.0, 0.0
        left, bottom, right, top = box.left, box.bottom, box.right, box.top
        if left > right:
            left, right = right, left
        if bottom > top:
            bottom, top = top, bottom
        if self._rotation == 1:
            return bottom, -right, top, -left
        if self._rotation == 2:
            return -right, -top, -left, -bottom
        if self._rotation == 3:
            return -top, left, -bottom, right
        return left, bottom, right, top
