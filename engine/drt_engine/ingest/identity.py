"""What a document is known by: the hash of its text, its source, and the digest of its file.

Knows the library and readers, no model.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from drt_engine.blocks.nodes import BlockTree
from drt_engine.documents import Block, Source, open_document
from drt_engine.documents.base import unreadable
from drt_engine.documents.base.unnamed_file import UnnamedFile
from drt_engine.documents.registry import readable_format
from drt_engine.documents.source_map import OLD_PARAMETER, SourceMap
from drt_engine.errors import EmptyDocument, StoreError, UnreadableDocument
from drt_engine.files import BINARY, expect_no_database
from drt_engine.results import IngestProgress
from drt_engine.store import DocumentRow, Store
from drt_engine.store.view import LibraryView
from drt_engine.text.tokenizer import Tokenizer

# to be raised when a reader gives another text, author or date for the same bytes
_READERS = "7:"
_MOST_BYTES = 64 << 20  # of a file that is read only to say that it has changed


@dataclass(frozen=True)
class DocumentText:
    """What is known of a document before it is read; ``created`` is when, now by default.

    ``skipped`` says what its reader passed over and why; ``origins`` leads from the text to its
    file, as ``source_map`` makes it; ``blocks`` is its tree, as ``BlockTree`` packs it.
    """

    digest: str  # SHA-256 of the text
    characters: int
    title: str
    media_type: str
    created: str | None = None
    skipped: tuple[str, ...] = ()
    origins: Sequence[tuple[int, str]] = ()
    blocks: Sequence[tuple[int, str]] = ()
    author: str = ""
    date: str = ""

    @property
    def document_id(self) -> str:
        """The document's identity."""
        return self.digest[:16]


class Stopped(Exception):
    """Reading was stopped, because the caller has left."""


class HashedBlocks:
    """Blocks that are hashed as they pass, until ``stop``."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._blocks, self._digest = blocks, hashlib.sha256()
        self._stopped = False

    def __iter__(self) -> Iterator[Block]:
        for block in self._blocks:
            if self._stopped:
                raise Stopped
            self._digest.update(block.text.encode("utf-8"))
            yield block

    def stop(self) -> None:
        """Let no more blocks pass; callable from another thread."""
        self._stopped = True

    @property
    def digest(self) -> str:
        """SHA-256 of the text, once all blocks have passed."""
        return self._digest.hexdigest()


def identify(
    source: Source, tokenizer: Tokenizer, progress: Callable[[IngestProgress], None] | None = None
) -> DocumentText:
    """Read the text once to know its hash and length, before anything is written.

    ``progress`` is told each page, where the document has a number of them.
    """
    characters, words, origins, tree = 0, False, SourceMap(), BlockTree()
    page, began = 0, time.monotonic()
    with open_document(source) as document:
        blocks = HashedBlocks(document.blocks)
        for block in blocks:
            if progress is not None and document.pages and block.page and block.page != page:
                page, seconds = block.page, time.monotonic() - began
                progress(IngestProgress(source.name, 0, 0, 0, seconds, page, document.pages))
            characters += len(block.text)
            origins.see(block)
            tree.see(block.text, block.nodes)
            # Some tokenizers give white space tokens, and some drop invisible characters.
            words = words or (not block.text.isspace() and len(tokenizer.encode(block.text)) > 0)
    if not words:
        raise EmptyDocument(f"{source.name} holds no words; there is nothing to read")
    return DocumentText(
        blocks.digest,
        characters,
        document.title,
        document.media_type.replace(OLD_PARAMETER, ""),
        skipped=document.skipped,
        origins=origins.groups,
        blocks=tree.groups,
        author=document.author,
        date=document.date,
    )


def file_digest(source: Source) -> str | None:
    """Return the SHA-256 of a file's or an archive member's bytes.

    None for a source without a path, or one that cannot be read.
    """
    if source.path is None:
        return None
    try:
        with source.open() as file:
            return _READERS + _sha256(file)
    except OSError:
        return None


def _sha256(file: BinaryIO) -> str:
    # typeshed asks for readinto, which BinaryIO does not promise and every source's file has
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def unchanged_document(store: Store, source: Source, digest: str | None) -> DocumentRow | None:
    """Return the document that a file with these bytes gave, if it is still at the file's path.

    Or at that of a file of which this one is a copy. Then the file need not be parsed.
    """
    noted = store.source_digest(source.location) if digest is not None else None
    if noted is None or noted[0] != digest:
        return None
    row = store.document_by_id(noted[1])
    if row is None or row.source == source.location:
        return row
    is_copy = _exists(row.source) and store.document_at(source.location) is None
    return row if is_copy else None


def has_changed(store: LibraryView, row: DocumentRow) -> bool:
    """Return whether a document's file has other bytes than were read; False where none can tell.

    That is where the file is gone, in an archive, or large. A file that was not written to since
    is not opened.
    """
    noted = store.source_digest(row.source)
    if noted is None or noted[1] != row.id:
        return False
    try:
        status = os.stat(row.source)
        read = datetime.datetime.fromisoformat(row.created).timestamp()
    except (OSError, ValueError, OverflowError):  # a day at the end or the beginning of time
        return False
    if status.st_mtime < read or status.st_size > _MOST_BYTES:
        return False
    digest = file_digest(Source.from_path(row.source))
    return digest is not None and digest.partition(":")[2] != noted[0].partition(":")[2]


def original_file(store: LibraryView, row: DocumentRow) -> Source:
    """Return the open file that a document was read from, for the caller to close.

    Raises UnreadableDocument where it is gone, in an archive, or has other bytes than were read.
    """
    noted = store.source_digest(row.source)
    if noted is None or noted[1] != row.id:
        raise UnreadableDocument(
            f"it is not known which file {row.title!r} was read from; read its file again."
        )
    try:
        source = Source.from_file(UnnamedFile(_open_file(row.source)), row.title, Path(row.source))
        with source.open() as file:
            digest = _sha256(file)
    except OSError as error:
        raise UnreadableDocument(
            f"the file of {row.title!r} cannot be opened ({error.strerror}); read it again from"
            " where it is now."
        ) from error
    if digest != noted[0].partition(":")[2]:
        source.close()
        raise UnreadableDocument(
            f"the file of {row.title!r} has changed since it was read; read it again."
        )
    return source


def _open_file(path: str) -> int:
    """Open a regular file; OSError for others, which might have no end."""
    expect_no_database(Path(path))
    descriptor = os.open(path, os.O_RDONLY | BINARY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no file")
    return descriptor


def is_gone(row: DocumentRow) -> bool:
    """Return whether the file that a document was read from, or its archive, is not there any more.

    False where its folder is not there either, as of a disk that is not mounted, or a library of
    another machine.
    """
    source = Path(row.source)
    if not source.is_absolute() or _exists(row.source):
        return False
    file = Path(_file_and_member(row.source)[0])
    with contextlib.suppress(OSError):
        return file.parent.is_dir()
    return False


def look_up(store: Store | None, source: Source) -> DocumentRow | None:
    """Return the document of an unchanged file, before a model is loaded to read it.

    Raises ``DocumentError`` for what no model helps to read; ``store`` is None where there is none.
    """
    try:
        readable_format(source)
    except OSError as error:
        raise unreadable(source.name, error) from error
    return None if store is None else unchanged_document(store, source, file_digest(source))


def expect_same_text(store: Store, row: DocumentRow, text: DocumentText) -> None:
    """Refuse a text that has the id of another one; 64 bits can be made to collide."""
    if store.text_digest(row.id) != text.digest:
        raise StoreError(
            f"the library holds another text with the id {row.id} ({row.title!r}): remove it"
            " with `drt library remove`, and read this document again"
        )


def complete_author_and_date(store: Store, row: DocumentRow, text: DocumentText) -> DocumentRow:
    """Store author and date of a document that was read before the library kept them."""
    if row.author or row.date or not (text.author or text.date):
        return row
    store.set_author_and_date(row.id, text.author, text.date)
    return store.document(row.id)


def complete_blocks(store: Store, row: DocumentRow, text: DocumentText) -> None:
    """Store the block tree of a document that was read before its reader gave one."""
    if text.blocks and store.blocks(row.id) != list(text.blocks):
        store.set_blocks(row.id, text.blocks)


def place_document(store: Store, row: DocumentRow, place: str) -> DocumentRow:
    """Give a document whose text was found at ``place`` its source there, and return it.

    It replaces the document that was there. A file that was moved keeps its document; of a copy,
    the source stays where the first file is.
    """
    if row.source == place:
        return row
    replaced = store.document_at(place)
    moved = Path(row.source).is_absolute() and not _exists(row.source)
    if replaced is None and not moved:
        return row  # a copy of a file that is still there
    copies = () if replaced is None else other_files(store, replaced.id, place)
    store.rename_source(row.id, place, moved=moved, copies=copies)
    return store.document(row.id)


def other_files(store: Store, document_id: str, place: str) -> list[str]:
    """Return the files besides ``place`` that gave a document and are still there."""
    return [
        path
        for path in store.copies(document_id)
        if path != place and _exists(path) and not _is_same_file(path, place)
    ]


def _is_same_file(source: str, other: str) -> bool:
    """Return whether two paths, or those of two members, lead to one file."""
    (file, member), (other_file, other_member) = _file_and_member(source), _file_and_member(other)
    try:
        return member == other_member and os.path.samefile(file, other_file)
    except OSError:
        return False  # one is gone


def _exists(source: str) -> bool:
    """Return whether a file is there, or the archive whose member (``ARCHIVE!/MEMBER``) it is."""
    # Path.exists raises for names that are too long, which members may have.
    return os.path.exists(_file_and_member(source)[0])


def _file_and_member(source: str) -> tuple[str, str]:
    """Return a file's path with an empty string, or an archive's path with its member's name."""
    if not os.path.exists(source):
        for match in re.finditer("!/", source):
            if os.path.isfile(source[: match.start()]):
                return source[: match.start()], source[match.end() :]
    return source, ""
