"""Chooses the reader of a document, by suffix and then by content, and opens it.

Knows which readers exist; knows nothing of what they do.
"""

from __future__ import annotations

from collections.abc import Iterator

from drt_engine.documents.base import Block, OpenDocument, Reader, Source, unreadable
from drt_engine.documents.html import HtmlReader
from drt_engine.documents.markdown import MarkdownReader
from drt_engine.documents.pdf import PdfReader
from drt_engine.documents.text import TextReader, empty
from drt_engine.errors import UnreadableDocument, UnsupportedFormat

# In the order in which they are asked whether they know a file's content: plain text is last.
READERS: tuple[Reader, ...] = (PdfReader(), HtmlReader(), MarkdownReader(), TextReader())
_HEAD_BYTES = 8192


def find_reader(source: Source) -> Reader | None:
    """The reader for a source, None when no reader knows it; raises OSError as it comes."""
    for reader in READERS:
        if source.suffix in reader.suffixes:
            return reader
    with source.open() as file:
        head = file.read(_HEAD_BYTES)
    return next((reader for reader in READERS if reader.recognises(head)), None)


def unsupported(source: Source) -> UnsupportedFormat:
    """The sentence for a file that no reader knows."""
    known = ", ".join(reader.label for reader in READERS)
    return UnsupportedFormat(
        f"{source.name} looks like a binary file of a format that drt does not read; "
        f"convert it to one of: {known}."
    )


def open_document(source: Source) -> OpenDocument:
    """Open a document with the reader that fits it.

    Raises DocumentError here for all that can be seen before reading, and from `blocks` when the
    file becomes unreadable or changes on the way.
    """
    try:
        with source.open() as file:
            if not file.read(1):
                raise empty(source)
        reader = find_reader(source)
        if reader is None:
            raise unsupported(source)
        document = reader.open(source)
    except (OSError, UnicodeError) as error:
        raise _failure(source, error) from error
    return OpenDocument(document.title, document.media_type, _guarded(source, document.blocks))


def _failure(source: Source, error: OSError | UnicodeError) -> UnreadableDocument:
    if isinstance(error, OSError):
        return unreadable(source.name, error)
    return UnreadableDocument(
        f"{source.name} changed while it was read; read it again once it is written."
    )


def _guarded(source: Source, blocks: Iterator[Block]) -> Iterator[Block]:
    try:
        yield from blocks
    except (OSError, UnicodeError) as error:
        raise _failure(source, error) from error
