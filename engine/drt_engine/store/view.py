"""What can be read of a library: documents, chunk memory, search, texts and sessions.

The same for the library as it goes on and for a snapshot of one moment. Imports torch only when
tensors are asked for. Knows nothing of models, files to read, or prompts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from drt_engine.errors import ConfigError, CorruptStore, FingerprintMismatch, StoreError
from drt_engine.results import Finding, FoundTurn, SessionInfo
from drt_engine.store.catalogue import search
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.catalogue.chunk_rows import Texts, missing_chunk
from drt_engine.store.catalogue.database import Database
from drt_engine.store.catalogue.document_rows import VOCABULARY
from drt_engine.store.filesystem import library_folder
from drt_engine.store.index.probe import LandmarkIndex
from drt_engine.store.lookup import Lookup
from drt_engine.store.segments.format import SegmentHeader
from drt_engine.store.segments.records import copied_segment
from drt_engine.store.sessions import Sessions
from drt_engine.store.types import (
    ChunkBatch,
    ChunkRow,
    ChunkText,
    DocumentRow,
    RecordLayout,
    SegmentRow,
    SessionRow,
    TokenBatch,
)
from drt_engine.store.upkeep import check

if TYPE_CHECKING:
    from torch import Tensor

    from drt_engine.store.segments.reader import SegmentReader
    from drt_kernels.scan import Landmarks


Batch = TypeVar("Batch", ChunkBatch, TokenBatch)


class Memory:
    """The reader of segment files, made on first use and shared by a library and its snapshots."""

    def __init__(self, folder: library_folder.Folder) -> None:
        self._folder = folder
        self._reader: SegmentReader | None = None
        self._guard = threading.Lock()

    def reader(self, layout: RecordLayout) -> SegmentReader:
        with self._guard:
            if self._reader is None:
                from drt_engine.store.segments.reader import SegmentReader

                self._reader = SegmentReader(self._folder, layout)
            return self._reader

    def drop_deleted(self) -> None:
        """Close files that were deleted."""
        with self._guard:
            if self._reader is not None:
                self._reader.drop_deleted()

    def close(self) -> None:
        """Close all files; tensors that were handed out stay valid."""
        with self._guard:
            self._reader = None


class LibraryView:
    """A library as it is read."""

    def __init__(
        self,
        folder: library_folder.Folder,
        database: Database,
        memory: Memory,
        *,
        vocabulary: int | None = None,
    ) -> None:
        self._folder = folder
        self._database = database
        self._memory = memory
        self._catalog = Catalog(database)
        self._texts = Texts(self._catalog)
        self._sessions = Sessions(database)
        self._bound: str | None = None  # the fingerprint that it was opened for
        self._bound_vocabulary = vocabulary  # of the model that it was opened for

    @property
    def path(self) -> Path:
        """The library's folder."""
        return self._folder.path

    @property
    def catalog(self) -> Catalog:
        """The rows that the library is made of."""
        return self._catalog

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[LibraryView]:
        """Yield the library as it is now, until the block ends, whatever writers do.

        Raises LockTimeout while another process deletes files for longer than the lock's timeout.
        """
        with (
            library_folder.file_errors(self.path),
            self._folder.readers.shared(),
            self._database.snapshot() as frozen,
        ):
            self._memory.drop_deleted()
            view = LibrarySnapshot(
                self._folder, frozen, self._memory, vocabulary=self._bound_vocabulary
            )
            if self._bound is not None and view.fingerprint != self._bound:
                raise FingerprintMismatch(
                    f"the library at {self.path} was rebuilt for another model meanwhile: open it"
                    " again"
                )
            yield view

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

    @property
    def vocabulary(self) -> int | None:
        """How many token ids the library's model has; None where nobody has told."""
        value = self.get_setting(VOCABULARY)
        if value is not None and not (value.isdecimal() and len(value) < 12):
            raise CorruptStore(
                f"the vocabulary setting of the library at {self.path} is damaged ({value!r:.40}):"
                " read the documents into a new library"
            )
        sizes = (self._bound_vocabulary, None if value is None else int(value))
        return min((number for number in sizes if number is not None), default=None)

    def get_setting(self, key: str) -> str | None:
        """Return a setting's text, or None."""
        return self._catalog.get_setting(key)

    # documents

    def documents(self) -> list[DocumentRow]:
        """Return documents read in full, oldest first."""
        return self._catalog.documents()

    def partial_documents(self) -> list[DocumentRow]:
        """Return documents whose reading was interrupted, with what they have so far."""
        return self._catalog.documents(state="partial")

    def document(self, name: str) -> DocumentRow:
        """Return the document with this id, source, title, file name or beginning of an id.

        Raises NotFound with the nearest names, or with the ids when several fit.
        """
        return self._catalog.document(name)

    def document_by_id(self, document_id: str) -> DocumentRow | None:
        """Return the document with exactly this id, or None."""
        return self._catalog.document_by_id(document_id)

    def documents_by_id(self, ids: Sequence[str]) -> list[DocumentRow]:
        """Return those of these documents that are there, oldest first."""
        return self._catalog.documents_by_id(ids) if ids else []

    def has_documents(self) -> bool:
        """Return whether there is a document read in full."""
        return self._catalog.has_documents()

    def count_documents(self) -> int:
        """Return how many documents are read in full."""
        return self._catalog.count_documents()

    def document_at(self, source: str) -> DocumentRow | None:
        """Return the document with exactly this source, or None."""
        return self._catalog.document_at(source)

    def source_digest(self, path: str) -> tuple[str, str] | None:
        """Return the digest of a file's bytes when it was read, and the document id it gave."""
        return self._catalog.source_digest(path)

    def copies(self, document_id: str) -> list[str]:
        """Return the paths, other than a document's source, at which its text was read."""
        return self._catalog.copies(document_id)

    def documents_of_copy(self, name: str) -> list[DocumentRow]:
        """Return documents of whose text another file with this path or file name was read."""
        return self._catalog.documents_of_copy(name)

    # chunks

    def chunk_ids(
        self, documents: Sequence[str] | None = None, *, partial: bool = False
    ) -> list[int]:
        """Return the ids of all chunks of documents, in (document, ordinal) order.

        Of documents read in full, or of those whose reading was interrupted.
        """
        rows = self._catalog.segments(documents, state="partial" if partial else "ready")
        return [row.first_chunk + i for row in rows for i in range(row.chunks)]

    def scan_landmarks(
        self, documents: Sequence[str] | None = None
    ) -> Iterator[tuple[Sequence[int], Tensor]]:
        """Return chunk ids and their landmarks [n, E] fp16, some thousand at a time.

        Ids that count up are a range. In (document, ordinal) order when documents are named.
        Tensors may be views of mapped files: never write to them. Every landmark was verified.
        Raises CorruptStore.
        """
        return ((ids, part.rows) for ids, part in self._scan(documents))

    def scan_coded_landmarks(
        self, documents: Sequence[str] | None = None
    ) -> Iterator[tuple[Sequence[int], Landmarks]]:
        """Scan like ``scan_landmarks``, building int8 codes incrementally for repeated queries.

        Each time some more landmarks come with codes, which are kept in memory.
        """
        return self._scan(documents, code=True)

    def _scan(
        self, documents: Sequence[str] | None, *, code: bool = False
    ) -> Iterator[tuple[Sequence[int], Landmarks]]:
        landmark_files = {row.id: row for row in self._catalog.landmark_files()}
        if documents is None:
            whole_files, rows = list(landmark_files.values()), self._catalog.loose_segments()
        else:
            whole_files, rows = [], self._catalog.segments(documents)
        if not whole_files and not rows:
            return
        reader = self._opened_reader()
        reader.keep_landmark_files(landmark_files.values())
        if documents is None:
            reader.keep_copies(rows)
        for landmark_file in whole_files:
            yield from reader.scan_landmark_file(
                landmark_file, self._catalog.landmark_runs, code=code
            )
        yield from reader.scan(rows, self._is_gone, landmark_files=landmark_files)

    @property
    def index(self) -> LandmarkIndex:
        """The approximate index, which may be missing, and what a scan with it needs."""
        return LandmarkIndex(
            self._catalog,
            self.fingerprint,
            reader=self._opened_reader,
            scan=self.scan_coded_landmarks,
        )

    def read_chunks(self, chunk_ids: Sequence[int]) -> ChunkBatch:
        """Return chunks in the order asked for, verified, as float32; CorruptStore, StoreError."""
        places = self._segment_places(chunk_ids)
        try:
            return self._expect_ids(self._opened_reader().read(places), places)
        except CorruptStore:
            for chunk_id in chunk_ids:
                if self._catalog.segment_of(chunk_id) is None:
                    raise missing_chunk(chunk_id) from None
            raise

    def read_tokens(self, chunk_ids: Sequence[int]) -> TokenBatch:
        """Return the tokens of chunks in the order asked for, verified, without their memory.

        Raises CorruptStore.
        """
        places = self._segment_places(chunk_ids)
        return self._expect_ids(self._opened_reader().tokens(places), places)

    def chunk_rows(self, chunk_ids: Sequence[int]) -> list[ChunkRow]:
        """Return texts and places of chunks, in the order asked for.

        Raises StoreError when one is gone.
        """
        return self._texts.chunk_rows(chunk_ids)

    def neighbours_of(self, chunk_ids: Sequence[int]) -> dict[int, tuple[int | None, int | None]]:
        """Return the previous and next chunk of each chunk in its document, by chunk id.

        Raises ``StoreError`` when a chunk is gone.
        """
        return self._texts.neighbours_of(chunk_ids)

    def search_text(
        self,
        query: str,
        *,
        documents: Sequence[str] | None = None,
        chunks: Collection[int] | None = None,
        limit: int = 50,
    ) -> list[tuple[int, float]]:
        """Return (chunk id, BM25 score) of chunks with any of the query's words, best first.

        Only of some documents, and only these chunks, where they are given.
        """
        return search.search_text(
            self._catalog, query, documents=documents, chunks=chunks, limit=limit
        )

    def holds_words(self, query: str, *, documents: Sequence[str] | None = None) -> bool:
        """Return whether a chunk, of some documents where they are given, has a query's words."""
        return search.holds_words(self._catalog, query, documents)

    def looked_up(self, lookup: Lookup) -> LibraryView:  # noqa: ARG002  only remote shards need it
        """Return a view whose text search and landmark scan are those of one retrieval."""
        return self

    # text

    def text(self, document_id: str, start: int, end: int) -> str:
        """Return the slice [start:end] of a document's text."""
        return self._texts.text(document_id, start, end)

    def iter_text(self, document_id: str) -> Iterator[str]:
        """Yield a document's text in pieces; StoreError when it is removed meanwhile."""
        for chunks in self.iter_chunk_texts(document_id):
            yield "".join(chunk.text for chunk in chunks)

    def iter_chunk_texts(self, document_id: str) -> Iterator[list[ChunkText]]:
        """Yield a document's chunks' texts with their places, some hundred at a time."""
        for ordinals in self._texts.blocks(document_id):
            yield self.chunk_texts(document_id, ordinals)

    def chunk_texts(self, document_id: str, ordinals: range) -> list[ChunkText]:
        """Return the texts of consecutive chunks; StoreError when they are gone meanwhile."""
        return self._texts.block(document_id, ordinals)

    def chunk_token_counts(self, document_id: str, ordinals: range) -> list[int]:
        """Return how many tokens each of some consecutive chunks has."""
        return self._texts.tokens(document_id, ordinals)

    def segment_bytes(self, document_id: str, ordinals: range) -> bytearray:
        """Return consecutive chunks as the bytes of one segment file; CorruptStore."""
        header = SegmentHeader(self._required_layout(), document_id, ordinals.start, len(ordinals))
        data = copied_segment(self._folder, self._catalog.segments([document_id]), header)
        if data is None:
            raise CorruptStore(
                f"document {document_id} has no segments for {ordinals}: run `drt library check`"
            )
        return data

    def text_digest(self, document_id: str) -> str:
        """Return the SHA-256 of a document's text, of which its id should be the beginning."""
        return self._texts.hash_of(document_id).digest

    def place(self, document_id: str, start: int) -> tuple[int | None, str | None]:
        """Return page and section of the character at ``start``."""
        return self._texts.place(document_id, start)

    def places(self, document_id: str) -> list[tuple[int, int | None, str | None]]:
        """Return where a document's page or section changes: (start, page, section), in order."""
        return self._texts.places(document_id)

    def placed_parts(
        self, document_ids: Sequence[str]
    ) -> Iterator[tuple[str, int, int, int | None, str | None]]:
        """Yield parts of documents with one page and section: (id, start, end, page, section)."""
        return self._texts.placed_parts(document_ids)

    def chunk_ids_between(self, document_id: str, start: int, end: int) -> list[int]:
        """Return the ids of the chunks that have characters ``start:end`` of a document."""
        return self._texts.chunk_ids_between(document_id, start, end)

    def origins(
        self, document_id: str, start: int = 0, end: int | None = None
    ) -> list[tuple[int, str]]:
        """Return the map from a document's text, or a part of it, to its file: (start, anchors)."""
        return self._texts.origins(document_id, start, end)

    def blocks(
        self, document_id: str, start: int = 0, end: int | None = None
    ) -> list[tuple[int, str]]:
        """Return a document's block tree, or that of a part of it, in groups: (start, nodes)."""
        return self._texts.tree(document_id, start, end)

    # sessions

    def load_session(self, name: str) -> SessionRow:
        """Return a session in full; NotFound, or CorruptStore for a damaged one."""
        return self._sessions.load(name)

    def sessions(self) -> list[SessionInfo]:
        """Return all sessions, the one saved last first."""
        return self._sessions.infos()

    def search_sessions(self, words: Sequence[str]) -> list[FoundTurn]:
        """Return turns of saved sessions that hold all the words, in any case, newest first."""
        return self._sessions.search(words)

    # the whole

    def stats(self) -> dict[str, Any]:
        """Return counts, sizes in bytes, and what the library was made with."""
        totals: dict[str, Any] = self._catalog.totals()
        with library_folder.file_errors(self.path):
            catalog_bytes = library_folder.folder_bytes(self.path)
            segment_bytes = library_folder.folder_bytes(self._folder.segments)
            removed_bytes = library_folder.removed_bytes(self.path)
        total = catalog_bytes + segment_bytes
        layout = self.layout
        return {
            "path": str(self.path),
            **totals,
            "catalog_bytes": catalog_bytes,
            "segment_bytes": segment_bytes,
            "removed_bytes": removed_bytes,
            "bytes_per_token": total / totals["tokens"] if totals["tokens"] else None,
            "fingerprint": self.fingerprint,
            "model": self.get_setting("model"),
            "created": self.get_setting("created"),
            "layout": None if layout is None else dataclasses.asdict(layout),
        }

    def file_names(self) -> set[str]:
        """Return the names of all segment and landmark files that are in use."""
        return self._catalog.file_names()

    def check_contents(
        self, *, layout: RecordLayout | None, vocabulary: int | None
    ) -> list[Finding]:
        """Return what is wrong with rows and files, every chunk's checksum included."""
        return check.check_library(
            self._catalog, self._folder, layout=layout, vocabulary=vocabulary
        )

    # inside

    def _required_layout(self) -> RecordLayout:
        layout = self.layout
        if layout is None:
            raise StoreError(
                f"the library at {self.path} was opened without a model: open it with one to read"
                " documents"
            )
        return layout

    def _opened_reader(self) -> SegmentReader:
        return self._memory.reader(self._required_layout())

    def _expect_ids(self, batch: Batch, places: Sequence[tuple[SegmentRow, int]]) -> Batch:
        """Raise CorruptStore for token ids that the model has not, which archives may bring."""
        limit = self._bound_vocabulary
        if limit is None or not batch.ids.numel():
            return batch
        largest_ids = batch.ids.amax(dim=1)
        for (row, index), number in zip(places, largest_ids.tolist(), strict=True):
            if number >= limit:
                raise CorruptStore(
                    f"chunk {row.first_ordinal + index} of document {row.document_id} has the"
                    f" token id {number}, expected less than {limit}: repair it with"
                    " `drt library check --repair`, or remove the document and read it again"
                )
        return batch

    def _segment_places(self, chunk_ids: Sequence[int]) -> list[tuple[SegmentRow, int]]:
        """Return the segment of each chunk and its number there, looked up all at once."""
        segments = self._catalog.segments_of(chunk_ids)
        for chunk_id in chunk_ids:
            if chunk_id not in segments:
                raise missing_chunk(chunk_id)
        return [(segments[c], c - segments[c].first_chunk) for c in chunk_ids]

    def _is_gone(self, row: SegmentRow) -> bool:
        return not self._catalog.has_segment(row.name)


class LibrarySnapshot(LibraryView):
    """A library at one moment; everything in it stays readable until its block ends."""

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[LibraryView]:
        """Yield itself."""
        yield self
