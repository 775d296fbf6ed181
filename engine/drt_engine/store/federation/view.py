"""Several libraries read as one: the same documents, chunks and scores as in one that holds all.

The order is that of a library which had read the documents of the first shard, then those of the
second that are new, and so on: equal scores are then in the same order, too. Whoever asks, searches
or summarises does not see the difference.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from drt_engine.errors import StoreError
from drt_engine.results import Finding, FoundTurn, SessionInfo
from drt_engine.store.catalogue.document_rows import document_named, unknown_id
from drt_engine.store.catalogue.search import best_chunks, last_chunk
from drt_engine.store.federation.bm25 import FederatedIndex
from drt_engine.store.federation.membership import Membership
from drt_engine.store.federation.shard import Shard
from drt_engine.store.tags import checked_tags
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

Batch = TypeVar("Batch", ChunkBatch, TokenBatch)
Value = TypeVar("Value")
_COUNTS = (
    *("documents", "partial", "characters", "tokens", "chunks", "segments"),
    *("catalog_bytes", "segment_bytes"),
)


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
        return self._with_all_tags([row for shard in self.shards for row in shard.documents()])

    def partial_documents(self) -> list[DocumentRow]:
        """Return documents whose reading was interrupted, with what they have so far."""
        return [row for shard in self.shards for row in shard.documents(partial=True)]

    def document(self, name: str) -> DocumentRow:
        """Return the document with this id, source, title, file name or beginning of an id.

        Raises NotFound with the nearest names, or with the ids when several fit.
        """
        return self.document_by_id(name) or document_named(name, self.documents())

    def document_by_id(self, document_id: str) -> DocumentRow | None:
        """Return the document with exactly this id, or None."""
        return next(iter(self.documents_by_id([document_id])), None)

    def documents_by_id(self, ids: Sequence[str]) -> list[DocumentRow]:
        """Return those of these documents that are there, by library, oldest first."""
        if not ids:
            return []
        rows = [row for shard in self.shards for row in shard.documents(ids)]
        return self._with_all_tags(rows)

    def has_documents(self) -> bool:
        """Return whether there is a document read in full."""
        return any(self._each(lambda view: view.has_documents()))

    def document_at(self, source: str) -> DocumentRow | None:
        """Return a document with exactly this source, or None."""
        return self._first(lambda view: view.document_at(source))

    def source_digest(self, path: str) -> tuple[str, str] | None:
        """Return the digest of a file's bytes when it was read, and the document id it gave."""
        return self._first(lambda view: view.source_digest(path))

    def library_of(self, document_id: str) -> Path:
        """Return the folder of the library that a document is read from."""
        return self._owner(document_id).path

    # chunks

    def chunk_ids(
        self, documents: Sequence[str] | None = None, *, partial: bool = False
    ) -> list[int]:
        """Return the ids of all chunks of documents, in (library, document, ordinal) order.

        Of documents read in full, or of those whose reading was interrupted.
        """
        ids: list[int] = []
        for shard, own in self._restricted(documents, partial=partial):
            with shard.reading() as view:
                ids += shard.numbered(view.chunk_ids(own, partial=partial))
        return ids

    def scan_landmarks(
        self, documents: Sequence[str] | None = None
    ) -> Iterator[tuple[Sequence[int], Tensor]]:
        """Return chunk ids and their landmarks [n, E] fp16, some thousand at a time."""
        for shard, own in self._restricted(documents):
            yield from shard.parts(lambda view, ids: view.scan_landmarks(ids), own)

    def scan_coded_landmarks(
        self, documents: Sequence[str] | None = None
    ) -> Iterator[tuple[Sequence[int], Landmarks]]:
        """Scan like ``scan_landmarks``, building int8 codes incrementally for repeated queries."""
        for shard, own in self._restricted(documents):
            yield from shard.parts(lambda view, ids: view.scan_coded_landmarks(ids), own)

    def read_chunks(self, chunk_ids: Sequence[int]) -> ChunkBatch:
        """Return chunks in the order asked for, verified, as float32; ``LibraryUnavailable``."""
        return self._gathered(chunk_ids, lambda view, ids: view.read_chunks(ids))

    def read_tokens(self, chunk_ids: Sequence[int]) -> TokenBatch:
        """Return the tokens of chunks in the order asked for, verified, without their memory."""
        return self._gathered(chunk_ids, lambda view, ids: view.read_tokens(ids))

    def chunk_rows(self, chunk_ids: Sequence[int]) -> list[ChunkRow]:
        """Return texts and places of chunks, in the order asked for."""
        row_of_chunk: dict[int, ChunkRow] = {}
        for shard, ids in self._by_shard(chunk_ids):
            with shard.reading() as view:
                rows = view.chunk_rows(ids)
            row_of_chunk |= {
                row.id + shard.first: replace(row, id=row.id + shard.first) for row in rows
            }
        return [row_of_chunk[chunk_id] for chunk_id in chunk_ids]

    def neighbours_of(self, chunk_ids: Sequence[int]) -> dict[int, tuple[int | None, int | None]]:
        """Return the previous and next chunk of each chunk in its document, by chunk id."""
        neighbours: dict[int, tuple[int | None, int | None]] = {}
        for shard, ids in self._by_shard(chunk_ids):
            with shard.reading() as view:
                pairs = view.neighbours_of(ids)
            first = shard.first
            for chunk_id, (before, after) in pairs.items():
                neighbours[chunk_id + first] = (
                    None if before is None else before + first,
                    None if after is None else after + first,
                )
        return neighbours

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
        self._expect_known(documents)
        indexes = [shard.index(documents, chunks) for shard in self.shards]
        return best_chunks(FederatedIndex(indexes), query, limit)

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
        shard = self._owner(document_id)
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
            own = [row.id for row in shard.documents(document_ids)]
            with shard.reading() as view:
                parts = list(view.placed_parts(own))
            yield from parts

    def chunk_ids_between(self, document_id: str, start: int, end: int) -> list[int]:
        """Return the ids of the chunks that have characters ``start:end`` of a document."""
        shard = self._owner(document_id)
        with shard.reading() as view:
            return list(shard.numbered(view.chunk_ids_between(document_id, start, end)))

    def origins(
        self, document_id: str, start: int = 0, end: int | None = None
    ) -> list[tuple[int, str]]:
        """Return the map from a document's text, or a part of it, to its file: (start, anchors)."""
        return self._of(document_id, lambda view: view.origins(document_id, start, end))

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
        by_library = list(self._each(lambda view: view.stats()))
        totals = dict(by_library[0])
        for other in by_library[1:]:
            totals |= {name: totals[name] + other[name] for name in _COUNTS}
        size = totals["catalog_bytes"] + totals["segment_bytes"]
        totals["bytes_per_token"] = size / totals["tokens"] if totals["tokens"] else None
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

    def _owner(self, document_id: str) -> Shard:
        """Return the shard that a document is read from; NotFound."""
        for shard in self.shards:
            if shard.documents([document_id]):
                return shard
        raise unknown_id(document_id)

    def _of(self, document_id: str, value_of: Callable[[LibraryView], Value]) -> Value:
        with self._owner(document_id).reading() as view:
            return value_of(view)

    def _restricted(
        self, documents: Sequence[str] | None, *, partial: bool = False
    ) -> Iterator[tuple[Shard, list[str] | None]]:
        """Yield the shards that have some of the documents, with those, ``None`` for all."""
        if not partial:
            self._expect_known(documents)
        for shard in self.shards:
            own = shard.restricted(documents, partial=partial)
            if own is None or own:
                yield shard, own

    def _expect_known(self, documents: Sequence[str] | None) -> None:
        """Raise NotFound for a document that no library has, as one library does."""
        known = {row.id for row in self.documents_by_id(documents or ())}
        for document_id in documents or ():
            if document_id not in known:
                raise unknown_id(document_id)

    def _by_shard(self, chunk_ids: Sequence[int]) -> list[tuple[Shard, list[int]]]:
        """Return the shards that have chunks, with the ids that the chunks have there."""
        shards = self.shards
        firsts = [shard.first for shard in shards]
        groups: dict[int, list[int]] = {} if chunk_ids else {0: []}
        for chunk_id in chunk_ids:
            number = max(bisect_left(firsts, chunk_id) - 1, 0)
            groups.setdefault(number, []).append(chunk_id - firsts[number])
        return [(shards[number], ids) for number, ids in sorted(groups.items())]

    def _gathered(
        self, chunk_ids: Sequence[int], read: Callable[[LibraryView, list[int]], Batch]
    ) -> Batch:
        """Read chunks of each library at once, and return them in the order asked for."""
        import torch

        batches: list[Batch] = []
        order: list[int] = []
        for shard, ids in self._by_shard(chunk_ids):
            with shard.reading() as view:
                batches.append(read(view, ids))
            order += shard.numbered(ids)
        if order == list(chunk_ids) and len(batches) == 1:
            return batches[0]
        places = {chunk_id: place for place, chunk_id in enumerate(order)}
        index = torch.tensor([places[chunk_id] for chunk_id in chunk_ids], dtype=torch.long)
        names = [field.name for field in fields(batches[0])]
        joined = {name: torch.cat([getattr(b, name) for b in batches])[index] for name in names}
        return type(batches[0])(**joined)

    def _with_all_tags(self, rows: Sequence[DocumentRow]) -> list[DocumentRow]:
        """Return rows with the tags that excluded documents have, as one library collects them."""
        others: dict[str, set[str]] = {}
        for shard in self.shards:
            if not shard.excluded.ids:
                continue
            shared = shard.excluded.ids.intersection(row.id for row in rows)
            with shard.reading() as view:
                for row in view.documents_by_id(sorted(shared)):
                    others.setdefault(row.id, set()).update(row.tags)
        return [
            row._replace(tags=checked_tags({*row.tags, *others[row.id]}))
            if others.get(row.id)
            else row
            for row in rows
        ]

    def _expected_home(self) -> LibraryView:
        if self._home is None:
            raise StoreError(
                f"conversations are kept in the first library of {self.path}, which cannot be read:"
                " name another first, or ask without a conversation"
            )
        return self._home
