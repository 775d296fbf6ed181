"""A library on disk: the one door to documents, chunk memory, search and sessions.

Ties catalogue, segments and the writer's lock together; imports torch only when tensors are asked
for. Knows nothing of models, files to read, or prompts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from drt_engine.errors import (
    ConfigError,
    CorruptStore,
    FingerprintMismatch,
    StoreError,
)
from drt_engine.store import check, files, search
from drt_engine.store.catalog import Catalog, gone, now
from drt_engine.store.database import Database
from drt_engine.store.lock import WriterLock
from drt_engine.store.sessions import Sessions
from drt_engine.store.types import (
    ChunkBatch,
    ChunkRow,
    DocumentRow,
    Finding,
    RecordLayout,
    SegmentRow,
    SessionInfo,
    SessionRow,
)

if TYPE_CHECKING:
    from torch import Tensor

    from drt_engine.store.reader import SegmentReader
    from drt_engine.store.writer import DocumentWriter


class Store:
    """An open library; make one with `Store.open`, close it or use it as a context manager."""

    def __init__(self, path: Path, *, lock_timeout: float) -> None:
        self.path = path
        self._segments = path / files.SEGMENTS_NAME
        self._lock = WriterLock(path / files.LOCK_NAME, timeout=lock_timeout)
        self._database = Database(path / files.CATALOG_NAME, timeout=lock_timeout)
        self._database.prepare(self._lock)
        self._catalog = Catalog(self._database)
        self._sessions = Sessions(self._database)
        self._reader: SegmentReader | None = None
        self._orphans_cleared = False

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        fingerprint: str | None = None,
        layout: RecordLayout | None = None,
        create: bool = False,
        lock_timeout: float = 10.0,
    ) -> Store:
        """Open the library at `path`, or make it with `create`.

        Without a fingerprint it can be listed and checked by any program. A library takes the
        first fingerprint and layout it is opened with under `create`; from then on others raise
        FingerprintMismatch. Raises StoreError for a folder that is not a library, CorruptStore for
        a broken one, LockTimeout when another process keeps the catalogue busy.
        """
        if sys.byteorder != "little":
            raise StoreError("a library's numbers are little-endian: use a little-endian machine")
        path = Path(path)
        with files.file_errors(path):
            _prepare_folder(path, create=create)
            store = cls(path, lock_timeout=lock_timeout)
        try:
            store._bind(fingerprint, layout, create=create)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close the catalogue; tensors that were handed out stay valid."""
        self._reader = None
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    # settings

    @property
    def fingerprint(self) -> str | None:
        """The model whose chunk memory the library holds; None before the first reading."""
        return self.get_setting("fingerprint")

    @property
    def layout(self) -> RecordLayout | None:
        """The record layout of all chunks; None before the first reading."""
        value = self.get_setting("layout")
        if value is None:
            return None
        try:
            return RecordLayout(**json.loads(value))
        except (ValueError, TypeError, ConfigError) as error:
            raise CorruptStore(
                f"the layout setting of the library at {self.path} is damaged ({error}): read the"
                " documents into a new library"
            ) from error

    def get_setting(self, key: str) -> str | None:
        """A setting's text, or None."""
        return self._catalog.get_setting(key)

    def set_setting(self, key: str, value: str) -> None:
        """Write a setting."""
        self._catalog.set_setting(key, value)

    # documents

    def documents(self) -> list[DocumentRow]:
        """Documents read in full, oldest first."""
        return self._catalog.documents()

    def partial_documents(self) -> list[DocumentRow]:
        """Documents whose reading was interrupted, with what they have so far."""
        return self._catalog.documents(state="partial")

    def document(self, name: str) -> DocumentRow:
        """The document with this id, source, title, file name or beginning of an id.

        Raises NotFound with the nearest names, or with the ids when several fit.
        """
        return self._catalog.document(name)

    def document_by_id(self, id: str) -> DocumentRow | None:
        """The document with exactly this id, or None."""
        return self._catalog.document_by_id(id)

    def rename_source(self, id: str, source: str) -> None:
        """Say that a document now stands at `source`; another document there is removed."""
        with self._writing():
            files.delete_segments(self._segments, self._catalog.rename_source(id, source))

    def begin_document(
        self, *, id: str, title: str, source: str, media_type: str
    ) -> DocumentWriter:
        """Start or resume reading a document, holding the writer's lock until it is closed.

        Raises LockTimeout, and StoreError when the document is in the library already.
        """
        from drt_engine.store.writer import DocumentWriter

        layout = self._required_layout()
        self._acquire()
        try:
            writer = DocumentWriter(self._catalog, self._segments, layout=layout, lock=self._lock)
            return writer.begin(id, title, source=source, media_type=media_type)
        except BaseException:
            self._lock.release()
            raise

    def remove_document(self, id: str) -> None:
        """Remove a document, partial ones too, and its files; NotFound, LockTimeout."""
        with self._writing():
            files.delete_segments(self._segments, self._catalog.remove(id))

    # chunks

    def chunk_ids(self, documents: Sequence[str] | None = None) -> list[int]:
        """Ids of all chunks of ready documents, in (document, ordinal) order."""
        rows = self._catalog.segments(documents)
        return [row.first_chunk + i for row in rows for i in range(row.chunks)]

    def scan_landmarks(
        self, documents: Sequence[str] | None = None
    ) -> Iterator[tuple[list[int], Tensor]]:
        """Chunk ids and their landmarks [n, E] fp16, in (document, ordinal) order.

        A full segment comes as a view of the mapped file (never write to it); small ones are
        joined, up to about a thousand chunks at a time. Raises CorruptStore.
        """
        rows = self._catalog.segments(documents)
        return self._opened_reader().scan(rows, self._is_gone) if rows else iter(())

    def read_chunks(self, chunk_ids: Sequence[int]) -> ChunkBatch:
        """Chunks in the order asked for, verified, as float32; CorruptStore, StoreError."""
        places = [self._segment_place(chunk_id) for chunk_id in chunk_ids]
        try:
            return self._opened_reader().read(places)
        except CorruptStore:
            for chunk_id in chunk_ids:
                if self._catalog.segment_of(chunk_id) is None:
                    raise gone(chunk_id) from None
            raise

    def chunk_rows(self, chunk_ids: Sequence[int]) -> list[ChunkRow]:
        """Texts and places of chunks, in the order asked for; StoreError when one is gone."""
        return self._catalog.chunk_rows(chunk_ids)

    def neighbours(self, chunk_id: int) -> tuple[int | None, int | None]:
        """Previous and next chunk of the same document."""
        return self._catalog.neighbours(chunk_id)

    def search_text(
        self, query: str, *, documents: Sequence[str] | None = None, limit: int = 50
    ) -> list[tuple[int, float]]:
        """(chunk id, BM25 score) of chunks with any of the query's words, best first."""
        return search.search_text(self._catalog, query, documents=documents, limit=limit)

    # text

    def text(self, document_id: str, start: int, end: int) -> str:
        """The slice [start:end] of a document's text."""
        return self._catalog.text(document_id, start, end)

    def iter_text(self, document_id: str) -> Iterator[str]:
        """A document's text in pieces; StoreError when it is removed meanwhile."""
        for ordinals in self._catalog.text_blocks(document_id):
            yield self._catalog.text_block(document_id, ordinals)

    def place(self, document_id: str, start: int) -> tuple[int | None, str | None]:
        """Page and section of the character at `start`."""
        return self._catalog.place(document_id, start)

    # sessions

    def save_session(
        self, name: str, *, transcript: list[dict[str, Any]], meta: dict[str, Any], state: bytes
    ) -> None:
        """Write or overwrite a session."""
        self._sessions.save(name, transcript=transcript, meta=meta, state=state)

    def load_session(self, name: str) -> SessionRow:
        """A session in full; NotFound."""
        return self._sessions.load(name)

    def sessions(self) -> list[SessionInfo]:
        """All sessions, the one saved last first."""
        return self._sessions.infos()

    def rename_session(self, name: str, new_name: str) -> None:
        """Rename a session; NotFound, or SessionError when the new name is taken."""
        self._sessions.rename(name, new_name)

    def delete_session(self, name: str) -> None:
        """Delete a session; NotFound."""
        self._sessions.delete(name)

    # the whole

    def stats(self) -> dict[str, Any]:
        """Counts, sizes in bytes, and what the library was made with."""
        totals: dict[str, Any] = self._catalog.totals()
        with files.file_errors(self.path):
            catalog_bytes = files.folder_bytes(self.path)
            segment_bytes = files.folder_bytes(self._segments)
        total = catalog_bytes + segment_bytes
        layout = self.layout
        return {
            "path": str(self.path),
            **totals,
            "catalog_bytes": catalog_bytes,
            "segment_bytes": segment_bytes,
            "bytes_per_token": total / totals["tokens"] if totals["tokens"] else None,
            "fingerprint": self.fingerprint,
            "model": self.get_setting("model"),
            "created": self.get_setting("created"),
            "layout": None if layout is None else dataclasses.asdict(layout),
        }

    def check(self) -> list[Finding]:
        """Everything that is wrong, every chunk's checksum included; empty when all is well."""
        try:
            layout = self.layout
        except CorruptStore as error:
            return [Finding("catalog", files.CATALOG_NAME, str(error))]
        return check.check_library(self._catalog, self._segments, layout=layout)

    # inside

    def _bind(self, fingerprint: str | None, layout: RecordLayout | None, *, create: bool) -> None:
        if create and self.get_setting("created") is None:
            self.set_setting("created", now())
        if fingerprint is None:
            return
        known = self.fingerprint
        if known is None and create and layout is not None:
            self._claim(fingerprint, layout)
            known = self.fingerprint
        if known is not None and known != fingerprint:
            raise FingerprintMismatch(self._mismatch(f"fingerprint {known}", fingerprint))
        if layout is not None and known is not None and self.layout != layout:
            raise FingerprintMismatch(self._mismatch(str(self.layout), str(layout)))

    def _claim(self, fingerprint: str, layout: RecordLayout) -> None:
        # looked up again inside: of two processes that open a new library, the first one wins
        values = {"fingerprint": fingerprint, "layout": json.dumps(dataclasses.asdict(layout))}
        with self._database.transaction() as connection:
            if (
                connection.execute("SELECT 1 FROM settings WHERE key = 'fingerprint'").fetchone()
                is None
            ):
                connection.executemany("INSERT INTO settings VALUES (?, ?)", values.items())

    def _mismatch(self, known: str, wanted: str) -> str:
        model = self.get_setting("model")
        by = f"model {model} ({known})" if model else known
        return (
            f"the library at {self.path} was made with {by}, this model has {wanted}: use the model"
            " it was made with, or read the documents again into another library with"
            " `drt --library DIR ingest PATH...`"
        )

    def _required_layout(self) -> RecordLayout:
        layout = self.layout
        if layout is None:
            raise StoreError(
                f"the library at {self.path} was opened without a model: open it with one to read"
                " documents"
            )
        return layout

    def _opened_reader(self) -> SegmentReader:
        if self._reader is None:
            from drt_engine.store.reader import SegmentReader

            self._reader = SegmentReader(self._segments, self._required_layout())
        return self._reader

    def _segment_place(self, chunk_id: int) -> tuple[SegmentRow, int]:
        row = self._catalog.segment_of(chunk_id)
        if row is None:
            raise gone(chunk_id)
        return row, chunk_id - row.first_chunk

    def _is_gone(self, row: SegmentRow) -> bool:
        return not self._catalog.has_segment(row.name)

    def _acquire(self) -> None:
        with files.file_errors(self.path):
            self._lock.acquire()
            try:
                if not self._orphans_cleared:
                    files.clear_orphans(self._segments, self._catalog.segment_names())
                    self._orphans_cleared = True
            except BaseException:
                self._lock.release()
                raise

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        self._acquire()
        try:
            yield
        finally:
            self._lock.release()


def _prepare_folder(path: Path, *, create: bool) -> None:
    """Make or accept a library's folder; StoreError for anything else."""
    catalog = path / files.CATALOG_NAME
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path} is a file, not a library: name a folder")
    if not catalog.exists():
        _accept_new(path, create=create)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    (path / files.SEGMENTS_NAME).mkdir(mode=0o700, exist_ok=True)


def _accept_new(path: Path, *, create: bool) -> None:
    names = set(os.listdir(path)) if path.exists() else set()
    segments = path / files.SEGMENTS_NAME
    if files.SEGMENTS_NAME in names and segments.is_dir() and any(segments.iterdir()):
        raise CorruptStore(
            f"the library at {path} has lost its {files.CATALOG_NAME}: restore it from a copy, or"
            " read the documents into a new library"
        )
    if names - {files.SEGMENTS_NAME, files.LOCK_NAME}:
        raise StoreError(
            f"{path} is neither empty nor a library: choose another folder with --library"
        )
    if not create:
        raise StoreError(
            f"there is no library at {path}: read a document into it first with `drt ingest PATH`"
        )
