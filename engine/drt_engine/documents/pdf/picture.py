"""Draws a page of a PDF file with some of its characters highlighted, as PNG.

Runs in the reader process: all that it needs is imported before the file is opened. Knows nothing
of quotes; characters are numbered as PDFium does.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from drt_engine.documents.base import Source
from drt_engine.documents.pdf.scans import Box, Scans, is_picture
from drt_engine.errors import UnreadableDocument

MIN_WIDTH, MAX_WIDTH = 200, 2_400  # in pixels
_MOST_PIXELS = 12_000_000  # of one page: a strip of paper is drawn narrower
_MOST_BOXES = 500
_MARGIN = 1.5  # points around highlighted characters
_DIM = bytes(value * 2 // 5 for value in range(256))  # blue that becomes yellow on white


@dataclass(frozen=True)
class Picture:
    """A drawn page; ``pages`` is how many the file has, ``boxes`` what is highlighted."""

    pages: int
    width: int
    height: int
    boxes: tuple[Box, ...]
    png: bytes


def draw_page(
    library: Any,
    source: Source,
    *,
    page: int,
    characters: tuple[int, int] | None,
    width: int,
    scans: Scans,
) -> Picture:
    """Draw page ``page``, from 1, ``width`` pixels wide at most; raises UnreadableDocument.

    ``characters`` are those of the page to highlight, ``library`` is the module pypdfium2, and
    ``scans`` tells where the characters of a picture are.
    """
    from drt_engine.documents.pdf.reader import load_pdf

    with closing(load_pdf(library, source)) as pdf:
        if not 1 <= page <= len(pdf):
            raise UnreadableDocument(f"{source.name} has {len(pdf)} pages and no page {page}.")
        try:
            boxes = []
            if characters is not None:
                with closing(pdf[page - 1]) as open_page:
                    boxes = _boxes(library.raw, open_page, characters)
                    if not boxes and scans.are_read and is_picture(open_page):
                        boxes = scans.boxes(source.name, page - 1, open_page, characters)
            return _draw(pdf, page, boxes[:_MOST_BOXES], width)
        except library.PdfiumError as error:
            raise UnreadableDocument(
                f"page {page} of {source.name} cannot be drawn ({error}); get or export it again."
            ) from error


def _draw(pdf: Any, number: int, boxes: Sequence[Box], width: int) -> Picture:
    with closing(pdf[number - 1]) as page:
        points_wide, points_high = (max(1.0, size) for size in page.get_size())
        scale = min(width / points_wide, (_MOST_PIXELS / (points_wide * points_high)) ** 0.5)
        bitmap = page.render(scale=scale, rev_byteorder=True)
        size = (bitmap.width, bitmap.height)
        with closing(bitmap):
            stride, step = bitmap.stride, bitmap.n_channels
            buffer = bytes(bitmap.buffer)
        lines = range(0, stride * size[1], stride)
        rows = [bytearray(buffer[at : at + step * size[0]]) for at in lines]
        if step != 3:
            rows = [_as_rgb(row, step) for row in rows]
        for box in boxes:
            _highlight(rows, box, size)
        return Picture(len(pdf), *size, tuple(boxes), _png(rows, size))


def _as_rgb(row: bytearray, step: int) -> bytearray:
    """Return a row of grey or RGBX pixels as RGB."""
    out = bytearray(len(row) // step * 3)
    for channel in range(3):
        out[channel::3] = row[min(channel, step - 1) :: step]
    return out


def _boxes(raw: Any, page: Any, characters: tuple[int, int]) -> list[Box]:
    """Return the boxes of characters ``start:end``, one for each piece of a line, rotation done."""
    from ctypes import byref, c_int

    wide, high = 10_000, 10_000  # device units to count fractions in
    boxes: list[Box] = []
    with closing(page.get_textpage()) as text:
        start, end = characters
        end = min(end, text.count_chars())
        if start >= end:
            return []
        for index in range(min(text.count_rects(start, end - start), _MOST_BOXES)):
            left, bottom, right, top = text.get_rect(index)
            corners = []
            for x, y in ((left - _MARGIN, top + _MARGIN), (right + _MARGIN, bottom - _MARGIN)):
                at_x, at_y = c_int(), c_int()
                raw.FPDF_PageToDevice(page, 0, 0, wide, high, 0, x, y, byref(at_x), byref(at_y))
                corners.append((at_x.value / wide, at_y.value / high))
            (x0, x1), (y0, y1) = (sorted(values) for values in zip(*corners, strict=True))
            box = (max(0.0, x0), max(0.0, y0), min(1.0, x1), min(1.0, y1))
            if box[0] < box[2] and box[1] < box[3]:
                boxes.append(box)
    return boxes


def _highlight(rows: list[bytearray], box: Box, size: tuple[int, int]) -> None:
    """Take blue out of a box: yellow paper, and the ink stays as it is."""
    left, right = int(box[0] * size[0]), min(size[0], int(box[2] * size[0]) + 1)
    for row in rows[int(box[1] * size[1]) : int(box[3] * size[1]) + 1]:
        blue = slice(3 * left + 2, 3 * right, 3)
        row[blue] = row[blue].translate(_DIM)


def _png(rows: list[bytearray], size: tuple[int, int]) -> bytes:
    """Return rows of RGB pixels as a PNG file."""

    def part(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(data, zlib.crc32(kind))
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    header = struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0)  # 8 bits a channel, RGB, no interlacing
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 6)  # no filter before each row
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", pixels) + part(b"IEND", b"")
