"""Pages of a PDF that are pictures: whether one is, and the lines that are recognised in it.

Knows PDFium's objects and pictures; knows nothing of columns, margins or sections.
"""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from typing import Any

from drt_engine.documents.pdf.lines import Line
from drt_engine.documents.recognition import Recogniser
from drt_engine.errors import ScannedPages

_IMAGE = 3
_MOST_IMAGES = 500
_COVERED = 0.3  # of a page, by its pictures
_SCALE = 200 / 72  # pixels to a point: 200 to an inch
_SIDE = 2400.0  # pixels of the longer side, at most


Box = tuple[float, float, float, float]  # left, top, right, bottom, as fractions of the page


class Scans:
    """What is done with pages that are pictures: their lines are recognised, once for each page.

    Without a recogniser they have none; with ``refused`` they raise ScannedPages.
    """

    def __init__(self, recogniser: Recogniser | None = None, *, refused: bool = False) -> None:
        self._recogniser, self._refused = recogniser, refused
        self._pages: dict[int, list[Line]] = {}

    @property
    def are_read(self) -> bool:
        """Whether pictures are looked at."""
        return self._refused or self._recogniser is not None

    def lines(self, name: str, index: int, page: Any, corner: tuple[float, float]) -> list[Line]:
        """Return the lines of the open page ``index``; raises ScannedPages.

        ``corner`` is the left upper one of the page as it is shown, in points.
        """
        if self._recogniser is None:
            raise ScannedPages(f"page {index + 1} of {name} is a picture")
        if index not in self._pages:
            self._pages[index] = _recognised(self._recogniser, page, corner)
        return self._pages[index]

    def boxes(self, name: str, index: int, page: Any, characters: tuple[int, int]) -> list[Box]:
        """Return where characters of the open page ``index`` are in its picture, line by line."""
        start, end = characters
        wide, high = page.get_size()
        boxes = []
        for line in self.lines(name, index, page, (0.0, high)):
            first, last = max(start, line.index), min(end, line.index + len(line.text))
            if first >= last:
                continue
            step = (line.x1 - line.x0) / len(line.text)
            x0, x1 = (line.x0 + step * (at - line.index) for at in (first, last))
            edges = (x0 / wide, 1 - line.y1 / high, x1 / wide, 1 - line.y0 / high)
            left, top, right, bottom = (min(1.0, max(0.0, edge)) for edge in edges)
            if left < right and top < bottom:
                boxes.append((left, top, right, bottom))
        return boxes

    def __contains__(self, number: int) -> bool:
        """Return whether lines of page ``number``, from 1, were recognised."""
        return bool(self._pages.get(number - 1))


def is_picture(page: Any) -> bool:
    """Return whether images cover a good part of a page."""
    left, bottom, right, top = page.get_bbox()
    covered = 0.0
    for image in islice(page.get_objects((_IMAGE,), max_depth=2), _MOST_IMAGES):
        x0, y0, x1, y1 = image.get_bounds()
        width, height = min(x1, right) - max(x0, left), min(y1, top) - max(y0, bottom)
        covered += max(0.0, width) * max(0.0, height)
    size = (right - left) * (top - bottom)
    return bool(covered >= _COVERED * size > 0)


def _recognised(recogniser: Recogniser, page: Any, corner: tuple[float, float]) -> list[Line]:
    scale = min(_SCALE, _SIDE / max(1.0, *page.get_size()))
    with closing(page.render(scale=scale)) as bitmap:  # blue, green and red, or grey
        pixels = bitmap.to_numpy()
        if bitmap.n_channels == 1:
            pixels = pixels.reshape(bitmap.height, bitmap.width, 1)[:, :, [0, 0, 0]]
        return recogniser.lines(pixels[:, :, :3].copy(), scale=scale, left=corner[0], top=corner[1])
