"""A whole library in one file: frames with lengths and checksums, a digest at the end.

The same documents and sessions give the same bytes. An archive is not trusted: it holds no paths,
links or compressed data, and no length is believed before it was compared with what is left of the
file. Knows nothing of tensors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import math
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from drt_engine.errors import ConfigError, CorruptStore, StoreError
from drt_engine.store.catalogue.catalog import Origins, Place
from drt_engine.store.catalogue.row_checksums import MAX_TEXT_BYTES
from drt_engine.store.filesystem.disk import Disk, DurableFile, open_plain
from drt_engine.store.filesystem.library_folder import full_message
from drt_engine.store.segments.format import MAX_SEGMENT_CHUNKS, SegmentHeader, plan
from drt_engine.store.segments.records import joined, open_records
from drt_engine.store.types import ChunkText, DocumentRow, RecordLayout, SegmentRow, SessionRow

if TYPE_CHECKING:
    from drt_engine.store.view import LibraryView

MAGIC = b"\x89DRTARC\n"
VERSION = 2
_KNOWN_VERSIONS = (1, VERSION)  # the first had no ORIG
_FRAME = struct.Struct("<4sQI")  # kind, length of the payload, CRC32 of kind, length and payload
_CHUNK = struct.Struct("<QIqII")  # start, tokens, page, bytes of section, bytes of text
_PLACE = struct.Struct("<QqI")  # start, page, bytes of section
_ORIGIN = struct.Struct("<QI")  # start, bytes of anchors
_NO_PAGE = -(1 << 63)
_NO_SECTION = 0xFFFFFFFF
_LIMITS = {
    b"LIBR": 1 << 16,
    b"DOCU": 1 << 20,
    b"PLAC": 1 << 28,
    b"ORIG": 1 << 28,
    b"TEXT": 1 << 28,
    b"RECS": 1 << 40,  # the layout says how many bytes a number of chunks takes
    b"SESS": 1 << 26,
    b"STAT": 1 << 30,
    b"DONE": 32,
}


@dataclass(frozen=True)
class Part:
    """Consecutive chunks of an archived document."""

    texts: list[ChunkText]
    lengths: list[int]
    header: SegmentHeader
    data: bytearray


class Frames:
    """Writes or reads frames, keeping the digest of all bytes so far."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def packed(self, kind: bytes, payload: bytes | bytearray) -> Iterator[bytes | bytearray]:
        """The pieces of one frame."""
        if len(payload) > _LIMITS[kind]:
            raise StoreError(
                f"{len(payload):,} bytes cannot be one part of an archive, expected at most"
                f" {_LIMITS[kind]:,}: is this a document?"
            )
        head = struct.pack("<4sQ", kind, len(payload))
        crc = zlib.crc32(payload, zlib.crc32(head))
        for piece in (head + struct.pack("<I", crc), payload):
            self._digest.update(piece)
            yield piece

    def digest(self) -> bytes:
        """SHA-256 of everything so far."""
        return self._digest.digest()

    def start(self) -> bytes:
        """The file's first bytes."""
        first = MAGIC + struct.pack("<I", VERSION)
        self._digest.update(first)
        return first

    def read(self, file: IO[bytes], name: str) -> Iterator[tuple[bytes, bytes]]:
        """Kind and payload of each frame, the last being DONE at the file's end; CorruptStore."""
        size = os.fstat(file.fileno()).st_size
        first = file.read(len(MAGIC) + 4)
        if first[: len(MAGIC)] != MAGIC:
            raise damaged(name, "it does not start like an archive")
        if first[len(MAGIC) :] not in [struct.pack("<I", one) for one in _KNOWN_VERSIONS]:
            raise damaged(name, f"its version is not 1 to {VERSION}")
        self._digest.update(first)
        while True:
            before = self.digest()
            head = file.read(_FRAME.size)
            if len(head) < _FRAME.size:
                raise damaged(name, "it ends too early")
            kind, length, crc = _FRAME.unpack(head)
            if kind not in _LIMITS or length > min(_LIMITS[kind], size - file.tell()):
                raise damaged(name, f"a part at byte {file.tell()} is longer than what is left")
            payload = file.read(length)
            if len(payload) != length or zlib.crc32(payload, zlib.crc32(head[:12])) != crc:
                raise damaged(name, f"the checksum of the part before byte {file.tell()} is wrong")
            self._digest.update(head)
            self._digest.update(payload)
            if kind == b"DONE":
                if payload != before or file.read(1):
                    raise damaged(name, "its digest is wrong or something follows it")
                return
            yield kind, payload


def damaged(name: str, what: str) -> CorruptStore:
    """The error for an archive that is not as it was written."""
    return CorruptStore(f"the archive {name} is damaged: {what}; export the library again")


# writing


def export_archive(view: LibraryView, target: Path, *, disk: Disk) -> None:
    """Write a library's ready documents and its sessions; the caller holds a snapshot."""
    temporary = target.with_name(f".{target.name}.part")
    try:
        with _exclusive(temporary, disk), DurableFile(disk, target, temporary) as file:
            frames = Frames()
            file.write(frames.start())
            for kind, payload in _contents(view):
                for piece in frames.packed(kind, payload):
                    file.write(piece)
            digest = frames.digest()
            for piece in frames.packed(b"DONE", digest):
                file.write(piece)
    except OSError as error:
        if error.errno in (28, 122):
            raise StoreError(full_message(target.parent)) from error
        raise StoreError(
            f"cannot write the archive {target} ({error.strerror}): check the folder"
        ) from error


@contextlib.contextmanager
def _exclusive(temporary: Path, disk: Disk) -> Iterator[None]:
    """Remove what a killed export left; StoreError while another one is still writing it."""
    lock = os.open(temporary.parent, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(
                f"another export is writing to {temporary.parent}: wait for it"
            ) from error
        if temporary.is_symlink() or temporary.exists():
            disk.unlink(temporary)
        yield
    finally:
        os.close(lock)


def _contents(view: LibraryView) -> Iterator[tuple[bytes, bytes | bytearray]]:
    layout = view.layout
    about = {
        "fingerprint": view.fingerprint,
        "layout": None if layout is None else dataclasses.asdict(layout),
        "model": view.get_setting("model"),
        "vocabulary": view.vocabulary,
    }
    yield b"LIBR", _json(about)
    for row in view.documents() if layout is not None else []:
        yield b"DOCU", _json(row._asdict())
        yield b"PLAC", _pack_places(view.places(row.id))
        yield b"ORIG", _pack_origins(view.origins(row.id))
        yield from _document_parts(view, row, layout)
    for info in sorted(view.sessions(), key=lambda info: info.name):
        session = dataclasses.asdict(view.load_session(info.name))
        state = session.pop("state")
        yield b"SESS", _json(session)
        yield b"STAT", state


def _document_parts(
    view: LibraryView, row: DocumentRow, layout: RecordLayout | None
) -> Iterator[tuple[bytes, bytes | bytearray]]:
    assert layout is not None
    segments = view._catalog.segments([row.id])
    for first in range(0, row.chunks, MAX_SEGMENT_CHUNKS):
        ordinals = range(first, min(first + MAX_SEGMENT_CHUNKS, row.chunks))
        texts = view._texts.block(row.id, ordinals)
        tokens = view._texts.tokens(row.id, ordinals)
        yield b"TEXT", _pack_texts(texts, tokens)
        parts = []
        for segment in segments:
            inside = _overlap(segment, ordinals)
            if inside:
                parts.append((open_records(view._folder, segment, layout), inside))
        header = SegmentHeader(layout, row.id, first, len(ordinals))
        if sum(len(inside) for _, inside in parts) != len(ordinals):
            raise CorruptStore(
                f"document {row.id} has no segments for {ordinals}: run `drt library check`"
            )
        yield b"RECS", joined(header, parts)


def _overlap(segment: SegmentRow, ordinals: range) -> range:
    """Which of a segment's chunks are among these ordinals, counted in the segment."""
    at = segment.first_ordinal
    first, stop = max(ordinals.start, at), min(ordinals.stop, at + segment.chunks)
    return range(first - at, max(first, stop) - at)


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def _pack_texts(texts: Sequence[ChunkText], tokens: Sequence[int]) -> bytes:
    out = bytearray()
    for one, count in zip(texts, tokens, strict=True):
        section, text = _encoded(one.section), one.text.encode("utf-8")
        page = _NO_PAGE if one.page is None else one.page
        size = _NO_SECTION if one.section is None else len(section)
        out += _CHUNK.pack(one.start, count, page, size, len(text)) + section + text
    return bytes(out)


def _pack_places(places: Sequence[Place]) -> bytes:
    out = bytearray()
    for start, page, section in places:
        size = _NO_SECTION if section is None else len(_encoded(section))
        out += _PLACE.pack(start, _NO_PAGE if page is None else page, size) + _encoded(section)
    return bytes(out)


def _pack_origins(origins: Sequence[Origins]) -> bytes:
    packed = [(start, anchors.encode("utf-8")) for start, anchors in origins]
    return b"".join(_ORIGIN.pack(start, len(one)) + one for start, one in packed)


def _encoded(section: str | None) -> bytes:
    return (section or "").encode("utf-8")


# reading


@dataclass(frozen=True)
class About:
    """What an archive says of its library."""

    fingerprint: str | None
    layout: RecordLayout | None
    model: str | None
    vocabulary: int | None


@dataclass(frozen=True)
class From:
    """What leads from the text of the document before it to that document's file."""

    origins: list[Origins]


Item = About | tuple[DocumentRow, list[Place]] | From | Part | SessionRow


def read_archive(path: Path) -> Iterator[Item]:
    """The archive's contents, each checked on its own and against what came before; CorruptStore.

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
            yield From(_origins(payload))
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
    found, payload = next(frames, (b"", b""))
    if found != kind:
        raise damaged(name, f"{found!r} stands where {kind!r} should")
    return payload


def _loads(payload: bytes) -> Any:
    """JSON of numbers that can be written again: no NaN, nothing infinite; ValueError."""
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
    )
    if about.vocabulary is not None and type(about.vocabulary) is not int:
        raise TypeError(f"{about.vocabulary!r} is not a number of token ids")
    if (about.fingerprint is None) != (about.layout is None):
        raise ValueError("a fingerprint comes with a layout")
    for text in (about.fingerprint, about.model):
        if text is not None:
            _expect_texts(text)
    return about


def _document(payload: bytes) -> DocumentRow:
    row = DocumentRow(**_loads(payload))
    words, numbers = (*row[:4], row.created), row[4:7]
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
        start, page, size = _PLACE.unpack_from(payload, at)
        at += _PLACE.size
        section, at = _section(payload, at, size)
        if places and start <= places[-1][0]:
            raise ValueError("places are not in order")
        places.append((_offset(start), None if page == _NO_PAGE else page, section))
    return places


def _origins(payload: bytes) -> list[Origins]:
    origins: list[Origins] = []
    at = 0
    while at < len(payload):
        start, size = _ORIGIN.unpack_from(payload, at)
        anchors = _text(payload, at + _ORIGIN.size, size)
        at += _ORIGIN.size + size
        if origins and start <= origins[-1][0]:
            raise ValueError("origins are not in order")
        origins.append((_offset(start), anchors))
    return origins


def _section(payload: bytes, at: int, size: int) -> tuple[str | None, int]:
    if size == _NO_SECTION:
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
        start, tokens, page, section_size, size = _CHUNK.unpack_from(payload, at)
        section, at = _section(payload, at + _CHUNK.size, section_size)
        if size > MAX_TEXT_BYTES:
            raise ValueError("a chunk's text is too long")
        text = _text(payload, at, size)
        at += size
        texts.append(ChunkText(_offset(start), text, None if page == _NO_PAGE else page, section))
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
