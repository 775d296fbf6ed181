"""Which line of its file a character of a kept text stands on, where the text's lines are its own.

The library says so by a parameter of the document's media type. Knows no format: what the blocks
of a reading say decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from drt_engine.store import DocumentRow
    from drt_engine.store.view import LibraryView

PARAMETER = "; lines=source"


class LinedBlock(Protocol):
    """What a reader yields: text, and the source's line it begins on where the format has lines."""

    @property
    def text(self) -> str: ...
    @property
    def line(self) -> int | None: ...


class LineCheck:
    """Watches a document's blocks pass: whether its lines are, one for one, the source's."""

    def __init__(self) -> None:
        self._next, self._same = 1, True

    def see(self, block: LinedBlock) -> None:
        """Take the next block in order."""
        self._same = self._same and block.line == self._next
        self._next += block.text.count("\n")

    def media_type(self, media_type: str) -> str:
        """A reader's media type as the library keeps it, once all blocks were seen."""
        plain = media_type.replace(PARAMETER, "")
        return plain + PARAMETER if self._same else plain


def line_at(view: LibraryView, document: DocumentRow, start: int) -> int | None:
    """Return the line, from 1, of the character at ``start``; None where lines are not the file's.

    Streams the text up to there, about 30 ms for a million characters.
    """
    if not document.media_type.endswith(PARAMETER):
        return None
    line, left = 1, start
    for piece in view.iter_text(document.id):
        line += piece.count("\n", 0, left)
        left -= len(piece)
        if left <= 0:
            break
    return line


def wants_line(document: DocumentRow, page: int | None, section: str | None) -> bool:
    """Whether a line helps to find a place: where there is no page or section, and in code."""
    return page is None and (section is None or document.media_type.startswith("text/x-source"))
