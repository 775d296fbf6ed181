"""The two halves of a reader's contract: ``Reader``, and the ``OpenDocument`` that it returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from drt_engine.documents.base.blocks import Block
from drt_engine.documents.base.notes import Notes
from drt_engine.documents.base.source import Source


@dataclass(frozen=True)
class OpenDocument:
    """A document about to be read: ``blocks`` opens its file when first asked, and only once."""

    title: str
    media_type: str
    blocks: Iterator[Block]
    notes: Notes = field(default_factory=Notes)
    author: str = ""  # as the document names them; "" where it does not
    date: str = ""  # YYYY-MM-DD where that is certain, else as it is written; "" without
    pages: int = 0  # where they are known before they are read

    @property
    def skipped(self) -> tuple[str, ...]:
        """What was left out and why, complete once all blocks are read."""
        return self.notes.skipped

    def close(self) -> None:
        """Close the file without reading on; harmless when all was read."""
        close = getattr(self.blocks, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> OpenDocument:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SuffixOnly:
    """For readers of formats that nothing tells from plain text but the suffix of the file."""

    def recognises(self, head: bytes) -> bool:  # noqa: ARG002  the argument of every reader
        """Return False: the content says nothing."""
        return False


class Reader(Protocol):
    """One document format: to add one, write its file and name it in ``formats.BUILT_IN``.

    Another distribution adds a ``Format`` by an entry point of the group ``drt.readers``.
    """

    def recognises(self, head: bytes) -> bool:
        """Return whether a file of unknown suffix that begins with ``head`` is of this format."""

    def open(self, source: Source) -> OpenDocument:
        """Check the source and start reading; raise DocumentError, and OSError as it comes."""
