"""Lays text out for the width of a terminal; off a terminal lines stay as long as they are.

Knows how many columns a character takes, and nothing of what is printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TextIO

NARROWEST = 40  # columns that everything is laid out for
_LEAST_CELL = 24  # columns from which on a table's last cell is wrapped inside its column
_GAP = 2
_STYLE = re.compile("\x1b\\[[0-9;]*m")
_INDENT = re.compile(r"[ \t]*(?:(?:[-*+>]|\[?\d+[\].)])[ \t]+)?")


def columns(stream: TextIO) -> int | None:
    """Return the width of the terminal that a stream is, or None if it is none."""
    if not stream.isatty():
        return None
    import shutil  # costs what --help in a pipe may not

    return max(NARROWEST, shutil.get_terminal_size().columns)


def text_width(text: str) -> int:
    """Return the columns that a line of text takes, without the codes that style it."""
    plain = _STYLE.sub("", text)
    if plain.isascii():
        return len(plain)
    import unicodedata  # most lines do without

    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in plain
    )


def wrapped(text: str, width: int | None, *, hanging: int | None = None) -> str:
    """Wrap each line of a text; what is wrapped goes on below the line's first word.

    A line's own indentation and list mark count as its beginning; ``hanging`` columns replace
    that. Words longer than a line stay whole, so that paths and handles can be copied.
    """
    if width is None:
        return text
    return "\n".join(_wrapped_line(line, width, hanging) for line in text.split("\n"))


def _wrapped_line(line: str, width: int, hanging: int | None) -> str:
    if text_width(line) <= width:
        return line
    mark = _INDENT.match(line)
    assert mark is not None  # it matches nothing, too
    indent = mark.end() if hanging is None else hanging
    lines = [line[: mark.end()]]
    used, empty = text_width(lines[0]), True
    for word in line[mark.end() :].split(" "):
        size = text_width(word)
        if not word and (used >= width or (empty and len(lines) > 1)):
            continue  # no line begins with the gap that it was broken at
        if not empty and used + 1 + size > width:
            lines.append(" " * indent)
            used, empty = indent, True
            if not word:
                continue
        lines[-1] += word if empty else f" {word}"
        used += size + (not empty)
        empty = False
    return "\n".join(line.rstrip(" ") for line in lines)


def table(
    rows: Sequence[Sequence[str]], width: int | None, *, right: frozenset[int] = frozenset()
) -> list[str]:
    """Return rows in columns, those of ``right`` right-aligned.

    Where that is too wide, the last cells are wrapped inside their column; where the column would
    be too narrow, each row becomes a few lines, all but the first of them indented.
    """
    if not rows:
        return []
    widths = [max(map(text_width, column)) for column in zip(*rows, strict=True)]
    before = sum(widths[:-1]) + _GAP * (len(widths) - 1)
    room = None if width is None else width - before
    if width is not None and room is not None and widths[-1] > room:
        if room < _LEAST_CELL:
            return [line for row in rows for line in _flowed(row, width)]
        widths[-1] = room
    return [line for row in rows for line in _aligned(row, widths, right)]


def _aligned(row: Sequence[str], widths: Sequence[int], right: frozenset[int]) -> Iterator[str]:
    *first, last = row
    cells = [
        " " * (width - text_width(cell)) + cell
        if number in right
        else cell + " " * (width - text_width(cell))
        for number, (cell, width) in enumerate(zip(first, widths, strict=False))
    ]
    if len(row) - 1 in right:
        last = " " * (widths[-1] - text_width(last)) + last
    begin = "".join(cell + " " * _GAP for cell in cells)
    for number, piece in enumerate(_pieces(last, widths[-1])):
        yield ((begin if number == 0 else " " * text_width(begin)) + piece).rstrip()


def _flowed(row: Sequence[str], width: int) -> Iterator[str]:
    """Yield lines of cells, one after the other, with a new line for one that does not fit."""
    line = ""
    for cell in filter(None, row):
        if line and text_width(line) + _GAP + text_width(cell) <= width:
            line += " " * _GAP + cell
            continue
        if line:
            yield line
        indent = " " * _GAP if line else ""
        *full_lines, last_line = _pieces(cell, width - len(indent))
        yield from (indent + piece for piece in full_lines)
        line = indent + last_line
    yield line


def _pieces(cell: str, width: int) -> list[str]:
    """Cut a cell into lines of at most ``width`` columns, between words or after a slash."""
    pieces = [""]
    for word in re.findall(r"\S+\s*|\s+", cell) or [""]:
        if pieces[-1] and text_width(pieces[-1] + word.rstrip()) > width:
            pieces.append("")
        for part in _parts(word, width):
            if pieces[-1] and text_width(pieces[-1] + part.rstrip()) > width:
                pieces.append("")
            pieces[-1] += part
    return [piece.rstrip() for piece in pieces]


def _parts(word: str, width: int) -> Iterator[str]:
    """Yield a word, in parts if it is longer than a line: after a slash if there is one."""
    while text_width(word.rstrip()) > width:
        end = min(width, len(word))
        while end > 1 and text_width(word[:end]) > width:
            end -= 1
        end = word.rfind("/", 1, end) + 1 or end
        yield word[:end]
        word = word[end:]
    yield word
