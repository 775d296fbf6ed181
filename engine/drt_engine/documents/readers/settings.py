"""Blocks of configuration files: the text as it is, keys with several lines as sections.

JSON that is a list of records is read as the table it is, each record with the names of its fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from drt_engine.documents.base import Block, Source, regroup
from drt_engine.documents.encodings import characters
from drt_engine.documents.readers.table import flat_fields, row_blocks
from drt_engine.documents.structure.setting_tree import setting_sections, settings_of

_MOST_BYTES = 4 << 20  # beyond, a file is read as plain text
_FEWEST_RECORDS = 3
_FEWEST_COMMON = 0.5  # of the records, that have each of the first one's fields
_MOST_FIELDS = 60
_GAP = re.compile(r"[\s,]*")
_LIST = re.compile(r"\s*\[\s*\{")


def _places(text: str, suffix: str) -> Iterator[Block]:
    """Yield the text in the sections of its keys."""
    places = setting_sections(text, settings_of(text, suffix))
    ends = [start for start, _ in places[1:]] + [len(text)]
    for (start, section), end in zip(places, ends, strict=True):
        if start < end:
            yield Block(text[start:end], section=section)


def _records(text: str) -> list[tuple[int, int, dict[str, object]]]:
    """Return the records of a list that is nothing else, with their places; none for other JSON."""
    lead = _LIST.match(text)
    if lead is None:
        return []
    decoder = json.JSONDecoder()
    records: list[tuple[int, int, dict[str, object]]] = []
    at = lead.end() - 1
    try:
        while text[at : at + 1] == "{":
            value, end = decoder.raw_decode(text, at)
            records.append((at, end, value))
            gap = _GAP.match(text, end)
            at = gap.end() if gap else end
    except (ValueError, RecursionError):
        return []
    is_whole = text[at:].strip() == "]"
    return records if is_whole and _are_alike([record for _, _, record in records]) else []


def _are_alike(records: list[dict[str, object]]) -> bool:
    """Return whether records have fields in common, as the rows of a table do."""
    if len(records) < _FEWEST_RECORDS or not 1 < len(records[0]) <= _MOST_FIELDS:
        return False
    return all(
        sum(name in record for record in records) >= _FEWEST_COMMON * len(records)
        for name in records[0]
    )


def _rows(text: str, records: list[tuple[int, int, dict[str, object]]]) -> Iterator[Block]:
    line, counted = 1, 0
    for start, end, record in records:
        line += text.count("\n", counted, start)
        counted = start
        for block in row_blocks(list(flat_fields(record)), line, (start, end)):
            # JSON can spell halves of characters, which no text holds.
            yield replace(block, text=block.text.encode("utf-8", "replace").decode())


def setting_blocks(source: Source, encoding: str) -> Iterator[Block]:
    """Yield the text of a configuration file in sections, or the rows of a list of records."""
    if source.size > _MOST_BYTES:
        yield from regroup((Block(text) for text in characters(source, encoding)), verbatim=True)
        return
    text = "".join(characters(source, encoding))
    records = _records(text) if source.suffix == ".json" else []
    if records:
        yield from regroup(_rows(text, records))
    else:
        yield from regroup(_places(text, source.suffix), verbatim=True)
