"""A page of a PDF file, drawn in the confined reader process: the parent's half.

Checks all that the process sends; the PNG itself is for a browser or a file and is not decoded.
"""

from __future__ import annotations

import base64
import math
from typing import Any

from drt_engine.documents.base import Source
from drt_engine.documents.formats import format_named
from drt_engine.documents.limits import RECOGNITION_MEMORY_BYTES, Limits
from drt_engine.documents.pdf.picture import MAX_WIDTH, MIN_WIDTH, Picture
from drt_engine.documents.pdf.scans import Box
from drt_engine.documents.registry import expect_readable
from drt_engine.documents.sandbox.process import Child
from drt_engine.errors import ConfigError, ScannedPages

_LIMITS = Limits(cpu_seconds=30, silence=60.0)
_RECOGNITION_LIMITS = Limits(cpu_seconds=180, memory_bytes=RECOGNITION_MEMORY_BYTES, silence=360.0)
_MOST_BYTES = 64 << 20
_MOST_BOXES = 1000
_SIDES = range(1, 100_000)


def page_picture(
    source: Source, *, page: int, characters: tuple[int, int] | None = None, width: int = 1200
) -> Picture:
    """Draw page ``page``, from 1, of a PDF, with ``characters`` of that page highlighted.

    Raises ConfigError for a width out of range, MissingExtra without PDFium, UnreadableDocument.
    """
    if not MIN_WIDTH <= width <= MAX_WIDTH:
        raise ConfigError(f"width is {width}, expected {MIN_WIDTH} to {MAX_WIDTH:,} pixels")
    pdf = format_named("pdf")
    expect_readable(pdf, source)
    asked = {"page": page, "characters": characters, "width": width}
    request = {"path": None, "name": source.name, "format": pdf.name, "picture": asked}
    child = Child(request, source, _LIMITS)
    try:
        try:
            head = child.frame()
        except ScannedPages:  # whose characters have to be found in its picture
            child = Child(request | {"recognise": True}, source, _RECOGNITION_LIMITS)
            head = child.frame()
        try:
            pages, wide, high, boxes = _checked(head)
        except (KeyError, TypeError, ValueError):
            raise child.refuse("its reader sent something that is no picture") from None
        return Picture(pages, wide, high, boxes, _data(child))
    finally:
        child.close()


def _checked(frame: dict[str, Any]) -> tuple[int, int, int, tuple[Box, ...]]:
    """Return number of pages, width, height and boxes; ValueError for what cannot be one."""
    pages, width, height, boxes = (frame[name] for name in ("pages", "width", "height", "boxes"))
    if not all(type(side) is int and side in _SIDES for side in (pages, width, height)):
        raise ValueError("a picture has a size")
    if not isinstance(boxes, list) or len(boxes) > _MOST_BOXES:
        raise ValueError("boxes are a list")
    for box in boxes:
        is_box = len(box) == 4 and all(isinstance(edge, int | float) for edge in box)
        if not is_box or not all(math.isfinite(edge) and 0 <= edge <= 1 for edge in box):
            raise ValueError("a box is four fractions")
    return pages, width, height, tuple((b[0], b[1], b[2], b[3]) for b in boxes)


def _data(child: Child) -> bytes:
    data = bytearray()
    while piece := child.frame().get("data"):
        try:
            data += base64.b64decode(str(piece), validate=True)
        except ValueError:
            raise child.refuse("its reader sent something that is no data") from None
        if len(data) > _MOST_BYTES:
            raise child.refuse("its reader sent more than a picture has")
    return bytes(data)
