"""Opens documents in this process, every failure of the system as a sentence.

Knows formats; knows nothing of how a format is document_format, or of other processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from drt_engine.documents.base import Block, OpenDocument, Reader, Source, unreadable
from drt_engine.documents.formats import Format
from drt_engine.errors import UnreadableDocument


def open_here(document_format: Format, source: Source) -> OpenDocument:
    """Open a document in this process, errors of the system as sentences."""
    return open_with(load_reader(document_format, source), source)


def load_reader(document_format: Format, source: Source) -> Reader:
    """Import the reader of a format; raise UnreadableDocument where that fails."""
    try:
        return document_format.load()
    except (ImportError, AttributeError) as error:
        raise UnreadableDocument(
            f"{source.name} cannot be read (the reader of {document_format.label} cannot be loaded:"
            f" {error}); install {document_format.distribution or 'drt-assistant'} again."
        ) from error


def open_with(reader: Reader, source: Source) -> OpenDocument:
    """Open a document with a reader, errors of the system as sentences."""
    try:
        document = reader.open(source)
    except (OSError, UnicodeError) as error:
        raise failure(source, error) from error
    blocks = _guarded(source, document.blocks)
    return replace(document, blocks=blocks)


def failure(source: Source, error: OSError | UnicodeError) -> UnreadableDocument:
    """Return the error for bytes that can no longer be read or decoded."""
    if isinstance(error, OSError):
        return unreadable(source.name, error)
    return UnreadableDocument(
        f"{source.name} changed while it was read; read it again once it is written."
    )


def _guarded(source: Source, blocks: Iterator[Block]) -> Iterator[Block]:
    try:
        yield from blocks
    except (OSError, UnicodeError) as error:
        raise failure(source, error) from error
