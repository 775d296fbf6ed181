"""Compares catalogue, segment files, landmark files and search index; reports, changes nothing.

Knows nothing of tensors: every chunk's checksum is verified on bytes that were read.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator

from drt_engine.blocks.nodes import expect_groups
from drt_engine.documents.anchors import expect_origins
from drt_engine.errors import CorruptStore, StoreError
from drt_engine.results import Finding
from drt_engine.store.catalogue.block_rows import block_groups
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.catalogue.row_checksums import unpack_text
from drt_engine.store.catalogue.row_values import (
    document_checksum,
    segment_checksum,
    session_checksum,
    session_rows,
    setting_checksum,
)
from drt_engine.store.filesystem.library_folder import (
    CATALOG_NAME,
    OUR_SUFFIXES,
    REBUILD_NAME,
    Folder,
)
from drt_engine.store.identity import TextHash
from drt_engine.store.index.upkeep import check_index
from drt_engine.store.segments.format import (
    Section,
    chunk_fault,
    chunk_is_intact,
    expected_header,
    gaps,
    plan,
)
from drt_engine.store.segments.landmark_files import open_landmark_file
from drt_engine.store.segments.records import (
    OpenRecords,
    landmark_bytes,
    landmarks_damaged,
    open_file,
)
from drt_engine.store.types import LandmarkFileRow, RecordLayout, SegmentRow

_TOGETHER = 16 << 20  # bytes of a segment that are read at once
Texts = list[int | None]  # of a segment's chunks: characters, None where the text is damaged


def check_library(
    frozen: Catalog, folder: Folder, *, layout: RecordLayout | None, vocabulary: int | None
) -> list[Finding]:
    """Return everything that is wrong with a library; empty for a whole one without leftovers.

    ``frozen`` is the catalogue of a snapshot, so that writers may go on meanwhile; ``vocabulary``
    is how many token ids the model has, if that is known.
    """
    findings: list[Finding] = []
    for step in (
        _check_catalog(frozen),
        _check_settings(frozen),
        _check_documents(frozen),
        _check_segments(frozen, folder, layout, vocabulary),
        _check_landmark_files(frozen, folder, layout),
        check_index(frozen, folder, layout),
        _check_sessions(frozen),
        _check_folder(frozen, folder),
    ):
        try:
            findings.extend(step)
        except StoreError as error:
            findings.append(Finding("catalog", CATALOG_NAME, str(error)))
        except (TypeError, ValueError, OverflowError) as error:
            message = f"a row holds what no library writes ({error})"
            findings.append(Finding("catalog", CATALOG_NAME, message))
    return findings


def check_search_index(catalog: Catalog) -> list[Finding]:
    """Return whether the full-text index is that of the chunks' texts.

    SQLite asks for a writer's turn.
    """
    try:
        with catalog.database.scratch() as connection:
            connection.execute(
                "INSERT INTO chunk_text (chunk_text, rank) VALUES ('integrity-check', 1)"
            )
    except CorruptStore:
        message = "the full-text index differs from the chunks' texts"
        return [Finding("search", CATALOG_NAME, message)]
    except StoreError as error:
        return [Finding("search", CATALOG_NAME, str(error))]
    return []


def _check_catalog(catalog: Catalog) -> Iterator[Finding]:
    query = catalog.database.query
    for (message,) in query("PRAGMA integrity_check(20)"):
        if message != "ok":
            yield Finding("catalog", CATALOG_NAME, f"SQLite finds: {message}")
    for table in ("chunks", "segments", "places", "origins", "blocks"):
        strays = query(
            f"SELECT count(*) FROM {table} WHERE document NOT IN (SELECT number FROM documents)"
        )
        if strays[0][0]:
            yield Finding("catalog", CATALOG_NAME, f"{strays[0][0]} {table} belong to no document")
    strays = query("SELECT path FROM sources WHERE document NOT IN (SELECT id FROM documents)")
    for (path,) in strays:
        yield Finding("catalog", str(path), "it is noted as read, but its document is not there")
    for table, key in (("chunks", "id"), ("documents", "number"), ("segments", "id")):
        last = query(f"SELECT max({key}) FROM {table}")[0][0]
        counters = query("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
        if last is not None and (len(counters) != 1 or counters[0][0] < last):
            yield Finding("catalog", CATALOG_NAME, f"numbers of {table} would be given twice")


def _check_settings(catalog: Catalog) -> Iterator[Finding]:
    for key, value, stored in catalog.database.query("SELECT key, value, seal FROM settings"):
        if setting_checksum(key, value) != stored:
            yield Finding("setting", str(key), "it is not what was written")
        if key == "forgetting":
            yield Finding(
                "forgetting", str(value), "the next writing command deletes its last bytes", "note"
            )


def _check_documents(catalog: Catalog) -> Iterator[Finding]:
    rows = catalog.database.query(
        "SELECT number, id, state, characters, tokens, chunks, seal FROM documents ORDER BY number"
    )
    segments_of: dict[str, list[SegmentRow]] = {}
    for row in sorted(catalog.all_segments(), key=lambda row: row.first_ordinal):
        segments_of.setdefault(row.document_id, []).append(row)
    for number, document_id, state, *totals, stored in rows:
        chunks = catalog.database.query(
            "SELECT id, ordinal, start, tokens FROM chunks WHERE document = ? ORDER BY ordinal",
            (number,),
        )
        segments = segments_of.get(document_id, [])
        yield from _document_findings(str(document_id), totals, chunks=chunks, segments=segments)
        with catalog.database.reading() as connection:
            if document_checksum(connection, number) != stored:
                yield Finding(
                    "document", str(document_id), "its row or its places are not what was written"
                )
        yield from _origin_findings(catalog, number, str(document_id), characters=totals[0])
        yield from _block_findings(catalog, number, str(document_id), characters=totals[0])
        if state == "partial":
            yield Finding(
                "partial",
                document_id,
                f"reading stopped after {totals[2]} chunks and can go on",
                "note",
            )


def _origin_findings(
    catalog: Catalog, number: int, document_id: str, *, characters: int
) -> Iterator[Finding]:
    rows = catalog.database.query(
        "SELECT start, anchors FROM origins WHERE document = ? ORDER BY start", (number,)
    )
    try:
        expect_origins([(start, unpack_text(packed)) for start, packed in rows], characters)
    except (CorruptStore, ValueError) as error:
        yield Finding(
            "origins", document_id, f"the map from its text to its file is damaged ({error})"
        )


def _block_findings(
    catalog: Catalog, number: int, document_id: str, *, characters: int
) -> Iterator[Finding]:
    try:
        expect_groups(block_groups(catalog.database.query, number, 0, None), characters)
    except (CorruptStore, ValueError) as error:
        yield Finding("blocks", document_id, f"its block tree is damaged ({error})")


def _document_findings(
    document_id: str,
    totals: list[int],
    *,
    chunks: list[tuple[int, ...]],
    segments: list[SegmentRow],
) -> Iterator[Finding]:
    for expected, (chunk, ordinal, _, _) in enumerate(chunks):
        if ordinal != expected:
            yield Finding(
                "offsets", document_id, f"chunk {chunk} has ordinal {ordinal}, not {expected}"
            )
            break
    counted = [sum(row[3] for row in chunks), len(chunks)]
    if counted != totals[1:]:
        yield Finding(
            "totals",
            document_id,
            f"its chunks have {counted} tokens and chunks, the document says {totals[1:]}",
        )
    covered = [
        (row.first_chunk + i, row.first_ordinal + i) for row in segments for i in range(row.chunks)
    ]
    if covered != [row[:2] for row in chunks]:
        yield Finding("catalog", document_id, "its segments' rows do not cover its chunks' rows")


def _check_segments(
    catalog: Catalog, folder: Folder, layout: RecordLayout | None, vocabulary: int | None
) -> Iterator[Finding]:
    ends: dict[str, int] = {}  # where the text of each document ends so far
    hashes: dict[str, TextHash | None] = {}  # of each document's text so far; None: damaged
    for row in sorted(catalog.all_segments(), key=lambda r: (r.document_id, r.first_ordinal)):
        texts = yield from _text_findings(catalog, row, ends=ends, hashes=hashes)
        with catalog.database.reading() as connection:
            stored = connection.execute("SELECT seal FROM segments WHERE id = ?", (row.id,))
            if segment_checksum(connection, row.id) != stored.fetchone()[0]:
                yield Finding("rows", row.name, "its rows in the catalogue are not as written")
        yield from _segment_findings(
            catalog, folder, row=row, layout=layout, texts=texts, vocabulary=vocabulary
        )
    totals = catalog.database.query("SELECT id, characters, state FROM documents")
    for document_id, characters, state in totals:
        text_hash = hashes.get(document_id)
        if state == "ready" and text_hash is not None and text_hash.document_id != document_id:
            yield Finding(
                "identity",
                document_id,
                f"its text has the id {text_hash.document_id}, it is not the text that was read:"
                " remove the document and read its file again",
            )
        if ends.get(document_id, 0) != characters:
            yield Finding(
                "totals",
                document_id,
                f"its texts end at {ends.get(document_id, 0)}, the document says {characters}",
            )


def _text_findings(
    catalog: Catalog,
    row: SegmentRow,
    *,
    ends: dict[str, int],
    hashes: dict[str, TextHash | None],
) -> Generator[Finding, None, Texts]:
    """Yield findings in a segment's texts; returns how many characters each has."""
    rows = catalog.database.query(
        "SELECT id, start, text FROM chunks WHERE id >= ? AND id < ? ORDER BY id",
        (row.first_chunk, row.first_chunk + row.chunks),
    )
    texts: Texts = []
    text_hash = hashes.setdefault(row.document_id, TextHash())
    for chunk, start, packed in rows:
        end = ends.get(row.document_id, 0)
        if start != end:
            yield Finding("offsets", row.document_id, f"chunk {chunk} starts at {start}, not {end}")
        try:
            text = unpack_text(packed)
            texts.append(len(text))
            if text_hash is not None:
                text_hash.update([text])
        except CorruptStore as error:
            yield Finding("text", f"{row.document_id}, chunk {chunk}", str(error))
            texts.append(None)
            text_hash = hashes[row.document_id] = None
        ends[row.document_id] = start + (texts[-1] or 0)
    return texts


def _segment_findings(
    catalog: Catalog,
    folder: Folder,
    *,
    row: SegmentRow,
    layout: RecordLayout | None,
    texts: Texts,
    vocabulary: int | None,
) -> Iterator[Finding]:
    try:
        records = open_file(folder, row.name)
    except FileNotFoundError:
        yield Finding("missing", row.name, f"segment of document {row.document_id} is missing")
        return
    except OSError as error:
        yield Finding("segment", row.name, f"it cannot be read: {error.strerror}")
        return
    except CorruptStore as error:
        yield Finding("segment", row.name, str(error))
        return
    header = records.header
    if header != expected_header(row, layout or header.layout):
        yield Finding("header", row.name, f"{header} is not what the catalogue says: {row}")
        return
    tokens = catalog.database.query(
        "SELECT tokens FROM chunks WHERE id >= ? AND id < ? ORDER BY id",
        (row.first_chunk, row.first_chunk + row.chunks),
    )
    try:
        lengths = yield from _content_findings(records, row=row, texts=texts, vocabulary=vocabulary)
    except StoreError as error:
        yield Finding("segment", row.name, str(error))
        return
    finally:
        records.close()
    if lengths != [n for (n,) in tokens]:
        yield Finding("lengths", row.name, "its chunks' lengths are not the catalogue's")


def _content_findings(
    records: OpenRecords, *, row: SegmentRow, texts: Texts, vocabulary: int | None
) -> Generator[Finding, None, list[int]]:
    """Yield findings in a segment's bytes; returns how many tokens each chunk has."""
    header, lengths, crc = records.header, [], 0
    step = max(1, _TOGETHER * header.chunks // header.file_size)
    for first in range(0, header.chunks, step):
        chunks = range(first, min(first + step, header.chunks))
        sections, size = plan(header.layout, len(chunks))
        buffer = bytearray(size)  # a segment of just these chunks
        with memoryview(buffer) as data:
            records.copy(chunks, data, sections, slot=0)
            findings = list(
                _chunk_findings(data, sections, chunks, row=row, texts=texts, vocabulary=vocabulary)
            )
            lengths += _section(data, sections, "lengths", len(chunks)).cast("i").tolist()
            crc = zlib.crc32(_section(data, sections, "landmarks", len(chunks)), crc)
        yield from findings
    for begin, end in gaps(header):
        if any(records.read(begin, end - begin)):
            yield Finding("gap", row.name, f"bytes {begin} to {end} are not zero")
    if row.landmarks_crc not in (None, crc):
        yield Finding("landmarks", row.name, str(landmarks_damaged(row)))
    return lengths


def _chunk_findings(
    data: memoryview,
    sections: dict[str, Section],
    chunks: range,
    *,
    row: SegmentRow,
    texts: Texts,
    vocabulary: int | None,
) -> Iterator[Finding]:
    """Yield findings in some of a segment's chunks, whose bytes are ``data``."""
    for slot, index in enumerate(chunks):
        where = f"{row.name}, chunk {row.first_chunk + index}"
        if not chunk_is_intact(data, sections, slot):
            yield Finding("crc", where, "its bytes are not those that were written")
            continue
        length = texts[index] if index < len(texts) else None
        fault = chunk_fault(data, sections, slot, characters=length, vocabulary=vocabulary)
        if fault is not None:
            yield Finding("numbers", where, fault)


def _section(data: memoryview, sections: dict[str, Section], name: str, chunks: int) -> memoryview:
    section = sections[name]
    return data[section.offset : section.offset + section.stride * chunks]


def _check_landmark_files(
    catalog: Catalog, folder: Folder, layout: RecordLayout | None
) -> Iterator[Finding]:
    landmark_files = catalog.landmark_files()
    if layout is None:
        return
    placed: dict[int | None, list[SegmentRow]] = {}
    for row in catalog.segments():
        placed.setdefault(row.landmark_file, []).append(row)
    for landmark_file in landmark_files:
        rows = placed.pop(landmark_file.id, [])
        if sum(row.chunks for row in rows) != landmark_file.live:
            yield Finding(
                "shelf", landmark_file.name, "the catalogue counts its live chunks wrongly"
            )
        try:
            yield from _landmark_file_findings(folder, landmark_file, layout=layout, rows=rows)
        except (CorruptStore, OSError) as error:
            yield Finding("shelf", landmark_file.name, str(error))
    for strange in placed.keys() - {None}:
        yield Finding(
            "shelf", CATALOG_NAME, f"segments are in landmark file {strange}, there is none"
        )


def _landmark_file_findings(
    folder: Folder, landmark_file: LandmarkFileRow, *, layout: RecordLayout, rows: list[SegmentRow]
) -> Iterator[Finding]:
    with open_landmark_file(folder, landmark_file, layout) as file:
        for row in rows:
            at = row.landmark_file_row if row.landmark_file_row is not None else -1
            chunks = list(range(row.first_chunk, row.first_chunk + row.chunks))
            inside = 0 <= at <= landmark_file.chunks - row.chunks
            if not inside or file.ids(at, row.chunks) != chunks:
                yield Finding("shelf", landmark_file.name, f"it does not hold {row.name} at {at}")
                continue
            try:
                expected = landmark_bytes(folder, row, layout)
            except (StoreError, OSError):
                continue  # found with the segment
            if file.landmarks(at, row.chunks) != expected:
                yield Finding(
                    "shelf", landmark_file.name, f"its landmarks are not those of {row.name}"
                )


def _check_sessions(catalog: Catalog) -> Iterator[Finding]:
    with catalog.database.reading() as connection:
        for _, row, stored in session_rows(connection):
            if session_checksum(row) != stored:
                yield Finding("session", str(row[0]), "it is not what was written: delete it")


def _check_folder(catalog: Catalog, folder: Folder) -> Iterator[Finding]:
    try:
        names = folder.orphans(())
    except OSError as error:
        message = f"cannot list the segments ({error.strerror})"
        yield Finding("segment", str(folder.segments), message)
        return
    if (folder.path / REBUILD_NAME).exists():
        message = "an interrupted rebuild: `drt library rebuild` goes on with it"
        yield Finding("rebuild", REBUILD_NAME, message, "note")
    committed = catalog.file_names()
    for name in names:
        if name not in committed:
            ours = name.endswith(OUR_SUFFIXES)
            consequence = "the next reading deletes it" if ours else "it is not the library's"
            yield Finding("orphan", name, f"no document owns this file: {consequence}", "note")
