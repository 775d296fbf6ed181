"""Answers a question from a list of names and values, which has no row of column names.

``- Mac installers: Ned Deily``, ``ssh<tab>22/tcp``, ``CHF:756:Swiss franc``: the question has all
words of one name, and its other words are in what stands above the list, or of the kind of thing
that the value is. Knows nothing of models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from drt_engine.answer.tables.conditions import negations, tokens_of
from drt_engine.answer.tables.wording import stem, table_words
from drt_engine.text.table_rows import Cell
from drt_engine.text.words import STOP_WORDS, word_set

# "name: value" one below the other, fields between tabs, two columns that spaces align.
_FEWEST_ITEMS, _FEWEST_LINES, _FEWEST_ALIGNED, _FEWEST_TITLED = 3, 5, 4, 3
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
_REMARK = re.compile(r"(?<=\w)\s*\([^()]*\)\s*\Z")
_NOUNS = r"(?!has\b|is\b|was\b|does\b)\w*[^\Wsui]s\b"  # in the plural
_SEVERAL = re.compile(
    rf"(?i)\W*(?:(?:which|what) (?:are\b|two\b|three\b|(?:(?!has|is|was|does)\w+ )?{_NOUNS})"
    r"|(?:list|name)\b)"
)
# "Directory Description": names of two columns that spaces do not align, and their rows
_TITLED_BLOCK = re.compile(
    r"(?m)^[A-Z][^\W\d_]{2,} [A-Z][^\W\d_]{2,}\n(?P<rows>(?:[^\s\u2022-][^\n]*(?:\n|\Z))+)"
)
_TITLED_ROW = re.compile(r"(?m)^(?P<name>[^\s.,:;()]{1,20}) (?P<value>[A-Z0-9]\S.*)$")
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
    share shares shared same have has give given belong belongs run runs two three country entry
    line field listed does kind
    """
)


class KeyRow(NamedTuple):
    """A name with its values, and words of what stands above its list."""

    cells: tuple[Cell, ...]
    context: frozenset[str]
    is_item: bool = False  # "name: value", whose values name nothing
    is_titled: bool = False  # below names of two columns, so that a value leads to its name


def keyed_cell(
    question: str, text: str, context: Collection[str] = (), *, unexplained: bool = False
) -> Cell | None:
    """Return the value, or the whole line of several, of the one name that a question has.

    ``context`` are words of what the document is called. None where several names fit, or where
    the question says more than the list can answer. A word right before the name ("the Ukrainian
    hryvnia") may be ``unexplained``.
    """
    hits = _hits(question, text, context, unexplained)
    # The same name twice, as of a port for TCP and for UDP, has its first line.
    if not hits or len({hit.row.cells[0].text for hit in hits}) > 1:
        return None
    row, name, answer = hits[0]
    return None if len(hits) > 1 and name is row.cells[0] and answer is row.cells[-1] else answer


def keyed_names(question: str, text: str, context: Collection[str] = ()) -> tuple[Cell, ...]:
    """Return the names of all rows with a value, where a question asks for several names.

    "Which codes share the name Kwacha?": the value is not what the rows begin with.
    """
    if not _SEVERAL.match(question):
        return ()
    hits = _hits(question, text, context, False)
    values = {_stems(hit.name.text) for hit in hits if hit.name is not hit.row.cells[0]}
    names = {hit.row.cells[0].text: hit.row.cells[0] for hit in hits}
    return tuple(names.values()) if len(values) == 1 and 1 < len(names) == len(hits) else ()


class _Hit(NamedTuple):
    """A row, the cell of it that a question names, and the one that answers."""

    row: KeyRow
    name: Cell
    answer: Cell


def _hits(question: str, text: str, context: Collection[str], unexplained: bool) -> list[_Hit]:
    """Return the rows that a question names by the longest name, with what they answer."""
    if _NO_VALUE.match(question) or negations(tokens_of(question)):
        return []
    asked = [word for word in table_words(question) if word not in STOP_WORDS]
    number = _NUMBERED.search(question)
    stems = {_root(word) for word in asked}
    hits: list[_Hit] = []
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
            answer = _value(row, name, text)
            rest = [word for word in asked if _root(word) not in _stems(name.text)]
            if unexplained and (word := _word_before(asked, name)) in rest:
                rest.remove(word)
            if _may_answer(question, rest, answer, {*row.context, *context}):
                hits.append(_Hit(row, name, answer))
    most = max((len(_stems(hit.name.text)) for hit in hits), default=0)
    return [hit for hit in hits if len(_stems(hit.name.text)) == most]


def _value(row: KeyRow, name: Cell, text: str) -> Cell:
    """Return the other cell of a pair, or the whole line of several."""
    if len(row.cells) != 2:  # noqa: PLR2004
        return _line(row, text)
    if name is row.cells[0]:
        return row.cells[-1]
    return row.cells[0] if row.is_titled else _line(row, text)


def _word_before(asked: Sequence[str], name: Cell) -> str:
    """Return the word of a question before those of a name; "" where there is none."""
    stems = _stems(name.text)
    first = next((n for n, word in enumerate(asked) if _root(word) in stems), 0)
    return asked[first - 1] if first else ""


def _may_answer(question: str, rest: Sequence[str], answer: Cell, known: Collection[str]) -> bool:
    """Return whether a value is of the kind asked for, and the other words are of the list."""
    is_kind = [
        value.search(answer.text) is not None for asks, value in _KINDS if asks.match(question)
    ]
    stems = {_root(word) for word in known}
    others = [word for word in rest if word not in _ASKING and _root(word) not in stems]
    return all(is_kind) and len(others) <= len(is_kind)


def _root(word: str) -> str:
    """Return what a word and its inflected forms have in common: "release", "releases"."""
    return stem(word).removesuffix("e")


def _stems(text: str) -> frozenset[str]:
    """Return what the words of a cell have in common with their forms; a remark is left out."""
    text = _REMARK.sub("", text) or text
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
            yield from _rows(items, text, _FEWEST_ITEMS, is_item=True)
            items = []
        separated = None if item else _fields(line, start)
        if separated and (not fields or fields[-1][0] == separated[0]):
            fields.append(separated)
        elif not (fields and fields[0][0] != "  " and _is_between(line)):
            yield from _field_rows(fields, text)
            fields = [separated] if separated else []
        start += len(line) + 1
    yield from _rows(items, text, _FEWEST_ITEMS, is_item=True)
    yield from _field_rows(fields, text)
    yield from _titled_rows(text)


def _titled_rows(text: str) -> Iterator[KeyRow]:
    """Yield the rows below the names of two columns that one space parts, as in PDF files."""
    for block in _TITLED_BLOCK.finditer(text):
        rows = [
            tuple(Cell("", row[name], *row.span(name)) for name in ("name", "value"))
            for row in _TITLED_ROW.finditer(text, block.start("rows"), block.end())
        ]
        yield from (row._replace(is_titled=True) for row in _rows(rows, text, _FEWEST_TITLED))


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
            value = line[at:end].strip().removeprefix("= ").lstrip()
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


def _rows(
    rows: Sequence[tuple[Cell, ...]], text: str, fewest: int, *, is_item: bool = False
) -> Iterator[KeyRow]:
    if len(rows) < fewest:
        return
    first = rows[0][0].start
    context = frozenset(table_words(text[max(0, first - _ABOVE) : first]))
    yield from (KeyRow(cells, context, is_item) for cells in rows)
