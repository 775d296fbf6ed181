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
_UNEVEN = 10  # heights of lines in a column: more than any print has that is set in few sizes
_APART = 0.5  # of a line's height, between the middles of lines below each other
_BASE = 0.05  # of a line's height, between the feet of lines in one row
_HEADING_LEADING = 1.5  # in heights of a line: within a heading
_MOST_LINES = 5000  # beyond, a page is a drawing made of letters

Region = list[Line]


def reading_order(lines: Sequence[Line]) -> list[Region]:
    """Return the lines in regions to be read one after the other; text up a margin comes last."""
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
        left_lines = [line for line in band if line.x1 <= gutter]
        right_lines = [line for line in band if line.x0 >= gutter]
        if len(left_lines) + len(right_lines) < len(band):
            regions.append(_single(band))
        else:
            regions += [
                r for side in (left_lines, right_lines) if side for r in _regions(side, depth + 1)
            ]
    return regions


def _gutter(lines: Region) -> float | None:
    """Return the x of a gap that few lines cross, between columns of text; None without.

    A sweep over the lines' ends: ``covered`` is how many lines are above an x, so that the gap with
    the fewest, and of these the widest, is found in one pass.
    """
    left_edge, right_edge = min(line.x0 for line in lines), max(line.x1 for line in lines)
    if not _NARROWEST <= right_edge - left_edge <= _WIDEST:
        return None
    steps: dict[int, int] = defaultdict(int)
    for line in lines:
        steps[int(line.x0 - left_edge)] += 1
        steps[int(line.x1 - left_edge) + 1] -= 1
    best: tuple[int, int, float] | None = None
    covered, since = 0, 0
    for x in sorted(steps):
        candidate = (covered, since - x, left_edge + (since + x) / 2)
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
    (left_low, left_high), (right_low, right_high) = (
        (min(line.y0 for line in side), max(line.y1 for line in side)) for side in sides
    )
    shared = min(left_high, right_high) - max(left_low, right_low)
    return shared >= _OVERLAP_SHARE * min(left_high - left_low, right_high - right_low)


def _bands(lines: Region, gutter: float) -> Iterable[Region]:
    """Yield lines from top to bottom, in turn those that cross the gutter and those that do not."""
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
    """Return one column in the order of the content, unless that jumps back up the page."""
    runs: list[Region] = []
    for line in sorted(lines, key=lambda line: line.index):
        jumps = not runs or line.middle > runs[-1][-1].middle + line.height
        if jumps:
            runs.append([])
        runs[-1].append(line)
    if len(runs) > 1:
        from_top = sorted(lines, key=lambda line: -line.middle)
        if all(_is_apart(upper, lower) for upper, lower in pairwise(from_top)):
            return from_top  # a column, whatever the order of its content
        runs.sort(key=lambda run: (-round(run[0].middle / 4), run[0].x0))
    return [line for run in runs for line in run]


def _is_apart(upper: Line, lower: Line) -> bool:
    """Return whether two lines are below each other, not side by side."""
    return upper.middle - lower.middle > _APART * min(upper.height, lower.height)


def separators(region: Region) -> list[str]:
    """Return what to write between each line and the next: a space, a newline or an empty line."""
    gaps = [_gap(line, following) for line, following in pairwise(region)]
    usual = _usual_gap([gap for gap in gaps if gap > 0], region)  # negative: back up the page
    height = median(line.height for line in region) if region else 0.0
    # The boxes of some fonts are those of their letters, so that heights say nothing of the print.
    is_even = len({round(line.height, 1) for line in region}) < _UNEVEN
    marks = []
    for index, (line, following) in enumerate(pairwise(region)):
        if same_row(line, following):
            marks.append(" ")
        else:
            is_wide = gaps[index] > _PARAGRAPH_GAP * usual
            parted = _parted(region, gaps, index, usual, height) if is_even else is_wide
            marks.append("\n\n" if parted else "\n")
    return marks


def _parted(region: Region, gaps: list[float], index: int, usual: float, height: float) -> bool:
    """Return whether a paragraph begins after a line: a wide gap follows, or the print changes.

    A gap is wide beside the usual line of the region, and beside those before and after it, as
    where a table of wider pitch fills most of a page.
    """
    line, following, gap = region[index], region[index + 1], gaps[index]
    if gap <= _LARGER * min(usual, height) or _one_heading(line, following, gap, height):
        return False
    if gap > _PARAGRAPH_GAP * usual:
        return True
    beside = min((g for g in gaps[max(0, index - 1) : index + 2] if g > 0), default=gap)
    if gap > _PARAGRAPH_GAP * beside and gap > _LEADING * height:
        return True
    return (line.height > _LARGER * height) != (following.height > _LARGER * height)


def _one_heading(upper: Line, lower: Line, gap: float, usual: float) -> bool:
    """Return whether two lines in large print are one heading, with the line spacing of one."""
    large = min(upper.height, lower.height) > _LARGER * usual
    same = abs(upper.height - lower.height) <= _SAME_SIZE * upper.height
    return large and same and gap <= _HEADING_LEADING * upper.height


def _usual_gap(gaps: list[float], region: Region) -> float:
    """From line to line within a paragraph; judged by the size of the type where lines are few."""
    if not gaps:
        return 0.0
    if len(gaps) > _FEW_GAPS:
        return median(gaps)
    return min(median(gaps), _LEADING * median(line.height for line in region))


def same_row(left: Line, right: Line) -> bool:
    """Return whether ``right`` is beside ``left`` in the same row, as cells of a table are."""
    if not (left.upright and right.upright and right.x0 >= left.x1):
        return False
    if abs(left.middle - right.middle) < 0.3 * min(left.height, right.height):
        return True
    # Of fonts whose boxes are those of their letters, "a." is lower than "b", on the same base.
    return abs(left.y0 - right.y0) < _BASE * max(left.height, right.height)


def _gap(upper: Line, lower: Line) -> float:
    """From line to line, measured at their lower edges; a larger heading counts by its own size."""
    return min(upper.y0 - lower.y0, upper.y1 - lower.y1)
