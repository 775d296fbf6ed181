"""Values of a page's form fields, and notes that were stuck on it, which its text lacks.

Knows PDFium's annotations. A value becomes a line beside its label.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from drt_engine.documents.pdf.lines import Line

_TICKED, _UNTICKED = "\u2612", "\u2610"
_MOST = 2000  # annotations of a page
_LONGEST = 4000  # characters of a value
_BESIDE = 40.0  # points between a tick box and its label
_ABOVE = 30.0  # points between a field and a label above it
_CHECK_BOX, _RADIO, _BUTTON, _SIGNATURE = 2, 3, 1, 7  # FPDF_FORMFIELD_
_TEXT, _FREE_TEXT, _WIDGET = 1, 3, 20  # FPDF_ANNOT_
_MARKED = (8, 9, 10, 11, 12)  # highlights and the like
_STICKY = (_TEXT, _FREE_TEXT, *_MARKED)

Box = tuple[float, float, float, float]  # left, bottom, right, top


def fields_and_notes(
    raw: Any, page: Any, form: Any, lines: Sequence[Line]
) -> tuple[list[Line], list[str]]:
    """Return the lines of a page with those of its fields, and the texts of its notes.

    ``form`` is PDFium's handle of the document's form, None where it has none.
    """
    count = min(raw.FPDFPage_GetAnnotCount(page), _MOST)
    values: list[tuple[str, Box]] = []
    notes: list[str] = []
    for number in range(count):
        with _annotation(raw, page, number) as annotation:
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            if kind == _WIDGET and form is not None:
                value = _value(raw, form, annotation)
                if value:
                    values.append((value, _box(raw, annotation)))
            elif kind in _STICKY:
                text = _string(
                    lambda buffer, size: raw.FPDFAnnot_GetStringValue(
                        annotation, b"Contents", buffer, size
                    )
                )  # noqa: B023  called at once
                notes += [text] if text else []
    return [*lines, *(_line(value, box, lines) for value, box in values)], notes


@contextmanager
def _annotation(raw: Any, page: Any, number: int) -> Iterator[Any]:
    annotation = raw.FPDFPage_GetAnnot(page, number)
    try:
        yield annotation
    finally:
        raw.FPDFPage_CloseAnnot(annotation)


def _value(raw: Any, form: Any, annotation: Any) -> str:
    """Return what a field holds; a box for ticks is one that is ticked, or not."""
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in (_BUTTON, _SIGNATURE):
        return ""
    if kind in (_CHECK_BOX, _RADIO):
        return _TICKED if raw.FPDFAnnot_IsChecked(form, annotation) else _UNTICKED
    return _string(
        lambda buffer, size: raw.FPDFAnnot_GetFormFieldValue(form, annotation, buffer, size)
    )


def _string(read: Callable[[Any, int], int]) -> str:
    """Return a UTF-16 string of PDFium, which is asked for its size first."""
    size = min(read(None, 0), 2 * _LONGEST)
    if size <= 2:
        return ""
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    read(buffer, size)
    data = bytes(buffer)[: size - 2]
    return " ".join(data.decode("utf-16-le", "replace").replace("\0", "").split())


def _box(raw: Any, annotation: Any) -> Box:
    rectangle = raw.FS_RECTF()
    raw.FPDFAnnot_GetRect(annotation, rectangle)
    return rectangle.left, rectangle.bottom, rectangle.right, rectangle.top


def _line(value: str, box: Box, lines: Sequence[Line]) -> Line:
    """Return a value as a line that is read with its label: before it, above it, or behind a box.

    It has the label's height and its place in the content, so that both are one row.
    """
    left, bottom, right, top = box
    middle = (bottom + top) / 2
    row = [line for line in lines if line.y0 <= top and line.y1 >= bottom]
    before = max((ln for ln in row if ln.x0 <= left), key=lambda ln: ln.x1, default=None)
    behind = min((ln for ln in row if ln.x0 >= left), key=lambda ln: ln.x0, default=None)
    above = min(
        (ln for ln in lines if 0 <= ln.y0 - top <= _ABOVE and ln.x0 <= right and ln.x1 >= left),
        key=lambda ln: ln.y0,
        default=None,
    )
    is_tick = value in (_TICKED, _UNTICKED)
    text = value
    if is_tick and behind is not None and behind.x0 - right <= _BESIDE and before is None:
        return _beside(text, behind.index - 1, left, behind)
    if before is not None:
        return _beside(text, before.index, max(before.x1, left), before)
    if above is not None:
        height = above.height
        return Line(
            text, above.index, left, right, above.y0 - 1.2 * height, above.y0 - 0.2 * height
        )
    height = min(top - bottom, 12.0)
    return Line(text, 1 << 30, left, right, middle - height / 2, middle + height / 2)


def _beside(text: str, index: int, x0: float, label: Line) -> Line:
    return Line(text, max(0, index), x0, x0 + len(text) * label.height / 2, label.y0, label.y1)
