"""Answers a question from a list of names and values, which has no row of column names.

``- Mac installers: Ned Deily``, ``ssh<tab>22/tcp``, ``CHF:756:Swiss franc``: the question has all
words of one name, and its other words are in what stands above the list, or of the kind of thing
that the value is. Knows nothing of models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from drt_engine.answer.tables.conditions import negations, tokens_of
from drt_engine.answer.tables.wording import stem, table_words
from drt_engine.text.table_rows import Cell
from drt_engine.text.words import STOP_WORDS, word_set

# "name: value" one below the other, fields between tabs, two columns that spaces align.
_FEWEST_ITEMS, _FEWEST_LINES, _FEWEST_ALIGNED = 3, 5, 4
_LONGEST_KEY, _LONGEST_VALUE = 60, 160  # characters
_LONGEST_LINE = 400
_ABOVE = 600  # characters above a list that say what it is of
_ITEM = re.compile(
    r"[ \t]*(?:[-*+\u2022][ \t]+)?(?P<key>[^\W_][^:|\n]{0,58}[^\s:|]|\w):[ \t]+(?P<value>\S.*)"
)
_GOES_ON = re.compile(r"[ \t]+\S.*|[ \t]*")
_SEPARATORS = (  # with how many of them a line has at least
    ("\t", 1, re.compile(r"\t+")),
    (":", 2, re.compile(":")),
    (";", 2, re.compile(";")),
    ("  ", 1, re.compile(r" {2,}")),
)
_COMMENT = re.compile(r"[ \t]*[#;%].*")
_NO_VALUE = re.compile(
    r"(?i)\W*(?:did|do|does|is|are|was|were|has|have|had|can|may|must|should|why"
    r"|how (?!many|much|long|old|big|large|high|tall|far))\b"
)
_NUMBERED = re.compile(r"(?i)\b(?:numbers?|code|ports?|no\.?|id) (\d+)\b")
# What a value has to have for a kind of question.
_DATE = re.compile(r"\b(?:1[5-9]|20)\d\d\b|\d[-/.]\d+[-/.]\d")
_KINDS = (
    (re.compile(r"(?i)\W*(?:when|on (?:what|which) (?:day|date)|date of)\b"), _DATE),
    (re.compile(r"(?i)\W*(?:who|whom)\b"), re.compile(r"[A-Z][^\W\d_]+[ .]+[A-Z][^\W\d_]+")),
    (re.compile(r"(?i)\W*how (?:many|much|long|old|big|large|high|tall|far)\b"), re.compile(r"\d")),
)
# Words of asking for a name, a code or a value, and light verbs.
_ASKING = word_set(
    """
    which what who when where how many much name names named called code codes abbreviation letters
    letter symbol number numbers value stand stands standing mean means meaning use uses used using
    encode encodes encoded represent represents represented denote denotes
    give given belong belongs run runs two three country entry line field listed does kind
    """
)


@dataclass(frozen=True)
class KeyRow:
    """A name with its values, and words of what stands above its list."""

    cells: tuple[Cell, ...]
    context: frozenset[str]
    is_item: bool = False  # "name: value", whose values name nothing


def keyed_cell(question: str, text: str, context: Collection[str] = ()) -> Cell | None:
    """Return the value, or the whole line of several, of the one name that a question has.

    ``context`` are words of what the document is called. None where several names fit, or where
    the question says more than the list can answer.
    """
    if _NO_VALUE.match(question) or negations(tokens_of(question)):
        return None
    asked = [word for word in table_words(question) if word not in STOP_WORDS]
    number = _NUMBERED.search(question)
    stems = {_root(word) for word in asked}
    hits: list[tuple[KeyRow, Cell, Cell]] = []  # the row, its name, and the answer
    parts = stems - {_root(word) for word in _ASKING} | ({number[1]} if number else set())
    for row in key_rows(text):
        lowered = text[row.cells[0].start : row.cells[-1].end].lower()
        if not any(part in lowered for part in parts):
            continue  # before its words are looked at, which takes longer
        names = [
            cell
            for cell in (row.cells[:1] if row.is_item else row.cells)
            if _is_named(cell, stems) or _has_number(cell, number)
        ]
        if names:
            name = max(names, key=lambda cell: len(_stems(cell.text)))
            is_pair = len(row.cells) == 2 and name is row.cells[0]  # noqa: PLR2004
            answer = row.cells[-1] if is_pair else _line(row, text)
            rest = [word for word in asked if _root(word) not in _stems(name.text)]
            if _may_answer(question, rest, answer, {*row.context, *context}):
                hits.append((row, name, answer))
    most = max((len(_stems(name.text)) for _, name, _ in hits), default=0)
    hits = [hit for hit in hits if len(_stems(hit[1].text)) == most]
    # The same name twice, as of a port for TCP and for UDP, has its first line.
    if not hits or len({row.cells[0].text for row, _, _ in hits}) > 1:
        return None
    row, name, answer = hits[0]
    return None if len(hits) > 1 and name is row.cells[0] and answer is row.cells[-1] else answer


def _may_answer(question: str, rest: Sequence[str], answer: Cell, known: Collection[str]) -> bool:
    """Return whether a value is of the kind asked for, and the other words are of the list."""
    is_kind = [
        value.search(answer.text) is not None for asks, value in _KINDS if asks.match(question)
    ]
    stems = {_root(word) for word in known}
    unexplained = [word for word in rest if word not in _ASKING and _root(word) not in stems]
    return all(is_kind) and len(unexplained) <= len(is_kind)


def _root(word: str) -> str:
    """Return what a word and its inflected forms have in common: "release", "releases"."""
    return stem(word).removesuffix("e")


def _stems(text: str) -> frozenset[str]:
    return frozenset(_root(word) for word in table_words(text) if word not in STOP_WORDS)


def _is_named(cell: Cell, stems: Collection[str]) -> bool:
    """Return whether a question has all words of a cell, which has letters or a dotted number."""
    words = _stems(cell.text)
    return (
        bool(words)
        and len(cell.text) > 1
        and not cell.text.isdigit()
        and words <= set(stems)
        and not words <= {_root(word) for word in _ASKING}
    )


def _has_number(cell: Cell, match: re.Match[str] | None) -> bool:
    """Return whether a cell is the number that a question gives: 993, or "993/tcp"."""
    return match is not None and re.fullmatch(rf"0*{match[1]}(?:/\w+)?", cell.text) is not None


def _line(row: KeyRow, text: str) -> Cell:
    start, end = row.cells[0].start, row.cells[-1].end
    return Cell("", text[start:end], start, end)


def key_rows(text: str) -> Iterator[KeyRow]:
    """Yield the rows of the lists in a text that have no names of columns."""
    items: list[tuple[Cell, ...]] = []
    fields: list[tuple[str, tuple[Cell, ...]]] = []
    start = 0
    for line in text.split("\n"):
        item = _item(line, start)
        if item:
            items.append(item)
        elif not (items and _GOES_ON.fullmatch(line)):
            yield from _rows(items, text, _FEWEST_ITEMS)
            items = []
        separated = None if item else _fields(line, start)
        if separated and (not fields or fields[-1][0] == separated[0]):
            fields.append(separated)
        elif not (fields and fields[0][0] != "  " and _is_between(line)):
            yield from _field_rows(fields, text)
            fields = [separated] if separated else []
        start += len(line) + 1
    yield from _rows(items, text, _FEWEST_ITEMS)
    yield from _field_rows(fields, text)


def _is_between(line: str) -> bool:
    """Return whether a list may go on below a line: an empty one, or a comment."""
    return not line.strip() or _COMMENT.fullmatch(line) is not None


def _item(line: str, start: int) -> tuple[Cell, ...]:
    match = _ITEM.fullmatch(line) if ": " in line and " | " not in line else None
    if match is None or len(match["value"]) > _LONGEST_VALUE:
        return ()
    value = match["value"].rstrip()
    at, value_at = start + match.start("key"), start + match.start("value")
    return (
        Cell("", match["key"], at, at + len(match["key"])),
        Cell("", value, value_at, value_at + len(value)),
    )


def _fields(line: str, start: int) -> tuple[str, tuple[Cell, ...]] | None:
    """Return the separator and the values of a line: tabs, colons, semicolons, or many spaces."""
    if len(line) > _LONGEST_LINE or not line[:1].strip() or "://" in line:
        return None
    if _COMMENT.fullmatch(line):
        return None
    for separator, least, pattern in _SEPARATORS:
        is_aligned = separator.isspace() and separator != "\t"
        if line.count(separator) < least or (f"{separator} " in line and not is_aligned):
            continue
        cells, at = [], 0
        for part in [*pattern.finditer(line), None]:
            end = part.start() if part else len(line)
            value = line[at:end].strip()
            if value:
                begin = start + at + line[at:end].index(value)
                cells.append(Cell("", value, begin, begin + len(value)))
            at = part.end() if part else end
        short = len(cells) > 1 and len(cells[0].text) <= _LONGEST_KEY
        if is_aligned and len(cells) != 2:  # noqa: PLR2004
            return None  # which has a row of names, or is prose
        return (separator, tuple(cells)) if short else None
    return None


def _field_rows(fields: Sequence[tuple[str, tuple[Cell, ...]]], text: str) -> Iterator[KeyRow]:
    rows = [cells for _, cells in fields]
    if not fields or fields[0][0] != "  ":
        yield from _rows(rows, text, _FEWEST_LINES)
        return
    for number in (0, 1):  # the first line may name the columns, at other places
        begins = {_column(cells[1].start, cells, text) for cells in rows[number:]}
        ends = {_column(cells[1].end, cells, text) for cells in rows[number:]}
        if len(begins) == 1 or len(ends) == 1:
            yield from _rows(rows[number:], text, _FEWEST_ALIGNED)
            return


def _column(at: int, cells: tuple[Cell, ...], text: str) -> int:
    """Return which character of the line of some cells a character is."""
    return at - text.rfind("\n", 0, cells[0].start)


def _rows(rows: Sequence[tuple[Cell, ...]], text: str, fewest: int) -> Iterator[KeyRow]:
    if len(rows) < fewest:
        return
    first = rows[0][0].start
    context = frozenset(table_words(text[max(0, first - _ABOVE) : first]))
    yield from (KeyRow(cells, context, fewest == _FEWEST_ITEMS) for cells in rows)
