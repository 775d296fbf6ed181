"""Reads an archive, which is not trusted: every part is checked against what came before it.

It holds no paths, links or compressed data, and no length is believed before it was compared with
what is left of the file. Knows nothing of tensors or of the library that it is read into.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drt_engine.errors import ConfigError, StoreError
from drt_engine.store.catalogue.row_checksums import MAX_TEXT_BYTES
from drt_engine.store.filesystem.disk import open_plain
from drt_engine.store.segments.format import MAX_SEGMENT_CHUNKS, SegmentHeader, plan
from drt_engine.store.tags import checked_tags
from drt_engine.store.transfer.archive_format import (
    CHUNK_HEADER,
    GROUP_HEADER,
    NO_PAGE,
    NO_SECTION,
    PLACE_HEADER,
    Frames,
    damaged,
)
from drt_engine.store.types import (
    Blocks,
    ChunkText,
    DocumentRow,
    Origins,
    Place,
    RecordLayout,
    SessionRow,
)


@dataclass(frozen=True)
class Part:
    """Consecutive chunks of an archived document."""

    texts: list[ChunkText]
    lengths: list[int]
    header: SegmentHeader
    data: bytearray


@dataclass(frozen=True)
class About:
    """What an archive says of its library."""

    fingerprint: str | None
    layout: RecordLayout | None
    model: str | None
    vocabulary: int | None
    digests: dict[str, str]  # of the files of a document that was removed, by path


@dataclass(frozen=True)
class From:
    """What leads from the text of the document before it to that document's file."""

    origins: list[Origins]


@dataclass(frozen=True)
class Tree:
    """The block tree of the document before it."""

    blocks: list[Blocks]


Item = About | tuple[DocumentRow, list[Place]] | From | Tree | Part | SessionRow


def read_archive(path: Path) -> Iterator[Item]:
    """Yield the archive's contents, each checked on its own and against what came before.

    Raises CorruptStore.
    First what it says of its library, then each document followed by its parts, then sessions.
    """
    name = path.name
    with contextlib.ExitStack() as stack:
        try:
            descriptor = open_plain(path, os.O_RDONLY, follow=True)
            file = stack.enter_context(open(descriptor, "rb"))
        except OSError as error:
            raise StoreError(f"cannot read the archive {path} ({error.strerror})") from error
        frames = Frames().read(file, name)
        try:
            yield from _items(frames, name)
        except (ValueError, KeyError, TypeError, RecursionError, struct.error) as error:
            raise damaged(name, f"a part is not what it should be ({error})") from error
        except (ConfigError, OSError) as error:
            raise damaged(name, str(error)) from error


def _items(frames: Iterator[tuple[bytes, bytes]], name: str) -> Iterator[Item]:
    about = _about(_expected(frames, b"LIBR", name))
    yield about
    document: DocumentRow | None = None
    chunks = characters = tokens = 0
    for kind, payload in frames:
        if kind == b"TEXT" and document is not None and about.layout is not None:
            records = _expected(frames, b"RECS", name)
            part = _part(payload, records, document=document, first=chunks, layout=about.layout)
            if part.texts[0].start != characters:
                raise ValueError(f"a text starts at {part.texts[0].start}, expected {characters}")
            chunks, tokens = chunks + len(part.texts), tokens + sum(part.lengths)
            characters += sum(len(text.text) for text in part.texts)
            yield part
            continue
        if kind == b"ORIG" and document is not None and not chunks:
            yield From(_groups(payload))
            continue
        if kind == b"BLOC" and document is not None and not chunks:
            yield Tree(_groups(payload))
            continue
        _expect_complete(document, (characters, tokens, chunks))
        document = None
        if kind == b"DOCU":
            document, chunks, characters, tokens = _document(payload), 0, 0, 0
            yield document, _places(_expected(frames, b"PLAC", name))
        elif kind == b"SESS":
            yield _session(payload, _expected(frames, b"STAT", name))
        else:
            raise ValueError(f"{kind!r} stands where it should not")
    _expect_complete(document, (characters, tokens, chunks))


def _expect_complete(document: DocumentRow | None, counted: tuple[int, int, int]) -> None:
    if document is not None and document[4:7] != counted:
        raise ValueError(f"document {document.id} is not complete")


def _expected(frames: Iterator[tuple[bytes, bytes]], kind: bytes, name: str) -> bytes:
    actual_kind, payload = next(frames, (b"", b""))
    if actual_kind != kind:
        raise damaged(name, f"{actual_kind!r} stands where {kind!r} should")
    return payload


def _loads(payload: bytes) -> Any:
    """Return JSON of numbers that can be written again: no NaN, nothing infinite; ValueError."""
    value = json.loads(payload, parse_constant=_refused_number, parse_float=_finite)
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.40} is no object")
    return value


def _refused_number(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits:.40} is too large")
    return value


def _expect_texts(*values: object) -> None:
    """Raise unless these are texts that UTF-8 can encode: JSON may hold lone surrogates."""
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{value!r:.40} is not a text")
        value.encode("utf-8")


def _about(payload: bytes) -> About:
    value = _loads(payload)
    layout = value["layout"]
    about = About(
        value["fingerprint"],
        None if layout is None else RecordLayout(**layout),
        value["model"],
        value.get("vocabulary"),  # unknown to older archives
        dict(value.get("digests", {})),
    )
    if about.vocabulary is not None and type(about.vocabulary) is not int:
        raise TypeError(f"{about.vocabulary!r} is not a number of token ids")
    if (about.fingerprint is None) != (about.layout is None):
        raise ValueError("a fingerprint comes with a layout")
    texts = [text for text in (about.fingerprint, about.model) if text is not None]
    _expect_texts(*texts, *about.digests, *about.digests.values())
    return about


def _document(payload: bytes) -> DocumentRow:
    values = _loads(payload)
    tags = values.get("tags", [])  # unknown to older archives
    if not isinstance(tags, list):
        raise TypeError(f"{tags!r:.40} are not tags")
    row = DocumentRow(**values | {"tags": checked_tags(tags)})
    words, numbers = (*row[:4], row.created, row.author, row.date), row[4:7]
    _expect_texts(*words)
    if not all(type(number) is int and 0 <= number < 1 << 62 for number in numbers):
        raise TypeError(f"{numbers} are not of a document")
    if not row.chunks:
        raise ValueError(f"document {row.id} has no chunks")
    return row


def _places(payload: bytes) -> list[Place]:
    places: list[Place] = []
    at = 0
    while at < len(payload):
        start, page, size = PLACE_HEADER.unpack_from(payload, at)
        at += PLACE_HEADER.size
        section, at = _section(payload, at, size)
        if places and start <= places[-1][0]:
            raise ValueError("places are not in order")
        places.append((_offset(start), None if page == NO_PAGE else page, section))
    return places


def _groups(payload: bytes) -> list[tuple[int, str]]:
    groups: list[tuple[int, str]] = []
    at = 0
    while at < len(payload):
        start, size = GROUP_HEADER.unpack_from(payload, at)
        text = _text(payload, at + GROUP_HEADER.size, size)
        at += GROUP_HEADER.size + size
        if groups and start <= groups[-1][0]:
            raise ValueError("origins or blocks are not in order")
        groups.append((_offset(start), text))
    return groups


def _section(payload: bytes, at: int, size: int) -> tuple[str | None, int]:
    if size == NO_SECTION:
        return None, at
    return _text(payload, at, size), at + size


def _text(payload: bytes, at: int, size: int) -> str:
    if size > len(payload) - at:
        raise ValueError("a text is longer than its part")
    return payload[at : at + size].decode("utf-8")


def _offset(value: int) -> int:
    if value >= 1 << 62:
        raise ValueError(f"{value} is not an offset")
    return value


def _part(
    payload: bytes, records: bytes, *, document: DocumentRow, first: int, layout: RecordLayout
) -> Part:
    texts: list[ChunkText] = []
    lengths: list[int] = []
    at = 0
    while at < len(payload):
        start, tokens, page, section_size, size = CHUNK_HEADER.unpack_from(payload, at)
        section, at = _section(payload, at + CHUNK_HEADER.size, section_size)
        if size > MAX_TEXT_BYTES:
            raise ValueError("a chunk's text is too long")
        text = _text(payload, at, size)
        at += size
        texts.append(ChunkText(_offset(start), text, None if page == NO_PAGE else page, section))
        lengths.append(tokens)
    if not 1 <= len(texts) <= MAX_SEGMENT_CHUNKS:
        raise ValueError(f"a part has {len(texts)} chunks")
    header = SegmentHeader(layout, document.id, first, len(texts))
    if len(records) != plan(layout, len(texts))[1]:
        raise ValueError(f"{len(records)} bytes are not {len(texts)} chunks")
    return Part(texts, lengths, header, bytearray(records))


def _session(payload: bytes, state: bytes) -> SessionRow:
    value = _loads(payload)
    row = SessionRow(**value, state=state)
    _expect_texts(row.name, row.created, row.updated)
    if not isinstance(row.meta, dict) or not isinstance(row.transcript, list):
        raise TypeError(f"session {row.name!r} does not hold turns")
    if not all(isinstance(turn, dict) for turn in row.transcript):
        raise TypeError(f"session {row.name!r} does not hold turns")
    return row
