"""Reads documents again from the text that the library keeps: damaged memory, or a new model.

The files that documents came from are not needed. Knows no format of theirs.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

import torch

from drt_engine.documents import Block, OpenDocument
from drt_engine.errors import CorruptStore, LockTimeout, NotFound
from drt_engine.files import can_lock_folders, lock
from drt_engine.ingest import pipeline
from drt_engine.ingest.identity import DocumentText
from drt_engine.ingest.pipeline import ReadingHere, read_chunks, read_document
from drt_engine.ingest.reading import Progress
from drt_engine.ingest.segment import Chunk, Segmenter
from drt_engine.results import Finding
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch, DocumentRow, SegmentRow, Store
from drt_engine.store.catalogue.damaged import DocumentRemains
from drt_engine.store.identity import TextHash
from drt_engine.store.salvage import Salvage
from drt_engine.store.view import LibraryView


def kept_document(view: LibraryView, row: DocumentRow) -> OpenDocument:
    """Return a document of a library as a reader would give it, places included."""
    return OpenDocument(row.title, row.media_type, _blocks(view, row))


def _blocks(view: LibraryView, row: DocumentRow) -> Generator[Block, None, None]:
    places = view.places(row.id)
    for texts in view.iter_chunk_texts(row.id):
        text, start = "".join(t.text for t in texts), texts[0].start
        for at, end, page, section in _spans(places, start, start + len(text)):
            yield Block(text[at - start : end - start], page, section)


def _spans(
    places: Sequence[tuple[int, int | None, str | None]], start: int, end: int
) -> Iterator[tuple[int, int, int | None, str | None]]:
    """Yield the parts of [start:end] that stand on one page and in one section each."""
    for number, (begin, page, section) in enumerate(places or [(0, None, None)]):
        stop = places[number + 1][0] if number + 1 < len(places) else end
        if begin < end and stop > start:
            yield max(begin, start), min(stop, end), page, section


def repair(
    runtime: Runtime, store: Store, findings: Iterable[Finding]
) -> tuple[list[SegmentRow], list[SegmentRow]]:
    """Restore what ``findings`` of a check tell; the segments read again, and those that cannot be.

    A segment is read again from the kept text where that still gives the tokens it had.
    """
    done: list[SegmentRow] = []
    left: list[SegmentRow] = []
    findings = list(findings)
    # memory of a text that was put in a document's place would only make it look whole
    replaced = {finding.where for finding in findings if finding.kind == "identity"}
    for row in store.repair(findings):
        if row.document_id in replaced:
            left.append(row)
            continue
        try:
            batch = _segment_again(runtime, store, row)
        except (CorruptStore, NotFound):
            left.append(row)
            continue
        (done if store.replace_segment(row, batch) else left).append(row)
    return done, left


def _segment_again(runtime: Runtime, store: Store, row: SegmentRow) -> ChunkBatch:
    """Read a segment's chunks with the warm-up and in the batches of an unbroken reading."""
    document = store.document_by_id(row.document_id)
    if document is None:
        raise NotFound(f"document {row.document_id} is not read to its end")
    size, warm_up = pipeline.SEGMENT_CHUNKS, runtime.config.warm_up_chunks
    first, stop = row.first_ordinal, row.first_ordinal + row.chunks
    aligned = first - first % size
    segmenter = Segmenter(runtime.tokenizer, runtime.config.chunk)
    with closing(_blocks(store, document)) as blocks:
        before = max(aligned - warm_up, 0)
        last = -(-stop // size) * size
        chunks = list(islice(segmenter.chunks(blocks), before, last))
    _expect_same(store, row, chunks[first - before : stop - before])
    batches = []
    for at in range(aligned, min(last, before + len(chunks)), size):
        begin = at - before
        batches.append(
            read_chunks(
                runtime, chunks[max(begin - warm_up, 0) : begin], chunks[begin : begin + size]
            )
        )
    joined = {name: torch.cat([getattr(b, name) for b in batches]) for name in vars(batches[0])}
    of_segment = slice(first - aligned, stop - aligned)
    return ChunkBatch(**{name: tensor[of_segment] for name, tensor in joined.items()})


def _expect_same(store: Store, row: SegmentRow, chunks: Sequence[Chunk]) -> None:
    ids = range(row.first_chunk, row.first_chunk + row.chunks)
    stored = [(chunk.start, chunk.text) for chunk in store.chunk_rows(ids)]
    if [(chunk.start, chunk.text) for chunk in chunks] != stored:
        raise CorruptStore(
            f"the text of document {row.document_id} gives other chunks than were stored: remove"
            " the document and read it again"
        )


def rebuild(
    runtime: Runtime, path: Path, *, lock_timeout: float, progress: Progress | None = None
) -> list[DocumentRow]:
    """Read all documents of the library at ``path`` again for ``runtime``'s model.

    The library stays as it is until all are read; an interrupted rebuild goes on where it stopped.
    Others may write meanwhile: what they read is read again too, what they remove is left out.
    Sessions stay, bound to the model they were held with. Returns the documents. Raises LockTimeout
    where another process rebuilds the same library.
    """
    with _alone(path):
        while True:
            with (
                Store.open(path, lock_timeout=lock_timeout) as store,
                store.rebuilding(runtime.fingerprint, runtime.layout) as fresh,
                store.snapshot() as view,
            ):
                fresh.set_setting("model", runtime.name)
                fresh.remove_outdated(view)
                for row in view.documents():
                    if fresh.document_by_id(row.id) is None:
                        _read_kept(runtime, view, fresh, row=row, progress=progress)
            with Store.open(path, lock_timeout=lock_timeout) as store:
                if store.swap_in_rebuilt():
                    return store.documents()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep others from rebuilding the same library; raise LockTimeout where one does already.

    The kernel frees the lock of a process that died.
    """
    if not can_lock_folders() or not path.is_dir():
        yield
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        if not lock(folder):
            raise LockTimeout(
                f"another process rebuilds the library at {path}: wait until it has ended"
            )
        yield
    finally:
        os.close(folder)


def _read_kept(
    runtime: Runtime,
    view: LibraryView,
    fresh: Store,
    *,
    row: DocumentRow,
    progress: Progress | None,
) -> None:
    text = DocumentText(
        view.text_digest(row.id),
        row.characters,
        row.title,
        row.media_type,
        row.created,
        origins=view.origins(row.id),
        blocks=view.blocks(row.id),
        author=row.author,
        date=row.date,
    )
    if text.document_id != row.id:
        raise CorruptStore(
            f"the kept text of {row.title} has the id {text.document_id}, expected {row.id}, so"
            " nothing was rebuilt: see what `drt library check` finds"
        )
    read = partial(ReadingHere, runtime, fresh, partial(kept_document, view, row))
    # in place of its source, which may change meanwhile; the library's own is taken over
    read_document(fresh, read, text=text, place=row.id, progress=progress, name=row.title)


def read_salvaged(runtime: Runtime, fresh: Store, salvage: Salvage) -> None:
    """Read documents again whose texts were saved without memory, into the new library."""
    fresh.set_setting("model", runtime.name)
    while salvage.unread:
        document = salvage.unread[0]
        salvage.documents.append(_read_remains(runtime, fresh, document).id)
        salvage.unread.pop(0)
        if not document.is_whole:
            message = "parts of its text are lost, the others were saved: read its file again"
            salvage.lost.append(Finding("lost", document.name, message))


def _read_remains(runtime: Runtime, fresh: Store, document: DocumentRemains) -> DocumentRow:
    """Read the text that is left of a damaged document into a new library.

    One with holes gets the id of what is left, and a title that says so.
    """
    row, digest = document.row, TextHash()
    digest.update(chunk.text for chunk in document.chunks)
    end = document.chunks[-1].start + len(document.chunks[-1].text)
    text = DocumentText(
        digest.digest,
        end,
        row.title if document.is_whole else f"{row.title} (with gaps)",
        row.media_type,
        row.created or None,
        origins=document.origins,
        author=row.author,
        date=row.date,
    )

    def opened() -> OpenDocument:
        return OpenDocument(text.title, row.media_type, _remaining_blocks(document))

    read = partial(ReadingHere, runtime, fresh, opened)
    saved = read_document(fresh, read, text=text, place=row.source, progress=None, name=text.title)
    if row.tags:
        fresh.change_tags(saved.id, add=row.tags)
    return saved


def _remaining_blocks(document: DocumentRemains) -> Generator[Block, None, None]:
    for chunk in document.chunks:
        spans = _spans(document.places, chunk.start, chunk.start + len(chunk.text))
        for at, end, page, section in spans:
            yield Block(chunk.text[at - chunk.start : end - chunk.start], page, section)
