"""Everything that changes a library, as functions, and what a library holds as one value."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from drt_engine.store import Store
from drt_engine.store.filesystem.disk import DISK, Disk
from tests.engine.store.helpers import (
    FINGERPRINT,
    INT8,
    add_document,
    make_batch,
    make_texts,
    open_store,
    text_id,
)

OLD, OTHER, HALF, NEW, GONE = 1, 2, 3, 4, 5


def pieces(number: int) -> list[str]:
    """The texts of a document's chunks."""
    if number == OTHER:
        return ["gorse and broom "] * 3
    return [f"document {number} chunk {i} of heather. " for i in range(4)]


def document_id(number: int) -> str:
    return text_id(pieces(number))


ADOPTED = [*pieces(OLD)[:3], "a new end."]
TURN = {
    "question": "Who?",
    "answer": "A keeper",
    "citations": [{"document": document_id(OTHER), "quote": "gorse"}],
}


def make_base(folder: Path) -> Path:
    """A closed library: two documents, one cited, half a third, and one that was removed."""
    path = folder / "base.library"
    with open_store(path) as store:
        add_document(store, OLD, pieces(OLD), source="/a", per_segment=2)
        add_document(store, OTHER, pieces(OTHER), source="/b")
        add_document(store, GONE, pieces(GONE), source="/g", per_segment=2)
        store.remove_document(document_id(GONE), undoable=True)
        with store.begin_document(
            document_id=document_id(HALF), title="H", source="/h", media_type="text/plain"
        ) as writer:
            writer.append(make_batch(INT8, [4, 4]), make_texts(pieces(HALF)[:2]))
        store.save_session("talk", transcript=[TURN], meta={}, state=b"before")
    with open_store(folder / "other.library") as store:
        add_document(store, 9, pieces(9), source="/z")
        store.export_archive(folder / "other.drtlib")
    return path


def ingest(store: Store) -> None:
    if store.document_by_id(document_id(NEW)) is None:
        add_document(store, NEW, pieces(NEW), source="/n", title="H", per_segment=2)


def resume(store: Store) -> None:
    if store.document_by_id(document_id(HALF)) is None:
        add_document(store, HALF, pieces(HALF), source="/h", title="H", per_segment=2)


def replace(store: Store) -> None:
    if store.document_by_id(document_id(NEW)) is None:
        add_document(store, NEW, pieces(NEW), source="/a", title="H", per_segment=2)


def adopt(store: Store) -> None:
    """A changed document that takes over the first chunks of its old version."""
    if store.document_by_id(text_id(ADOPTED)) is not None:
        return
    with store.begin_document(
        document_id=text_id(ADOPTED), title="H", source="/a", media_type="text/plain"
    ) as writer:
        texts = make_texts(ADOPTED)
        if writer.committed_chunks < 3:
            writer.adopt(document_id(OLD), texts[writer.committed_chunks : 3])
        if writer.committed_chunks < 4:
            writer.append(make_batch(INT8, [4], seed=5), texts[3:])
        writer.finish(places=[(0, None, None)])


def remove(store: Store) -> None:
    if store.document_by_id(document_id(OLD)) is not None:
        store.remove_document(document_id(OLD), undoable=True)


def undo(store: Store) -> None:
    if store.document_by_id(document_id(GONE)) is None:
        store.undo_remove(document_id(GONE))


def forget(store: Store) -> None:
    if store.document_by_id(document_id(OTHER)) is not None:
        store.forget_document(document_id(OTHER))


def compact(store: Store) -> None:
    store.compact()


def save(store: Store) -> None:
    store.save_session("talk", transcript=[TURN, TURN], meta={}, state=b"after")


def export(store: Store) -> None:
    store.export_archive(store.path.parent / "out.drtlib")


def take_in(store: Store) -> None:
    store.import_archive(store.path.parent / "other.drtlib")


def renew(store: Store) -> None:
    """All documents read again, which gives them other memory."""
    with store.rebuilding(FINGERPRINT, INT8) as fresh:
        fresh.remove_outdated(store)
        read_again(store, fresh)
    assert store.swap_in_rebuilt()


def read_again(store: Store, fresh: Store) -> None:
    """Read what a library inside another lacks."""
    for row in store.documents():
        if fresh.document_by_id(row.id) is None:
            texts = [text.text for some in store.iter_chunk_texts(row.id) for text in some]
            options = {"source": row.source, "title": row.title, "created": row.created}
            add_document(fresh, 0, texts, per_segment=3, **options)


OPERATIONS: list[Callable[[Store], None]] = [
    *(ingest, resume, replace, adopt, remove, undo, forget, compact, save, export, take_in, renew)
]


def fresh(base: Path, folder: Path) -> Path:
    """A copy of the base library and the archive beside it, in an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, folder / "test.library")
    shutil.copy(base.parent / "other.drtlib", folder / "other.drtlib")
    return folder / "test.library"


def open_on(path: Path, disk: Disk = DISK) -> Store:
    """The library on a disk of the test; SQLite does not wait for the real one."""
    store = Store.open(path, fingerprint=FINGERPRINT, layout=INT8, disk=disk, lock_timeout=0.5)
    store._database._open().execute("PRAGMA synchronous = OFF")
    return store


def held(store: Store) -> bytes:
    """Documents, memory and sessions of a library as bytes, whatever its files look like."""
    target = store.path.parent / "held.drtlib"
    store.export_archive(target)
    data = target.read_bytes()
    target.unlink()
    return data
