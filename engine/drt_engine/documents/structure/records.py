"""Tells the records of a text whose lines bear stamps: logs, chats, diaries, ``git log``.

A record is from one stamp to the next of the same shape, with all lines between. Knows lines; the
text stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from drt_engine.documents.base import Block, Node

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,? )?"
_CLOCK = (
    r"\d{1,2}[:.h]\d\d(?:[:.]\d\d(?:[.,]\d{1,9})?)?(?: ?[ap]\.?m\b\.?)?(?:Z|[ ]?[+-]\d\d:?\d\d)?"
)
_DATE = (
    rf"\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}"
    rf"|\d{{1,2}}[-/ ]{_MONTH}\b(?:[-/ ,:]+\d{{4}})?|{_MONTH} {{1,2}}\d{{1,2}}\b(?:,? \d{{4}})?"
)
_STAMP = re.compile(
    rf"(?i)(?<![\w.:/-]){_DAY}(?:(?:{_DATE})(?:[T, :]{{1,3}}{_CLOCK})?|{_CLOCK})(?![\w/-])"
)
_KERNEL = re.compile(r"\[ *\d+\.\d{3,}\]")  # seconds since the start
_COMMIT = re.compile(r"(?:commit )?[0-9a-f]{7,40}\b(?=\s|$)")
_LEAD = re.compile(r"[\s\[(<*|-]*")
_SEARCHED = 200  # characters of a line
_FEWEST = 3  # records, or two whose stamps are a date with a time
_LONGEST_NAME = 60  # characters of a line that ends with the stamp of what is below it
_LONGEST = 4000  # characters of a record
_DIGITS = re.compile(r"\d+")
_LETTERS = re.compile(r"[A-Za-z]+")


class _Stamp(NamedTuple):
    """Where a line has its stamp, and what the stamps of its neighbours must look like."""

    text: str
    shape: str
    leads: bool  # it begins a record: before its line's text, or behind a name

    @property
    def is_full(self) -> bool:
        """Whether the stamp has a date and a time, or names a commit."""
        return len(_DIGITS.findall(self.text)) > 4 or self.shape == "commit"


class _Line(NamedTuple):
    start: int
    end: int  # with its newline
    stamp: _Stamp | None
    blank: bool


def with_records(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks with a node for each record in them; those that have nodes stay as they are."""
    for block in blocks:
        nodes = () if block.nodes else tuple(record_nodes(block.text))
        yield replace(block, nodes=nodes) if nodes else block


def record_nodes(text: str) -> Iterator[Node]:
    """Yield a node for each record of a text."""
    lines = list(_lines(text))
    at = 0
    while at < len(lines):
        run = _run(lines, at)
        if run is None:
            at += 1
            continue
        bounds, at = run
        for first, last, stamp in bounds:
            start, end = lines[first].start, lines[last].end
            end = start + len(text[start:end].rstrip())
            if end - start <= _LONGEST:
                yield Node("record", start, end, place=stamp.text)


def _lines(text: str) -> Iterator[_Line]:
    start = 0
    for line in text.splitlines(keepends=True):
        yield _Line(start, start + len(line), _stamp(line[:_SEARCHED]), not line.strip())
        start += len(line)


def _stamp(line: str) -> _Stamp | None:
    lead = _LEAD.match(line)
    begin = lead.end() if lead else 0
    if (match := _COMMIT.match(line, begin)) and any(map(str.isdigit, match[0])):
        return _Stamp(match[0], "commit", leads=True)
    if match := _KERNEL.match(line.lstrip()):
        return _Stamp(match[0], "kernel", leads=True)
    if not any(map(str.isdigit, line)):
        return None
    if match := _STAMP.search(line):
        shape = _LETTERS.sub("a", _DIGITS.sub("0", " ".join(match[0].split())))
        is_behind = len(line) <= _LONGEST_NAME and not line[match.end() :].strip(" \r\n])>:,")
        return _Stamp(match[0], shape, leads=match.start() <= begin or is_behind)
    return None


def _run(lines: Sequence[_Line], at: int) -> tuple[list[tuple[int, int, _Stamp]], int] | None:
    """Return the records from line ``at`` on (first line, last line, stamp) and the line behind."""
    stamp = lines[at].stamp
    if stamp is None:
        return None
    if not stamp.leads:
        return _run_of_lines(lines, at, stamp)
    starts = [at]
    size = lines[at].end - lines[at].start
    has_blank = False
    number = at + 1
    while number < len(lines):
        line = lines[number]
        if line.stamp is not None and line.stamp.leads and line.stamp.shape == stamp.shape:
            has_blank = has_blank or _has_blank(lines[starts[-1] : number])
            starts.append(number)
            size = 0
        size += line.end - line.start
        if size > _LONGEST:
            break
        number += 1
    if not _are_records(starts, stamp):
        return None
    # The last one goes on to the first empty line, unless records have such lines within them.
    stop = number
    if not has_blank:
        stop = next((n for n in range(starts[-1], number) if lines[n].blank), number)
    ends = [n - 1 for n in (*starts[1:], stop)]
    records = [
        (first, last, lines[first].stamp or stamp) for first, last in zip(starts, ends, strict=True)
    ]
    return records, stop


def _run_of_lines(
    lines: Sequence[_Line], at: int, stamp: _Stamp
) -> tuple[list[tuple[int, int, _Stamp]], int] | None:
    """Return records of a line each, whose stamps are in the same column or at their end."""
    number, records = at, []
    while number < len(lines):
        line = lines[number]
        same = line.stamp is not None and not line.stamp.leads and line.stamp.shape == stamp.shape
        if line.stamp is not None and same:
            records.append((number, number, line.stamp))
        elif not line.blank:
            break
        number += 1
    return (records, number) if _are_records([n for n, _, _ in records], stamp) else None


def _are_records(starts: Sequence[int], stamp: _Stamp) -> bool:
    return len(starts) >= (2 if stamp.is_full else _FEWEST)


def _has_blank(lines: Sequence[_Line]) -> bool:
    """Return whether an empty line is between others, not only at the end."""
    kinds = [line.blank for line in lines]
    while kinds and kinds[-1]:
        kinds.pop()
    return any(kinds)
