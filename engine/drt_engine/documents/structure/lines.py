"""Lines of a part of a document's text with their places, and the kinds that a line tells itself.

Knows plain text and the marks that people write in it; knows nothing of libraries.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from drt_engine.documents.base import TITLE_CHARACTERS
from drt_engine.documents.structure.contents import has_leader, numbered_entries

BlockKind = Literal[
    "paragraph",
    "heading",
    "item",
    "row",
    "code",
    "quote",
    "caption",
    "note",
    "field",
    "contents",
    "boilerplate",
    "running head",
    "mark",
]

_MARKERS = (
    r"(?:[-*+\u2022\u2013\u2023\u25aa\u25cf\u25e6\uf0b7]"
    r"|\(?(?:\d{1,3}|[A-Za-z]|[ivxlc]{1,5})[.)])"
)
# Where the changes of a file begin in a patch, and what their lines begin with.
_DIFF = re.compile(r"diff --git |@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
_DIFF_LINE = re.compile(
    r"(?!-- ?\Z)(?:[-+ @\\]|\Z|(?:diff|index|new file|deleted file|rename|similarity) )"
)
_FENCE = re.compile(r"\s*(?:```|~~~)")
_BARE_MARK = re.compile(rf"\s*(?:{_MARKERS}\s*)?\Z")
_CELL = r"[^|\n]{1,400}"
# The first that matches tells the kind.
_SIGNS: tuple[tuple[BlockKind, re.Pattern[str]], ...] = (
    ("quote", re.compile(r"\s*>")),
    ("note", re.compile(r"\s*(?:\[\^?\w{1,12}\]:?\s+\S|\.\. \[\w{1,12}\]\s)")),
    (
        "caption",
        re.compile(
            r"\s*(?:Figure|Fig\.|Table|Listing|Plate|Exhibit) [\dIVXA-Z][\w.-]{0,8}\s*[:.\u2013-]\s"
        ),
    ),
    ("item", re.compile(rf"\s*{_MARKERS}\s+\S")),
    ("row", re.compile(rf"\s*\|.*\|\s*\Z|{_CELL} \| {_CELL}(?: \||\Z)")),
    ("field", re.compile(r":?[A-Z][\w-]*(?: [\w-]+){0,2}:(?:\s|\Z)")),
)
_MARKDOWN_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+\S")
_CONTINUED = frozenset(("item", "quote", "note", "caption"))
_HEADING_MARKS = re.compile(r"[*_`=#\\]|\[\^?\w+\]")
_NUMBER = re.compile(r"\A(?:(?:chapter|section|part|appendix) )?[\divxlc.]+[.:)]? ")
_LONGEST_HEADING = 6  # lines
_LONGEST_LINE = 400  # characters that are looked at


@dataclass(frozen=True)
class Line:
    """A line without its newline, and the characters [start, end) of the document that it is."""

    start: int
    end: int
    text: str


def split_lines(text: str, offset: int) -> list[Line]:
    """Return the lines of a text whose first character is the document's ``offset``."""
    lines, start = [], offset
    for line in text.split("\n"):
        lines.append(Line(start, start + len(line), line))
        start += len(line) + 1
    return lines


def is_mark(text: str) -> bool:
    """Return whether a text is a bullet, a number of a list, or no word at all."""
    return not any(c.isalnum() for c in text) or _BARE_MARK.match(text) is not None


def count_heading_lines(lines: Sequence[Line], first: int, section: str) -> int:
    """Return how many lines from number ``first`` on are the heading of ``section``.

    ``section`` is a path as readers give it, "Part > Chapter"; 0 where the text does not begin with
    its last heading.
    """
    words, path = "", _bare(section)
    for number in range(first, min(first + _LONGEST_HEADING, len(lines))):
        if not lines[number].text.strip():
            if words:
                break  # a heading is over at an empty line
            continue
        words = f"{words} {_bare(lines[number].text)}".strip()
        # Readers may leave a heading's number out of its section's name, or cut a long one.
        names = (words, _NUMBER.sub("", words), words[:TITLE_CHARACTERS].rstrip())
        if any(path == name or path.endswith(f" > {name}") for name in names if name):
            return number - first + 1
    return 0


def _bare(text: str) -> str:
    """Return a heading's words without its marks, in one case and with single spaces."""
    return " ".join(_HEADING_MARKS.sub("", text).split()).lower()


def kinds_of(
    lines: Sequence[Line], *, in_fence: bool = False, markdown: bool = False
) -> list[BlockKind]:
    """Return what each of some lines is, as far as the lines themselves tell.

    ``in_fence`` says that they begin inside a fenced block of code, ``markdown`` that signs of
    numbers make headings. Lines that go on with an item, a quote or a note have its kind. The
    changes of a patch are code.
    """
    kinds: list[BlockKind] = []
    open_kind: BlockKind = "paragraph"
    in_diff = False
    for line in lines:
        text = line.text
        in_diff = _DIFF_LINE.match(text) is not None if in_diff else _DIFF.match(text) is not None
        if in_diff:
            kinds.append("code")
            continue
        if _FENCE.match(text):
            in_fence = not in_fence
            kinds.append("mark")
            continue
        if in_fence:
            kinds.append("code")
            continue
        if markdown and _MARKDOWN_HEADING.match(text):
            kinds.append("heading")
            open_kind = "paragraph"
            continue
        if not text.strip():
            # An indented paragraph below an item belongs to it; all else begins anew.
            kinds.append("mark")
            open_kind = "item" if open_kind == "item" else "paragraph"
            continue
        kind = _own_kind(text)
        if kind is None:
            keeps = open_kind == "item" and not text[:1].isspace() and kinds[-1:] == ["mark"]
            kind = "paragraph" if keeps else open_kind
        kinds.append(kind)
        open_kind = kind if kind in _CONTINUED else "paragraph"
    for number in numbered_entries([line.text for line in lines]):
        kinds[number] = kinds[number] if kinds[number] == "code" else "contents"
    return kinds


def _own_kind(text: str) -> BlockKind | None:
    """Return the kind that a line's own signs tell, None where it has none."""
    if is_mark(text):
        return "mark"
    for kind, pattern in _SIGNS:
        if pattern.match(text):
            return kind
    return "contents" if has_leader(text[:_LONGEST_LINE]) else None
