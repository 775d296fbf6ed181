"""The reading order of a page's lines: columns from gutters, paragraphs from gaps.

Works on boxes alone; knows neither PDFium nor other pages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from drt_engine.documents.pdf.lines import Line

_GUTTER_POINTS = 6
_NARROWEST, _WIDEST = 60, 20_000  # points; beyond, boxes are broken
_COLUMN_LINES = 4
_COLUMN_CHARACTERS = 16
_CROSSING_SHARE = 0.2
_OVERLAP_SHARE = 0.5
_PARAGRAPH_GAP = 1.35
_FEW_GAPS = 4
_LEADING = 1.5
_LARGER = 1.12  # in heights of the usual line: a heading
_SAME_SIZE = 0.06
_HEADING_LEADING = 1.5  # in heights of a line: within a heading
_MOST_LINES = 5000  # beyond, a page is a drawing made of letters

Region = list[Line]


def reading_order(lines: Sequence[Line]) -> list[Region]:
    """The lines in regions to be read one after the other; text up a margin comes last."""
    upright = [line for line in lines if line.upright]
    turned = [line for line in lines if not line.upright]
    regions = _regions(upright, depth=0) if len(upright) <= _MOST_LINES else [upright]
    return [region for region in (*regions, turned) if region]


def _regions(lines: Region, depth: int) -> list[Region]:
    gutter = _gutter(lines) if depth < 4 and len(lines) >= 2 * _COLUMN_LINES else None
    if gutter is None:
        return [_single(lines)]
    regions: list[Region] = []
    for band in _bands(lines, gutter):
        left = [line for line in band if line.x1 <= gutter]
        right = [line for line in band if line.x0 >= gutter]
        if len(left) + len(right) < len(band):
            regions.append(_single(band))
        else:
            regions += [r for side in (left, right) if side for r in _regions(side, depth + 1)]
    return regions


def _gutter(lines: Region) -> float | None:
    """The x of a gap that few lines cross, with columns of text on both sides; None without."""
    left, right = min(line.x0 for line in lines), max(line.x1 for line in lines)
    if not _NARROWEST <= right - left <= _WIDEST:
        return None
    steps: dict[int, int] = defaultdict(int)
    for line in lines:
        steps[int(line.x0 - left)] += 1
        steps[int(line.x1 - left) + 1] -= 1
    best: tuple[int, int, float] | None = None
    covered, since = 0, 0
    for x in sorted(steps):
        candidate = (covered, since - x, left + (since + x) / 2)
        if x - since >= _GUTTER_POINTS and since and (best is None or candidate < best):
            best = candidate
        covered, since = covered + steps[x], x
    if best is None or best[0] > _CROSSING_SHARE * len(lines):
        return None
    return best[2] if _are_columns(lines, best[2]) else None


def _are_columns(lines: Region, gutter: float) -> bool:
    sides = [
        [line for line in lines if line.x1 <= gutter],
        [line for line in lines if line.x0 >= gutter],
    ]
    for side in sides:
        characters = sum(len(line.text) for line in side)
        if len(side) < _COLUMN_LINES or characters < _COLUMN_CHARACTERS * len(side):
            return False
    (low, high), (other_low, other_high) = (
        (min(line.y0 for line in side), max(line.y1 for line in side)) for side in sides
    )
    shared = min(high, other_high) - max(low, other_low)
    return shared >= _OVERLAP_SHARE * min(high - low, other_high - other_low)


def _bands(lines: Region, gutter: float) -> Iterable[Region]:
    """Lines from top to bottom in turns of those that cross the gutter and those that do not."""
    band: Region = []
    crossing = False
    for line in sorted(lines, key=lambda line: -line.middle):
        crosses = line.x0 < gutter < line.x1
        if band and crosses != crossing:
            yield band
            band = []
        band.append(line)
        crossing = crosses
    if band:
        yield band


def _single(lines: Region) -> Region:
    """One column: the order of the content, unless it jumps back to what stands above."""
    runs: list[Region] = []
    for line in sorted(lines, key=lambda line: line.index):
        jumps = not runs or line.middle > runs[-1][-1].middle + line.height
        if jumps:
            runs.append([])
        runs[-1].append(line)
    if len(runs) > 1:
        runs.sort(key=lambda run: (-round(run[0].middle / 4), run[0].x0))
    return [line for run in runs for line in run]


def separators(region: Region) -> list[str]:
    """What stands between each line and the next: a space, a line end or an empty line."""
    gaps = [_gap(one, two) for one, two in pairwise(region)]
    usual = _usual_gap([gap for gap in gaps if gap > 0], region)
    height = median(line.height for line in region) if region else 0.0
    marks = []
    for at, (one, two) in enumerate(pairwise(region)):
        if _same_row(one, two):
            marks.append(" ")
        else:
            marks.append("\n\n" if _parted(region, gaps, at, usual, height) else "\n")
    return marks


def _parted(region: Region, gaps: list[float], at: int, usual: float, height: float) -> bool:
    """Whether a paragraph begins after line `at`: behind a wide gap, or where the print changes.

    A gap is wide beside the usual one of the region, and beside those before and after it, as
    where a table of wider pitch fills most of a page.
    """
    one, two, gap = region[at], region[at + 1], gaps[at]
    if gap <= _LARGER * min(usual, height) or _one_heading(one, two, gap, height):
        return False
    if gap > _PARAGRAPH_GAP * usual:
        return True
    beside = min((g for g in gaps[max(0, at - 1) : at + 2] if g > 0), default=gap)
    if gap > _PARAGRAPH_GAP * beside and gap > _LEADING * height:
        return True
    return (one.height > _LARGER * height) != (two.height > _LARGER * height)


def _one_heading(one: Line, two: Line, gap: float, usual: float) -> bool:
    """Whether two lines in large print are one heading, whose lines are as far apart as it is."""
    large = min(one.height, two.height) > _LARGER * usual
    same = abs(one.height - two.height) <= _SAME_SIZE * one.height
    return large and same and gap <= _HEADING_LEADING * one.height


def _usual_gap(gaps: list[float], region: Region) -> float:
    """From line to line within a paragraph; judged by the size of the type where lines are few."""
    if not gaps:
        return 0.0
    if len(gaps) > _FEW_GAPS:
        return median(gaps)
    return min(median(gaps), _LEADING * median(line.height for line in region))


def _same_row(one: Line, two: Line) -> bool:
    """Whether `two` goes on to the right of `one`, as the cells of a table do."""
    if not (one.upright and two.upright and two.x0 >= one.x1):
        return False
    return abs(one.middle - two.middle) < 0.3 * min(one.height, two.height)


def _gap(one: Line, two: Line) -> float:
    """From line to line, measured at their lower edges; a larger heading counts by its own size."""
    return min(one.y0 - two.y0, one.y1 - two.y1)
