"""Grows a document in a library: segment bytes into place, then rows, one commit at a time.

Knows nothing of tensors or models; page and section come with the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Self

from drt_engine.errors import CorruptStore, StoreError
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.catalogue.chunk_rows import Texts
from drt_engine.store.catalogue.row_checksums import MAX_TEXT_BYTES
from drt_engine.store.filesystem.library_folder import Folder
from drt_engine.store.identity import ID, TextHash
from drt_engine.store.segments.format import MAX_SEGMENT_CHUNKS, SegmentHeader, parse_header
from drt_engine.store.segments.landmark_files import consolidate_landmark_files
from drt_engine.store.segments.records import (
    chunk_lengths,
    copied_segment,
    discard,
    landmarks_crc,
    segment_name,
)
from drt_engine.store.types import (
    Blocks,
    ChunkText,
    DocumentRow,
    Origins,
    Place,
    RecordLayout,
    SegmentRow,
)


class Appender:
    """One document that is being read into the library.

    Leaving without ``finish`` keeps what was appended: reading the same id continues there.
    """

    def __init__(
        self,
        catalog: Catalog,
        folder: Folder,
        *,
        layout: RecordLayout,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self._catalog = catalog
        self._folder = folder
        self._layout = layout
        self._release = release  # gives the writer's lock back
        self._row: DocumentRow | None = None
        self._hash = TextHash()

    def begin(
        self,
        document_id: str,
        title: str,
        *,
        source: str,
        media_type: str,
        author: str = "",
        date: str = "",
    ) -> Self:
        """Take up a document; the caller holds the writer's lock, ``close`` calls ``release``."""
        if not ID.fullmatch(document_id):
            raise ValueError(
                f"document id is {document_id!r}, expected 16 lowercase hexadecimal digits"
            )
        begin = partial(
            self._catalog.begin,
            document_id,
            title,
            source=source,
            media_type=media_type,
            author=author,
            date=date,
        )
        self._row = begin()
        try:
            self._hash = Texts(self._catalog).hash_of(document_id)
        except CorruptStore:  # an interrupted reading whose text was damaged since: begin anew
            self._folder.delete(self._catalog.remove(document_id))
            self._row = begin()
        return self

    @property
    def committed_chunks(self) -> int:
        """Chunks in the library already; above zero when an interrupted reading goes on."""
        return self._open().chunks

    @property
    def committed_characters(self) -> int:
        """Characters these chunks' texts cover: where the next text starts."""
        return self._open().characters

    def adopt(self, document_id: str, texts: Sequence[ChunkText]) -> None:
        """Store the next chunks, with what another document holds for chunks of the same ordinals.

        Their bytes are copied after their checksums were verified. The caller says that they are
        the same tokens after the same tokens. Raises CorruptStore.
        """
        check_texts(texts, self._open().characters)
        segments = self._catalog.segments([document_id])
        for begin in range(0, len(texts), MAX_SEGMENT_CHUNKS):
            segment_texts = texts[begin : begin + MAX_SEGMENT_CHUNKS]
            self._adopt_segment(segments, segment_texts)

    def append_encoded(self, data: bytearray, texts: Sequence[ChunkText]) -> None:
        """Store the next chunks durably, from the bytes that their segment file is to have.

        Raises CorruptStore for the bytes of another segment, StorageFull.
        """
        row = self._open()
        check_texts(texts, row.characters)
        header = SegmentHeader(self._layout, row.id, row.chunks, len(texts))
        if parse_header(data, file_size=len(data), where="in memory") != header:
            raise CorruptStore(
                f"the chunks from {row.chunks} on of document {row.id} came with the memory of"
                " others: read the document again"
            )
        self.store_segment(header, data, texts=texts, lengths=chunk_lengths(data, header))

    def _adopt_segment(self, segments: Sequence[SegmentRow], texts: Sequence[ChunkText]) -> None:
        row = self._open()
        header = SegmentHeader(self._layout, row.id, row.chunks, len(texts))
        data = copied_segment(self._folder, segments, header)
        if data is None:
            raise StoreError(
                f"document {row.id} cannot take over {len(texts)} chunks: read it again"
            )
        self.store_segment(header, data, texts=texts, lengths=chunk_lengths(data, header))

    def finish(
        self,
        *,
        places: Sequence[Place],
        origins: Sequence[Origins] = (),
        blocks: Sequence[Blocks] = (),
        created: str | None = None,
        copies: Sequence[str] = (),
    ) -> DocumentRow:
        """Mark the document ready, replacing an older one of the same source.

        The older one goes to the first of ``copies`` at which its text was read, too.

        ``origins`` leads from the text to its file, and ``blocks`` is its tree, for the caller to
        make and to understand; ``created`` is the time it was read, for a document of another
        library; now by default.
        Raises CorruptStore, and removes the document, where its text is not the one of its id.
        """
        row = self._open()
        if not row.chunks:
            raise ValueError(f"document {row.id} has no chunks: append before finishing")
        for rows in (places, origins, blocks):
            starts = [row[0] for row in rows]
            if any(later <= earlier for earlier, later in pairwise(starts)):
                raise ValueError("places are not in increasing order of their starts")
        self._expect_identity(row)
        files = self._catalog.finish(
            row.id, places, origins=origins, blocks=blocks, created=created, copies=copies
        )
        self._folder.delete(files)
        consolidate_landmark_files(self._catalog, self._folder, self._layout)
        ready = self._catalog.document_by_id(row.id)
        self.close()
        if ready is None:
            raise StoreError(f"document {row.id} was removed by another process: read it again")
        return ready

    def _expect_identity(self, row: DocumentRow) -> None:
        if self._hash.document_id == row.id:
            return
        # what is kept of it would spoil every further reading that goes on with it
        self._folder.delete(self._catalog.remove(row.id))
        self.close()
        raise CorruptStore(
            f"the text of {row.title!r} has the id {self._hash.document_id}, expected {row.id}:"
            " read the document again"
        )

    def close(self) -> None:
        """Release the lock; what was appended stays."""
        if self._row is not None:
            self._row = None
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> DocumentRow:
        if self._row is None:
            raise ValueError("this document's writer is closed: begin the document again")
        return self._row

    def store_segment(
        self,
        header: SegmentHeader,
        data: bytearray,
        *,
        texts: Sequence[ChunkText],
        lengths: list[int],
    ) -> None:
        """Put a segment's bytes in place, durably, and commit its rows; StorageFull."""
        row = self._open()
        name = segment_name(row.id, row.chunks)
        self._folder.write(name, data)
        try:
            self._catalog.add_segment(
                row.id,
                name,
                texts=texts,
                lengths=lengths,
                first_ordinal=row.chunks,
                landmarks_crc=landmarks_crc(data, header),
            )
        except Exception:
            discard(self._catalog, self._folder, name)
            raise
        self._hash.update(text.text for text in texts)
        self._row = self._catalog.document_by_id(row.id, state="partial")


def check_texts(texts: Sequence[ChunkText], expected: int) -> None:
    """Raise unless texts follow one another from character ``expected`` and can be stored."""
    for text in texts:
        if text.start != expected:
            raise ValueError(f"a chunk's text starts at {text.start}, expected {expected}")
        if "\0" in text.text:
            raise ValueError(f"the text of the chunk at {text.start} holds U+0000")
        if len(text.text) > MAX_TEXT_BYTES // 4:
            raise StoreError(
                f"{len(text.text):,} characters at {text.start} are one chunk, expected at most"
                f" {MAX_TEXT_BYTES // 4:,}: is this text?"
            )
        expected += len(text.text)
