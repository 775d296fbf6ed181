"""Reads pictures of text (photographs, scans, faxes) through the extra ``ocr``.

The words are recognised, and laid out as those of a PDF page. Each picture of a file is a page.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from drt_engine.documents.base import Block, Notes, OpenDocument, Source, one_line, reason_of
from drt_engine.documents.pdf.margins import Page
from drt_engine.documents.pdf.reader import page_blocks
from drt_engine.documents.pdf.scans import Scans
from drt_engine.documents.pdf.sections import title_of
from drt_engine.documents.recognition import RECOGNISED, Recogniser
from drt_engine.errors import EmptyDocument, UnreadableDocument

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP")
_SIGNATURES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"BM")
_WIDTH = 612.0  # points of a page, whatever the picture's
_SIDE = 4000  # pixels of the longer side, at most
_MOST_PICTURES = 2000
_FAULTS = (OSError, SyntaxError, ValueError, EOFError)


def _pages(source: Source, recogniser: Recogniser, notes: Notes) -> Iterator[Page]:
    """Yield the pictures of a file as pages of recognised lines."""
    library, operations = map(importlib.import_module, ("PIL.Image", "PIL.ImageOps"))
    numpy = importlib.import_module("numpy")
    with source.open() as file:
        try:
            with library.open(file, formats=FORMATS) as picture:
                count = getattr(picture, "n_frames", 1)
                if count > _MOST_PICTURES:
                    why = f"beyond the first {_MOST_PICTURES:,}"
                    notes.skip("picture of a file", why, count - _MOST_PICTURES)
                for number in range(min(_MOST_PICTURES, count)):
                    picture.seek(number)
                    upright = operations.exif_transpose(picture).convert("RGB")
                    upright.thumbnail((_SIDE, _SIDE))
                    pixels = numpy.asarray(upright)[:, :, ::-1].copy()
                    yield _page(number + 1, pixels, recogniser)
        except (*_FAULTS, library.DecompressionBombError) as error:
            raise UnreadableDocument(
                f"{source.name} is not a whole picture ({reason_of(error)}); "
                "get or export it again."
            ) from error


def _page(number: int, pixels: Any, recogniser: Recogniser) -> Page:
    height, width, _ = pixels.shape
    scale = width / _WIDTH
    lines = recogniser.lines(pixels, scale=scale, left=0.0, top=height / scale)
    return Page(number, lines, 0.0, height / scale, width=_WIDTH)


@dataclass(frozen=True)
class PicturesReader:
    """The words in a picture, or in each picture of a file."""

    recogniser: Recogniser | None = None

    def recognises(self, head: bytes) -> bool:
        """Return whether a file begins as a picture does."""
        return head.startswith(_SIGNATURES) or (head[:4], head[8:12]) == (b"RIFF", b"WEBP")

    def open(self, source: Source) -> OpenDocument:
        """Recognise the words of all pictures; what is largest in the first is the title."""
        notes = Notes()
        pages = list(_pages(source, self.recogniser or Recogniser(), notes))
        first = next((page for page in pages if page.lines), None)
        if first is None:
            raise EmptyDocument(
                f"no words were recognised in {source.name}; expected a picture of printed text."
            )
        notes.skip("picture", RECOGNISED, sum(bool(page.lines) for page in pages))
        title = title_of(first.lines, first.usual)
        blocks = page_blocks(iter(pages), notes, title, bookmarks={}, scans=Scans())
        if len(pages) == 1:
            blocks = (replace(block, page=None) for block in blocks)
        return OpenDocument(title or one_line(source.file_name), "image", _kept(blocks), notes)


def _kept(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield blocks without places in the picture, which are no characters of a file."""
    return (replace(block, origin=()) for block in blocks)
