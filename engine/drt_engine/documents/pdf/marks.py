"""What on a PDF page is no running text: tables of contents, line numbers, figures, footnotes.

Each function takes the lines of one page and tells which of them are of its kind. Knows boxes and
texts, not PDFium; what it looks for is looked for only on pages that hold a first sign of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from drt_engine.documents.pdf.lines import Line
from drt_engine.documents.structure.contents import has_leader, heads_contents, page_of

Box = tuple[float, float, float, float]  # left, bottom, right, top
Row = list[Line]

_LEADERS = ("...", ". . .", "\u2026", "\u00b7\u00b7\u00b7", "___")
_FEWEST_ENTRIES = 3
_LONGEST_HEADING = 40
_WRAPPED_ENTRY = 2  # rows of an entry before the one with its page number
_FEWEST_NUMBERS = 8
_FEWEST_FIFTHS = 5  # where every fifth line has one
_NUMBERED_SHARE = 0.6
_IN_STEP, _MOST_MISSING = 0.9, 3  # share of numbers that follow each other; the longest step
_SAME_ROW = 0.5  # of a line's height, between middles
_NUMBER_COLUMN = 12.0  # points
_LONG_LINE, _LENGTHS = 40, 8  # characters
_FIRST_NUMBER = re.compile(r"(\d{1,4})(?:\s+|\Z)")
_LAST_NUMBER = re.compile(r"(?<!\S)(\d{1,4})\Z")
_SMALL = 0.93  # of the usual height of a line: a footnote is no larger
_NOTE_MARK = re.compile(
    r"(\d{1,3}(?=\s+\D|[A-Z][a-z]|[\u201c\"(]|\Z)|[*\u2020\u2021\u00a7\u00b6]+(?=\s*\w))"
)
_CAPTION = re.compile(r"(?:figure|fig\.|abbildung|abb\.|illustration|plate)\s*\d", re.IGNORECASE)
_SMALLEST_FIGURE = 60.0  # points, each way
_LARGEST_FIGURE = 0.7  # of the page: beyond, it is a background
_NEAR_CAPTION = 80.0  # points
_LABEL_CHARACTERS = 25  # on average; more is a text in a frame


def rows_of(lines: Sequence[Line]) -> list[Row]:
    """Return the upright lines from top to bottom, those beside each other as one row."""
    rows: list[Row] = []
    upright = (line for line in lines if line.upright)
    for line in sorted(upright, key=lambda line: (-line.middle, line.x0)):
        if rows and abs(rows[-1][0].middle - line.middle) < 0.3 * min(
            line.height, rows[-1][0].height
        ):
            rows[-1].append(line)
        else:
            rows.append([line])
    for row in rows:
        row.sort(key=lambda line: line.x0)
    return rows


def _may_head(line: Line) -> bool:
    return len(line.text) < _LONGEST_HEADING and heads_contents(line.text)


def _text(row: Row) -> str:
    return " ".join(line.text for line in row)


class ContentsLines:
    """Finds the lines of tables of contents, which may go on over several pages."""

    def __init__(self) -> None:
        self._open = False  # the last page ended within one
        self._last = 0  # the page that its last entry names

    def find(self, lines: Sequence[Line]) -> list[Line]:
        """Return the lines of this page that belong to a table of contents with its heading."""
        text = "\n".join([line.text for line in lines])
        leads = any(mark in text for mark in _LEADERS)
        if not leads and not self._open and not any(map(_may_head, lines)):
            return []
        rows = rows_of(lines)
        entries = [number for number, row in enumerate(rows) if has_leader(_text(row))]
        if len(entries) < (1 if self._open else _FEWEST_ENTRIES):
            entries = self._plain_entries(rows)
        if not entries:
            self._open = False
            return []
        row_numbers = set(entries)
        for entry, following in pairwise(entries):
            if following - entry <= _WRAPPED_ENTRY + 1:
                row_numbers.update(range(entry, following))
        first = entries[0]
        for above in range(first - 1, max(-1, first - 3), -1):
            if heads_contents(_text(rows[above])):
                row_numbers.update(range(above, first))
        self._open = entries[-1] >= len(rows) - 3
        return [line for number in sorted(row_numbers) for line in rows[number]]

    def _plain_entries(self, rows: Sequence[Row]) -> list[int]:
        """Return rows under a heading "Contents" that end in page numbers, which do not fall."""
        begin = (
            0
            if self._open
            else next(
                (n + 1 for n, row in enumerate(rows) if heads_contents(_text(row))), len(rows)
            )
        )
        entries: list[int] = []
        self._last = self._last if self._open else 0
        for number in range(begin, len(rows)):
            page = page_of(_text(rows[number]))
            if page is not None and page.isdecimal():
                if int(page) < self._last:
                    break
                self._last = int(page)
            if page is not None:
                entries.append(number)
            elif number - (entries[-1] if entries else begin - 1) > _WRAPPED_ENTRY:
                break
        return entries if len(entries) >= _FEWEST_ENTRIES else []


def without_line_numbers(lines: Sequence[Line]) -> tuple[list[Line], int]:
    """Return the lines without the line numbers of a manuscript, and how many numbers there are.

    They count up by one step down the page, at the left or at the right of most lines.
    """
    for pattern, at_start in ((_FIRST_NUMBER, True), (_LAST_NUMBER, False)):
        end = 0 if at_start else -1
        if sum(line.text[end].isdigit() for line in lines) < _FEWEST_FIFTHS:
            continue
        upright = [line for line in lines if line.upright]
        matches = [
            (line, match)
            for line in sorted(upright, key=lambda line: -line.middle)
            if (match := pattern.match(line.text) if at_start else pattern.search(line.text))
        ]
        if matches:  # a line of text that ends in a number is shorter than those with a number
            edge = median(_edge(line, at_start=at_start) for line, _ in matches)
            matches = [
                (line, match)
                for line, match in matches
                if abs(_edge(line, at_start=at_start) - edge) <= _NUMBER_COLUMN
            ]
        numbers = [int(match[1]) for _, match in matches]
        steps = [following - number for number, following in pairwise(numbers)]
        rows = _count_rows(upright)
        if (
            len(numbers) < (_FEWEST_FIFTHS if steps[:1] == [5] else _FEWEST_NUMBERS)
            or steps[0] not in (1, 5)
            or not all(steps[0] <= step <= _MOST_MISSING * steps[0] for step in steps)
            or sum(step == steps[0] for step in steps) < _IN_STEP * len(steps)
            or len(numbers) * steps[0] < _NUMBERED_SHARE * rows
            or not _beside_text([line for line, _ in matches], at_start=at_start)
        ):
            continue
        shortened = {id(line): _cut(line, match, at_start=at_start) for line, match in matches}
        remaining = [shortened.get(id(line), line) for line in lines]
        return [line for line in remaining if line.text], len(numbers)
    return list(lines), 0


def _edge(line: Line, *, at_start: bool) -> float:
    return line.x0 if at_start else line.x1


def _count_rows(lines: Sequence[Line]) -> int:
    """Return how many lines are below each other; a smaller number beside one counts with it."""
    rows, last = 0, math.inf
    for line in sorted(lines, key=lambda line: -line.middle):
        if last - line.middle > _SAME_ROW * line.height:
            rows, last = rows + 1, line.middle
    return rows


def _beside_text(lines: Sequence[Line], *, at_start: bool) -> bool:
    """Return whether numbers are in a column beside a text, and not part of a list or table.

    They are lines of their own, or else part of lines that are long and of several lengths.
    """
    edges = [_edge(line, at_start=at_start) for line in lines]
    if max(edges) - min(edges) > _NUMBER_COLUMN:
        return False
    lengths = [len(line.text) for line in lines if not line.text.isdigit()]
    if len(lengths) < len(lines) / 2:
        return True
    return median(lengths) > _LONG_LINE and max(lengths) - min(lengths) > _LENGTHS


def _cut(line: Line, match: re.Match[str], *, at_start: bool) -> Line:
    if at_start:
        return replace_text(line, match.end(), len(line.text))
    return replace_text(line, 0, len(line.text[: match.start()].rstrip()))


def replace_text(line: Line, start: int, end: int) -> Line:
    """Return the part of a line; its box stays that of the whole."""
    indices = line.indices[start:end]
    index = indices[0] if indices else line.index + start
    return replace(line, text=line.text[start:end], index=index, indices=indices)


def footnotes(lines: Sequence[Line], usual: float) -> list[Line]:
    """Return the lines in small print at the foot of a page, from the first with a note's mark."""
    foot: list[Line] = []
    for line in sorted(lines, key=lambda line: line.y0):
        if not line.upright or line.height > _SMALL * usual:
            break
        foot.append(line)
    if not foot or len(foot) > len(lines) / 2:
        return []
    while foot and not _NOTE_MARK.match(foot[-1].text):
        foot.pop()
    ids = {id(line) for line in foot}
    body = "\n".join(line.text for line in lines if id(line) not in ids)
    marks = (match[1] for line in foot if (match := _NOTE_MARK.match(line.text)))
    return foot if any(_refers(body, mark) for mark in marks) else []


def _refers(body: str, mark: str) -> bool:
    """Return whether the text has a note's mark behind a word or a sentence."""
    if not mark.isdigit():
        return mark in body
    behind = rf"(?<=[^\W\d_]){mark}\b|(?<=[.,;:)\"\u201d\u2019]){mark}(?!\d)"
    return re.search(rf"\[{mark}\]|{behind}", body) is not None


def marked_notes(foot: Sequence[Line]) -> list[Line]:
    """Footnotes with their marks in brackets, as the text refers to them.

    A raised mark may be a line of its own beside the note's first one.
    """
    notes: list[Line] = []
    mark: Line | None = None
    for line in sorted(foot, key=lambda line: line.index):
        if mark is not None:
            beside = line.x0 >= mark.x0 and line.y0 < mark.y1 and mark.y0 < line.y1
            notes.append(_marked(mark, line) if beside else mark)
            mark = None
            if beside:
                continue
        match = _NOTE_MARK.match(line.text)
        if match is None or not match[1].isdigit():
            notes.append(line)
        elif match.end() == len(line.text):
            mark = line
        else:
            text_start = len(line.text) - len(line.text[match.end() :].lstrip())
            after = replace_text(line, text_start, len(line.text))
            notes.append(_marked(replace_text(line, 0, match.end()), after))
    return [*notes, mark] if mark is not None else notes


def _marked(mark: Line, note: Line) -> Line:
    """Return a note behind its mark; every character with its index in the page."""
    mark_indices, note_indices = _indices(mark), _indices(note)
    indices = (mark_indices[0], *mark_indices, mark_indices[-1], note_indices[0], *note_indices)
    box = (min(mark.x0, note.x0), note.x1, note.y0, note.y1)
    return Line(f"[{mark.text}] {note.text}", mark_indices[0], *box, indices)


def _indices(line: Line) -> tuple[int, ...]:
    return line.indices or tuple(range(line.index, line.index + len(line.text)))


def has_caption(lines: Sequence[Line]) -> bool:
    """Return whether a line may be the caption of a figure."""
    return any(_CAPTION.match(line.text) for line in lines if line.text[0] in "FfAaIiPp")


def figure_labels(lines: Sequence[Line], drawn: Sequence[Box], page_size: float) -> list[Line]:
    """Return the words in a drawing above or below a caption: axes, legends, boxes of a diagram."""
    captions = [line for line in lines if _CAPTION.match(line.text)]
    labels: dict[int, Line] = {}
    for left, bottom, right, top in _clusters(drawn):
        large = (right - left) * (top - bottom) > _LARGEST_FIGURE * page_size
        if large or min(right - left, top - bottom) < _SMALLEST_FIGURE:
            continue
        near_captions = [
            caption for caption in captions
            if -caption.height < bottom - caption.y1 < _NEAR_CAPTION
            or -caption.height < caption.y0 - top < _NEAR_CAPTION
        ]  # fmt: skip
        if not near_captions:
            continue
        margin = 48  # names of axes are outside of what is drawn
        inside = [
            line
            for line in lines
            if line.x0 >= left - margin
            and line.x1 <= right + margin
            and line.y0 >= bottom - margin
            and line.y1 <= top + margin
            and not any(
                line.y1 <= caption.y1 + 1 and line.y0 >= caption.y0 - 1 for caption in near_captions
            )
        ]
        if inside and sum(len(line.text) for line in inside) <= _LABEL_CHARACTERS * len(inside):
            labels.update((id(line), line) for line in inside)
    return list(labels.values())


def _clusters(boxes: Sequence[Box]) -> list[Box]:
    """Return one box for each group of boxes that touch each other."""
    clusters: list[Box] = []
    for box in boxes:
        grown = box
        separate = []
        for cluster in clusters:
            if _touch(grown, cluster):
                grown = (
                    min(grown[0], cluster[0]), min(grown[1], cluster[1]),
                    max(grown[2], cluster[2]), max(grown[3], cluster[3]),
                )  # fmt: skip
            else:
                separate.append(cluster)
        clusters = [*separate, grown]
    return clusters


def _touch(box: Box, cluster: Box) -> bool:
    pad = 6
    return (
        box[0] <= cluster[2] + pad and cluster[0] <= box[2] + pad
        and box[1] <= cluster[3] + pad and cluster[1] <= box[3] + pad
    )  # fmt: skip
