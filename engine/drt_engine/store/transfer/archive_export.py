"""Writes a whole library to one file: the same documents and sessions give the same bytes.

Knows nothing of tensors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drt_engine.errors import StoreError
from drt_engine.files import can_lock_folders, lock
from drt_engine.store.filesystem.disk import TEMPORARY_SUFFIX, Disk, DurableFile
from drt_engine.store.filesystem.library_folder import expect_outside, full_message
from drt_engine.store.segments.format import MAX_SEGMENT_CHUNKS
from drt_engine.store.transfer.archive_format import (
    CHUNK_HEADER,
    GROUP_HEADER,
    NO_PAGE,
    NO_SECTION,
    PLACE_HEADER,
    Frames,
)
from drt_engine.store.types import ChunkText, DocumentRow, Place

if TYPE_CHECKING:
    from drt_engine.results import SessionInfo
    from drt_engine.store.view import LibraryView


def export_archive(view: LibraryView, target: Path, *, disk: Disk) -> None:
    """Write a library's ready documents and its sessions; the caller holds a snapshot."""
    expect_outside(target)
    temporary = target.with_name(f".{target.name}.part")
    try:
        with _exclusive(temporary, disk), DurableFile(disk, target, temporary) as file:
            _write(file, _contents(view, view.documents(), view.sessions()))
    except OSError as error:
        if error.errno in (28, 122):
            raise StoreError(full_message(target.parent)) from error
        raise StoreError(
            f"cannot write the archive {target} ({error.strerror}): check the folder"
        ) from error


def write_document(
    view: LibraryView,
    row: DocumentRow,
    target: Path,
    *,
    disk: Disk,
    digests: Mapping[str, str],
) -> None:
    """Write an archive of one ready document to a file of the library, without its sessions.

    ``digests`` of the files that it was read from are for this library alone.
    """
    with DurableFile(disk, target, target.with_suffix(TEMPORARY_SUFFIX)) as file:
        _write(file, _contents(view, [row], [], {"digests": digests}))


def _write(file: DurableFile, contents: Iterable[tuple[bytes, bytes | bytearray]]) -> None:
    """Write frames, with the digest of all of them at the end."""
    frames = Frames()
    file.write(frames.start())
    for kind, payload in contents:
        for piece in frames.packed(kind, payload):
            file.write(piece)
    digest = frames.digest()
    for piece in frames.packed(b"DONE", digest):
        file.write(piece)


@contextlib.contextmanager
def _exclusive(temporary: Path, disk: Disk) -> Iterator[None]:
    """Remove what a killed export left; StoreError while another one is still writing it."""
    folder = os.open(temporary.parent, os.O_RDONLY) if can_lock_folders() else None
    try:
        if folder is not None and not lock(folder):
            raise _other_export(temporary)
        if temporary.is_symlink() or temporary.exists():
            try:
                disk.unlink(temporary)
            except PermissionError as error:
                if folder is not None:
                    raise
                # Windows has no locks of folders, but deletes no file that somebody writes.
                raise _other_export(temporary) from error
        yield
    finally:
        if folder is not None:
            os.close(folder)


def _other_export(temporary: Path) -> StoreError:
    return StoreError(f"another export is writing to {temporary.parent}: wait for it")


def _contents(
    view: LibraryView,
    documents: Sequence[DocumentRow],
    sessions: Sequence[SessionInfo],
    more: Mapping[str, Any] | None = None,
) -> Iterator[tuple[bytes, bytes | bytearray]]:
    layout = view.layout
    about = {
        "fingerprint": view.fingerprint,
        "layout": None if layout is None else dataclasses.asdict(layout),
        "model": view.get_setting("model"),
        "vocabulary": view.vocabulary,
    }
    yield b"LIBR", _json(about | dict(more or {}))
    for row in documents if layout is not None else []:
        yield b"DOCU", _json(row._asdict())
        yield b"PLAC", _pack_places(view.places(row.id))
        yield b"ORIG", _pack_groups(view.origins(row.id))
        yield b"BLOC", _pack_groups(view.blocks(row.id))
        yield from _document_parts(view, row)
    for info in sorted(sessions, key=lambda info: info.name):
        session = dataclasses.asdict(view.load_session(info.name))
        state = session.pop("state")
        yield b"SESS", _json(session)
        yield b"STAT", state


def _document_parts(
    view: LibraryView, row: DocumentRow
) -> Iterator[tuple[bytes, bytes | bytearray]]:
    for first in range(0, row.chunks, MAX_SEGMENT_CHUNKS):
        ordinals = range(first, min(first + MAX_SEGMENT_CHUNKS, row.chunks))
        texts = view.chunk_texts(row.id, ordinals)
        tokens = view.chunk_token_counts(row.id, ordinals)
        yield b"TEXT", _pack_texts(texts, tokens)
        yield b"RECS", view.segment_bytes(row.id, ordinals)


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def _pack_texts(texts: Sequence[ChunkText], tokens: Sequence[int]) -> bytes:
    out = bytearray()
    for chunk, count in zip(texts, tokens, strict=True):
        section, text = _encoded(chunk.section), chunk.text.encode("utf-8")
        page = NO_PAGE if chunk.page is None else chunk.page
        size = NO_SECTION if chunk.section is None else len(section)
        out += CHUNK_HEADER.pack(chunk.start, count, page, size, len(text)) + section + text
    return bytes(out)


def _pack_places(places: Sequence[Place]) -> bytes:
    out = bytearray()
    for start, page, section in places:
        size = NO_SECTION if section is None else len(_encoded(section))
        out += PLACE_HEADER.pack(start, NO_PAGE if page is None else page, size) + _encoded(section)
    return bytes(out)


def _pack_groups(groups: Sequence[tuple[int, str]]) -> bytes:
    packed = [(start, text.encode("utf-8")) for start, text in groups]
    return b"".join(GROUP_HEADER.pack(start, len(text)) + text for start, text in packed)


def _encoded(section: str | None) -> bytes:
    return (section or "").encode("utf-8")
