"""Reads tables (CSV, TSV) and JSON lines: each row with the names of its fields, and its line.

Streams row by row; knows nothing of types beyond telling a header from data.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from drt_engine.documents.base import (
    Block,
    Node,
    Notes,
    OpenDocument,
    Origin,
    Source,
    SuffixOnly,
    one_line,
    regroup,
)
from drt_engine.documents.encodings import characters, find_encoding, split_lines
from drt_engine.documents.structure.column_names import header_names, is_header
from drt_engine.errors import UnreadableDocument

_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_LINES = 20
_COMMENT = "#"
_MOST_COMMENTS = 200  # lines before a table
_LONGEST_LINE = 1 << 20
_LONGEST_ROW = 500  # characters that are still read at a glance
_LONGEST_KEY = 120
_FIELD_LIMIT = "a field is longer than 128 kB, perhaps for a quote that is never closed"

Fields = Sequence[tuple[str, str]]


def row_blocks(
    fields: Fields,
    line: int | None = None,
    span: tuple[int, int] | None = None,
    *,
    number: int = 0,
) -> Iterator[Block]:
    """Yield a row on one line; on several when it is long, each of which begins with the row's key.

    So no part of a row is read without what it is about. A field with lines of its own keeps them.
    Each block is one line, since all of them are on the same line of the source: the one where the
    row begins, None where it has no lines. ``span`` is the row's place in it, in characters,
    ``number`` the row's in its table, from 1.
    """
    origin: Origin = () if span is None else ((0, *span),)
    parts = [f"{name}: {value}" if name else value for name, value in fields if value.strip()]
    if parts and not any(name for name, _ in fields):  # where only its place tells a field
        last = max(n for n, (_, value) in enumerate(fields) if value.strip())
        parts = [value.strip() for _, value in fields[: last + 1]]
    fits = sum(map(len, parts)) <= _LONGEST_ROW and not any("\n" in part for part in parts)
    written = "\n".join([" | ".join(parts)] if fits else _parted(parts)).split("\n")
    end = "" if fits else "\n"
    for n, text in enumerate(written if parts else (), 1):
        nodes = (Node("row", 0, len(text), row=number),) if text.strip() else ()
        yield Block(text + "\n" + end * (n == len(written)), line=line, origin=origin, nodes=nodes)


def _parted(parts: Sequence[str]) -> list[str]:
    """Split a row into lines of at most ``_LONGEST_ROW`` characters, the first field repeated."""
    key = parts[0] if len(parts[0]) <= _LONGEST_KEY and "\n" not in parts[0] else ""
    lines: list[str] = []
    line = key
    for part in parts[bool(key) :]:
        both = f"{line} | {part}" if line else part
        if line != key and (len(both) > _LONGEST_ROW or "\n" in both):
            lines.append(line)
            both = f"{key} | {part}" if key else part
        line = both
    return [*lines, line]


class _Lines:
    """The lines of a table; ``position`` is where the next one begins, ``text`` the last one.

    Raises UnreadableDocument for a line that no table has.
    """

    def __init__(self, source: Source, encoding: str) -> None:
        self._name = source.name
        self._lines = split_lines(characters(source, encoding), _LONGEST_LINE)
        self.position = 0
        self.text = ""
        self._ended = 0

    @property
    def last(self) -> int:
        """Where the last line ended, less its newline."""
        return self.position - self._ended

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            if len(line) > _LONGEST_LINE and not line.endswith("\n"):
                raise UnreadableDocument(
                    f"{self._name} has a line of more than {_LONGEST_LINE >> 20} MB, which is no "
                    "table; save it with a row on each line."
                )
            self._ended = int(line.endswith("\n"))
            self.position += len(line)
            self.text = line
            yield line


def _delimiter(lines: Sequence[str], suffix: str) -> str:
    """Return the delimiter that stands equally often on most lines; a comma where none does."""
    if suffix in (".tsv", ".tab"):
        return "\t"
    best, best_score = ",", 0
    for delimiter in _DELIMITERS:
        counts = Counter(len(row) for row in csv.reader(lines, delimiter=delimiter) if row)
        width, rows = max(counts.items(), key=lambda item: (item[0] > 1, item[1]), default=(1, 0))
        if width > 1 and rows > best_score:
            best, best_score = delimiter, rows
    return best


@dataclass(frozen=True)
class _Layout:
    """How a table is written: its delimiter, how many rows are a header, and comments.

    ``comments`` lines before it begin with ``#``; the last one may be the header, ``names``.
    ``both`` are the names that two rows give together.
    """

    delimiter: str
    headed: int
    comments: int = 0
    names: tuple[str, ...] = ()
    both: tuple[str, ...] = ()


def _layout(source: Source, encoding: str) -> _Layout:
    sample: list[str] = []
    comments: list[str] = []
    for line in _Lines(source, encoding):
        if not sample and line.startswith(_COMMENT) and len(comments) < _MOST_COMMENTS:
            comments.append(line)
        elif len(sample) < _SAMPLE_LINES:
            sample.append(line)
        else:
            break
    try:
        delimiter = _delimiter(sample, source.suffix)
        rows = [row for row in csv.reader(sample, delimiter=delimiter) if row]
        if not comments:
            names, count = header_names(rows) if rows else ([], 0)
            return _Layout(delimiter, count, both=tuple(names) if count > 1 else ())
        names = next(csv.reader([comments[-1].lstrip(f"{_COMMENT} ")], delimiter=delimiter), [])
    except csv.Error:
        return _Layout(",", 0)
    if delimiter == "\t":
        names = [name for name in names if name]  # more tabs where names are shorter than values
    width = max(map(len, rows), default=0)
    is_prose = delimiter in ",;" and any(name.startswith(" ") for name in names)
    if len(names) == width > 1 and not is_prose and is_header([names, *rows]):
        return _Layout(delimiter, 0, len(comments), tuple(map(one_line, names)))
    return _Layout(delimiter, int(is_header(rows)), len(comments))


def _csv_rows(source: Source, encoding: str) -> Iterator[Block]:
    layout = _layout(source, encoding)
    lines = _Lines(source, encoding)
    reader = csv.reader(lines, delimiter=layout.delimiter)
    names, headed = list(layout.names), layout.headed
    before = position = number = 0  # lines, characters and rows
    try:
        for row in reader:  # it takes no line beyond the row's
            line, before = before + 1, reader.line_num
            span, position = (position, lines.last), lines.position
            if layout.comments and lines.text.startswith(_COMMENT):
                is_header_line = bool(layout.names) and line == layout.comments
                text = " | ".join(names) if is_header_line else lines.text.strip("# \t\r\n")
                yield Block(f"{text}\n", line=line, origin=((0, *span),))
                continue
            if headed and row:
                headed -= 1
                names = [one_line(cell) for cell in row] if not layout.both or headed else []
                names = names or list(layout.both)
                while names and not names[-1]:
                    names.pop()
                yield Block(" | ".join(names) + "\n", line=line, origin=((0, *span),))
                continue
            padded = [*names, *[""] * (len(row) - len(names))]
            number += bool(row)
            fields = list(zip(padded, row, strict=False))
            yield from row_blocks(fields, line, span, number=number)
    except csv.Error as error:
        reason = _FIELD_LIMIT if "field limit" in str(error) else str(error)
        raise UnreadableDocument(
            f"{source.name} is no table from line {before + 1} on ({reason}); "
            "repair it, or save it as .txt to have it read as it stands."
        ) from error


@dataclass(frozen=True)
class CsvReader(SuffixOnly):
    """A table; every row says its column names, so that each can be read alone.

    Only the suffix tells: too much of what is text looks like a table.
    """

    def open(self, source: Source) -> OpenDocument:
        """Open the table, whose delimiter and header are told by its first lines."""
        encoding = find_encoding(source)
        media = "text/tab-separated-values" if source.suffix in (".tsv", ".tab") else "text/csv"
        blocks = regroup(_csv_rows(source, encoding))
        return OpenDocument(one_line(source.file_name), media, blocks)


def flat_fields(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the fields of a record, those of inner records under their path; join plain lists."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat_fields(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        if all(not isinstance(item, dict | list) for item in value):
            yield name, ", ".join(_scalar(item) for item in value)
        else:
            for number, inner in enumerate(value, 1):
                yield from flat_fields(inner, f"{name}.{number}" if name else str(number))
    else:
        yield name, _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return value.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return "" if value is None else json.dumps(value)


def _json_rows(source: Source, encoding: str, notes: Notes) -> Iterator[Block]:
    number, position, pending = 1, 0, ""
    for line in split_lines(characters(source, encoding)):
        pending += line
        if not line.endswith("\n") and len(pending) <= _LONGEST_LINE:
            continue
        yield from _record(pending, number, position, notes)
        number += pending.count("\n")
        position += len(pending)
        pending = ""
    yield from _record(pending, number, position, notes)


def _record(line: str, number: int, position: int, notes: Notes) -> Iterator[Block]:
    if not line.strip():
        return
    span = (position, position + len(line.rstrip("\n")))
    try:
        value = json.loads(line)
        fields = list(flat_fields(value))
    except (ValueError, RecursionError):
        notes.skip("line", "no JSON; read as written")
        fields = [("", line.rstrip("\n"))]
    for block in row_blocks(fields, number, span):
        # JSON can spell halves of characters, which no text holds.
        yield replace(block, text=block.text.encode("utf-8", "replace").decode())


@dataclass(frozen=True)
class JsonLinesReader(SuffixOnly):
    """A record on each line; a single JSON value is read as text."""

    def open(self, source: Source) -> OpenDocument:
        """Open the records; a line that is no JSON is text."""
        encoding = find_encoding(source)
        notes = Notes()
        blocks = regroup(_json_rows(source, encoding, notes))
        return OpenDocument(one_line(source.file_name), "application/jsonl", blocks, notes)
