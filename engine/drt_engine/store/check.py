"""Compares catalogue, segment files and full-text index; reports, and changes nothing.

Knows nothing of tensors: every chunk's checksum is verified on mapped bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from drt_engine.errors import CorruptStore
from drt_engine.store.catalog import Catalog
from drt_engine.store.files import CATALOG_NAME, SEGMENT_SUFFIX, TEMPORARY_SUFFIX, orphans
from drt_engine.store.format import (
    SegmentHeader,
    chunk_is_intact,
    expected_header,
    gaps,
    map_segment,
)
from drt_engine.store.types import Finding, RecordLayout, SegmentRow


def check_library(
    catalog: Catalog, segments: Path, *, layout: RecordLayout | None
) -> list[Finding]:
    """Everything that is wrong with a library; empty for a whole one without leftovers."""
    findings: list[Finding] = []
    for step in (
        _check_catalog(catalog),
        _check_documents(catalog),
        _check_segments(catalog, segments, layout),
        _check_folder(catalog, segments),
    ):
        try:
            findings.extend(step)
        except CorruptStore as error:
            findings.append(Finding("catalog", CATALOG_NAME, str(error)))
    return findings


def _check_catalog(catalog: Catalog) -> Iterator[Finding]:
    for (message,) in catalog.database.query("PRAGMA integrity_check(20)"):
        if message != "ok":
            yield Finding("catalog", CATALOG_NAME, f"SQLite finds: {message}")
    try:
        with catalog.database.transaction() as connection:
            connection.execute(
                "INSERT INTO chunk_text (chunk_text, rank) VALUES ('integrity-check', 1)"
            )
    except CorruptStore:
        yield Finding("search", CATALOG_NAME, "the full-text index differs from the chunks' texts")
    strays = catalog.database.query(
        "SELECT 'chunks', count(*) FROM chunks WHERE document NOT IN (SELECT number FROM documents)"
        " UNION ALL SELECT 'segments', count(*) FROM segments"
        " WHERE document NOT IN (SELECT number FROM documents)"
        " UNION ALL SELECT 'places', count(*) FROM places"
        " WHERE document NOT IN (SELECT number FROM documents)"
    )
    for table, count in strays:
        if count:
            yield Finding("catalog", CATALOG_NAME, f"{count} {table} belong to no document")


def _check_documents(catalog: Catalog) -> Iterator[Finding]:
    rows = catalog.database.query(
        "SELECT number, id, state, characters, tokens, chunks FROM documents ORDER BY number"
    )
    for number, id, state, *totals in rows:
        chunks = catalog.database.query(
            "SELECT id, ordinal, start, length(text), tokens FROM chunks WHERE document = ?"
            " ORDER BY ordinal",
            (number,),
        )
        segments = catalog.database.query(
            "SELECT first_chunk, chunks FROM segments WHERE document = ? ORDER BY first_ordinal",
            (number,),
        )
        now = catalog.database.one(
            "SELECT characters, tokens, chunks FROM documents WHERE number = ?", (number,)
        )
        if now is None or list(now) != totals:
            continue  # a writer changed the document meanwhile
        yield from _document_findings(id, totals, chunks=chunks, segments=segments)
        if state == "partial":
            yield Finding(
                "partial", id, f"reading stopped after {totals[2]} chunks and can go on", "note"
            )


def _document_findings(
    id: str,
    totals: list[int],
    *,
    chunks: list[tuple[int, ...]],
    segments: list[tuple[int, ...]],
) -> Iterator[Finding]:
    start = 0
    for expected, (chunk, ordinal, begin, length, _) in enumerate(chunks):
        if ordinal != expected:
            yield Finding("offsets", id, f"chunk {chunk} has ordinal {ordinal}, not {expected}")
            break
        if begin != start:
            yield Finding("offsets", id, f"chunk {chunk} starts at {begin}, not at {start}")
            break
        start += length
    counted = [sum(row[3] for row in chunks), sum(row[4] for row in chunks), len(chunks)]
    if counted != totals:
        yield Finding(
            "totals",
            id,
            f"its chunks have {counted} characters, tokens and chunks, the document says {totals}",
        )
    covered = [first + i for first, count in segments for i in range(count)]
    if covered != [row[0] for row in chunks]:
        yield Finding("catalog", id, "its segments' rows do not cover its chunks' rows")


def _check_segments(
    catalog: Catalog, folder: Path, layout: RecordLayout | None
) -> Iterator[Finding]:
    for row in catalog.all_segments():
        findings = list(_segment_findings(catalog, folder / row.name, row=row, layout=layout))
        if findings and catalog.has_segment(row.name):
            yield from findings


def _segment_findings(
    catalog: Catalog, path: Path, *, row: SegmentRow, layout: RecordLayout | None
) -> Iterator[Finding]:
    try:
        header, mapped = map_segment(path)
    except FileNotFoundError:
        yield Finding("missing", row.name, f"segment of document {row.document_id} is missing")
        return
    except (CorruptStore, OSError) as error:
        yield Finding("segment", row.name, str(error))
        return
    if header != expected_header(row, layout or header.layout):
        yield Finding("header", row.name, f"{header} is not what the catalogue says: {row}")
        return
    tokens = catalog.database.query(
        "SELECT tokens FROM chunks WHERE id >= ? AND id < ? ORDER BY id",
        (row.first_chunk, row.first_chunk + row.chunks),
    )
    with contextlib.closing(mapped), memoryview(mapped) as data:
        yield from _content_findings(data, header, row=row, tokens=[int(n) for (n,) in tokens])


def _content_findings(
    data: memoryview, header: SegmentHeader, *, row: SegmentRow, tokens: list[int]
) -> Iterator[Finding]:
    sections = header.sections
    lengths = []
    for index in range(header.chunks):
        begin, end = sections["lengths"].span(index)
        lengths.append(int.from_bytes(data[begin:end], "little", signed=True))
        if not chunk_is_intact(data, sections, index):
            where = f"{row.name}, chunk {row.first_chunk + index}"
            yield Finding("crc", where, "its bytes are not those that were written")
    if lengths != tokens:
        yield Finding("lengths", row.name, "its chunks' lengths are not the catalogue's")
    for begin, end in gaps(header):
        if any(data[begin:end]):
            yield Finding("gap", row.name, f"bytes {begin} to {end} are not zero")


def _check_folder(catalog: Catalog, folder: Path) -> Iterator[Finding]:
    try:
        # names first: a file renamed and committed in between must not look like an orphan
        names = orphans(folder, ())
    except OSError as error:
        yield Finding("segment", str(folder), f"cannot list the segments ({error.strerror})")
        return
    known = catalog.segment_names()
    for name in names:
        if name not in known:
            ours = name.endswith((SEGMENT_SUFFIX, TEMPORARY_SUFFIX))
            what = "the next reading deletes it" if ours else "it is not the library's"
            yield Finding("orphan", name, f"no document owns this file: {what}", "note")
