"""Several libraries read as one: the same documents, chunks and scores as in one that holds all.

The order is that of a library which had read the documents of the first shard, then those of the
second that are new, and so on: equal scores are then in the same order, too. Whoever asks, searches
or summarises does not see the difference.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from drt_engine.errors import StoreError
from drt_engine.results import Finding, FoundTurn, SessionInfo
from drt_engine.store.catalogue.document_rows import document_named
from drt_engine.store.catalogue.search import best_chunks, last_chunk
from drt_engine.store.federation.bm25 import FederatedIndex
from drt_engine.store.federation.chunks import neighbours_of_chunks, read_batch, rows_of_chunks
from drt_engine.store.federation.documents import (
    expect_documents,
    read_documents,
    shard_of_document,
    shards_of_documents,
    total_stats,
)
from drt_engine.store.federation.index import FederatedLandmarkIndex
from drt_engine.store.federation.membership import Membership
from drt_engine.store.federation.shard import Shard
from drt_engine.store.index.probe import LandmarkIndex
from drt_engine.store.lookup import Lookup
from drt_engine.store.types import (
    ChunkBatch,
    ChunkRow,
    ChunkText,
    DocumentRow,
    RecordLayout,
    SessionRow,
    TokenBatch,
)
from drt_engine.store.view import LibraryView

if TYPE_CHECKING:
    from torch import Tensor

    from drt_kernels.scan import Landmarks

Value = TypeVar("Value")


def numbered_shards(views: Sequence[tuple[Path, LibraryView]], members: Membership) -> list[Shard]:
    """Return libraries, given in order, as shards: chunk ids and duplicates are told apart."""
    shards = [Shard(path, view) for path, view in views]
    catalogs = {}
    last: list[int] = []
    for shard in shards:
        with shard.reading() as view:
            catalogs[shard.path] = view.catalog
            last.append(last_chunk(view.catalog))
    excluded = members.excluded(catalogs)
    firsts = accumulate(last, initial=0)
    return [
        replace(shard, first=first, excluded=out)
        for shard, first, out in zip(shards, firsts, excluded, strict=False)
    ]


class FederatedView(LibraryView):
    """Several libraries as they are read at one moment.

    ``home`` is the library that keeps the conversations, ``None`` where it cannot be read.
    """

    def __init__(self, path: Path, shards: Sequence[Shard], home: LibraryView | None) -> None:
        # Without the rows and files of one library: every method of the base class is replaced.
        self._path = path
        self._shards = shards
        self._home = home

    @property
    def shards(self) -> Sequence[Shard]:
        """The libraries, in order."""
        return self._shards

    @property
    def path(self) -> Path:
        """The list file, or the first library's folder."""
        return self._path

    @property
    def catalog(self) -> Any:
        """Raise: there is no one catalogue."""
        raise StoreError(f"{self.path} is several libraries: name one of them")

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[LibraryView]:
        """Yield itself."""
        yield self

    # settings

    @property
    def fingerprint(self) -> str | None:
        """The model whose chunk memory the libraries hold; None before the first reading."""
        return self._first(lambda view: view.fingerprint)

    @property
    def layout(self) -> RecordLayout | None:
        """The record layout of all chunks; None before the first reading."""
        return self._first(lambda view: view.layout)

    @property
    def vocabulary(self) -> int | None:
        """How many token ids the libraries' model has; None where nobody has told."""
        sizes = self._each(lambda view: view.vocabulary)
        return min((size for size in sizes if size is not None), default=None)

    def get_setting(self, key: str) -> str | None:
        """Return the text of a setting in the first library that has it, or None."""
        return self._first(lambda view: view.get_setting(key))

    # documents

    def documents(self) -> list[DocumentRow]:
        """Return documents read in full, by library, oldest first."""
        return read_documents(self.shards)

    def partial_documents(self) -> list[DocumentRow]:
        """Return documents whose reading was interrupted, with what they have so far."""
        return [row for shard in self.shards for row in shard.documents(partial=True)]

    def document(self, name: str) -> DocumentRow:
        """Return the document with this id, source, title, file name or beginning of an id.

        Raises NotFound with the nearest names, or with the ids when several fit.
        """
        return self.document_by_id(name) or document_named(
            name, self.documents(), self.documents_of_copy
        )

    def document_by_id(self, document_id: str) -> DocumentRow | None:
        """Return the document with exactly this id, or None."""
        return next(iter(self.documents_by_id([document_id])), None)

    def documents_by_id(self, ids: Sequence[str]) -> list[DocumentRow]:
        """Return those of these documents that are there, by library, oldest first."""
        return read_documents(self.shards, ids) if ids else []

    def has_documents(self) -> bool:
        """Return whether there is a document read in full."""
        return any(self._each(lambda view: view.has_documents()))

    def count_documents(self) -> int:
        """Return how many documents are read in full; one of several libraries counts in each."""
        return sum(self._each(lambda view: view.count_documents()))

    def document_at(self, source: str) -> DocumentRow | None:
        """Return a document with exactly this source, or None."""
        return self._first(lambda view: view.document_at(source))

    def source_digest(self, path: str) -> tuple[str, str] | None:
        """Return the digest of a file's bytes when it was read, and the document id it gave."""
        return self._first(lambda view: view.source_digest(path))

    def copies(self, document_id: str) -> list[str]:
        """Return the paths, other than a document's source, at which its text was read."""
        return sorted(
            {path for paths in self._each(lambda v: v.copies(document_id)) for path in paths}
        )

    def documents_of_copy(self, name: str) -> list[DocumentRow]:
        """Return documents of whose text another file with this path or file name was read."""
        rows = [row for each in self._each(lambda v: v.documents_of_copy(name)) for row in each]
        return list({row.id: row for row in rows}.values())

    def library_of(self, document_id: str) -> Path:
        """Return the folder of the library that a document is read from."""
        return shard_of_document(self.shards, document_id).path

    # chunks

    def chunk_ids(
        self, documents: Sequence[str] | None = None, *, partial: bool = False
    ) -> list[int]:
        """Return the ids of all chunks of documents, in (library, document, ordinal) order.

        Of documents read in full, or of those whose reading was interrupted.
        """
        ids: list[int] = []
        for shard, document_ids in shards_of_documents(self.shards, documents, partial=partial):
            with shard.reading() as view:
                ids += shard.numbered(view.chunk_ids(document_ids, partial=partial))
        return ids

    def scan_landmarks(
        self, documents: Sequence[str] | None = None
    ) -> Iterator[tuple[Sequence[int], Tensor]]:
        """Return chunk ids and their landmarks [n, E] fp16, some thousand at a time."""
        for shard, document_ids in shards_of_documents(self.shards, documents):
            yield from shard.parts(lambda view, ids: view.scan_landmarks(ids), document_ids)

    def scan_coded_landmarks(
        self, documents: Sequence[str] | None = None
    ) -> Iterator[tuple[Sequence[int], Landmarks]]:
        """Scan like ``scan_landmarks``, building int8 codes incrementally for repeated queries."""
        for shard, document_ids in shards_of_documents(self.shards, documents):
            yield from shard.parts(lambda view, ids: view.scan_coded_landmarks(ids), document_ids)

    @property
    def index(self) -> LandmarkIndex:
        """The libraries' approximate indexes, of which some may be missing."""
        return FederatedLandmarkIndex(self.shards)

    def read_chunks(self, chunk_ids: Sequence[int]) -> ChunkBatch:
        """Return chunks in the order asked for, verified, as float32; ``LibraryUnavailable``."""
        return read_batch(self.shards, chunk_ids, lambda view, ids: view.read_chunks(ids))

    def read_tokens(self, chunk_ids: Sequence[int]) -> TokenBatch:
        """Return the tokens of chunks in the order asked for, verified, without their memory."""
        return read_batch(self.shards, chunk_ids, lambda view, ids: view.read_tokens(ids))

    def chunk_rows(self, chunk_ids: Sequence[int]) -> list[ChunkRow]:
        """Return texts and places of chunks, in the order asked for."""
        return rows_of_chunks(self.shards, chunk_ids)

    def neighbours_of(self, chunk_ids: Sequence[int]) -> dict[int, tuple[int | None, int | None]]:
        """Return the previous and next chunk of each chunk in its document, by chunk id."""
        return neighbours_of_chunks(self.shards, chunk_ids)

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
        shards = self.shards
        expect_documents(shards, documents or ())
        indexes = [shard.index(documents, chunks) for shard in shards]
        return best_chunks(FederatedIndex(indexes), query, limit)

    def holds_words(self, query: str, *, documents: Sequence[str] | None = None) -> bool:
        """Return whether a chunk, of some documents where they are given, has a query's words."""
        for shard, shard_document_ids in shards_of_documents(self.shards, documents):
            with shard.reading() as view:
                if view.holds_words(query, documents=shard_document_ids):
                    return True
        return False

    def looked_up(self, lookup: Lookup) -> LibraryView:  # noqa: ARG002  its shards are not remote
        """Return itself."""
        return self

    # text

    def text(self, document_id: str, start: int, end: int) -> str:
        """Return the slice [start:end] of a document's text."""
        return self._of(document_id, lambda view: view.text(document_id, start, end))

    def iter_text(self, document_id: str) -> Iterator[str]:
        """Yield a document's text in pieces."""
        for chunks in self.iter_chunk_texts(document_id):
            yield "".join(chunk.text for chunk in chunks)

    def iter_chunk_texts(self, document_id: str) -> Iterator[list[ChunkText]]:
        """Yield a document's chunks' texts with their places, some hundred at a time."""
        shard = shard_of_document(self.shards, document_id)
        with shard.reading() as view:
            blocks = view.iter_chunk_texts(document_id)
        while True:
            with shard.reading():
                block = next(blocks, None)
            if block is None:
                return
            yield block

    def chunk_texts(self, document_id: str, ordinals: range) -> list[ChunkText]:
        """Return the texts of consecutive chunks."""
        return self._of(document_id, lambda view: view.chunk_texts(document_id, ordinals))

    def chunk_token_counts(self, document_id: str, ordinals: range) -> list[int]:
        """Return how many tokens each of some consecutive chunks has."""
        return self._of(document_id, lambda view: view.chunk_token_counts(document_id, ordinals))

    def segment_bytes(self, document_id: str, ordinals: range) -> bytearray:
        """Return consecutive chunks as the bytes of one segment file."""
        return self._of(document_id, lambda view: view.segment_bytes(document_id, ordinals))

    def text_digest(self, document_id: str) -> str:
        """Return the SHA-256 of a document's text, of which its id should be the beginning."""
        return self._of(document_id, lambda view: view.text_digest(document_id))

    def place(self, document_id: str, start: int) -> tuple[int | None, str | None]:
        """Return page and section of the character at ``start``."""
        return self._of(document_id, lambda view: view.place(document_id, start))

    def places(self, document_id: str) -> list[tuple[int, int | None, str | None]]:
        """Return where a document's page or section changes: (start, page, section), in order."""
        return self._of(document_id, lambda view: view.places(document_id))

    def placed_parts(
        self, document_ids: Sequence[str]
    ) -> Iterator[tuple[str, int, int, int | None, str | None]]:
        """Yield parts of documents with one page and section: (id, start, end, page, section)."""
        for shard in self.shards:
            shard_document_ids = [row.id for row in shard.documents(document_ids)]
            with shard.reading() as view:
                parts = list(view.placed_parts(shard_document_ids))
            yield from parts

    def chunk_ids_between(self, document_id: str, start: int, end: int) -> list[int]:
        """Return the ids of the chunks that have characters ``start:end`` of a document."""
        shard = shard_of_document(self.shards, document_id)
        with shard.reading() as view:
            return list(shard.numbered(view.chunk_ids_between(document_id, start, end)))

    def origins(
        self, document_id: str, start: int = 0, end: int | None = None
    ) -> list[tuple[int, str]]:
        """Return the map from a document's text, or a part of it, to its file: (start, anchors)."""
        return self._of(document_id, lambda view: view.origins(document_id, start, end))

    def blocks(
        self, document_id: str, start: int = 0, end: int | None = None
    ) -> list[tuple[int, str]]:
        """Return a document's block tree, or that of a part of it, in groups: (start, nodes)."""
        return self._of(document_id, lambda view: view.blocks(document_id, start, end))

    # sessions

    def load_session(self, name: str) -> SessionRow:
        """Return a session in full; NotFound, or CorruptStore for a damaged one."""
        return self._expected_home().load_session(name)

    def sessions(self) -> list[SessionInfo]:
        """Return all sessions, which the first library keeps, the one saved last first."""
        return self._expected_home().sessions()

    def search_sessions(self, words: Sequence[str]) -> list[FoundTurn]:
        """Return turns of saved sessions that hold all the words, in any case, newest first."""
        return self._expected_home().search_sessions(words)

    # the whole

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes of all libraries together, as of one; sessions are the first's.

        A document that several have is counted in each.
        """
        totals = total_stats(self._each(lambda view: view.stats()))
        return totals | {"path": str(self.path)}

    def file_names(self) -> set[str]:
        """Return the names of all segment and landmark files that are in use."""
        return {name for names in self._each(lambda view: view.file_names()) for name in names}

    def check_contents(
        self, *, layout: RecordLayout | None, vocabulary: int | None
    ) -> list[Finding]:
        """Return what is wrong with rows and files, every chunk's checksum included."""
        contents = self._each(
            lambda view: view.check_contents(layout=layout, vocabulary=vocabulary)
        )
        return [finding for findings in contents for finding in findings]

    # inside

    def _each(self, value_of: Callable[[LibraryView], Value]) -> Iterator[Value]:
        """Yield a value of each library."""
        for shard in self.shards:
            with shard.reading() as view:
                value = value_of(view)
            yield value

    def _first(self, value_of: Callable[[LibraryView], Value | None]) -> Value | None:
        """Return the value of the first library that has one."""
        return next((value for value in self._each(value_of) if value is not None), None)

    def _of(self, document_id: str, value_of: Callable[[LibraryView], Value]) -> Value:
        with shard_of_document(self.shards, document_id).reading() as view:
            return value_of(view)

    def _expected_home(self) -> LibraryView:
        if self._home is None:
            raise StoreError(
                f"conversations are kept in the first library of {self.path}, which cannot be read:"
                " name another first, or ask without a conversation"
            )
        return self._home
