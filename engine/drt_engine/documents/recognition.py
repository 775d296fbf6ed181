"""The lines of text in a picture, through the extra ``ocr`` (RapidOCR on ONNX Runtime).

A ``Recogniser`` is made before its process is confined: it reads models, and starts no thread
afterwards. Its lines are those of the PDF reader, which lays them out as columns and tables.
"""

from __future__ import annotations

import importlib
from itertools import accumulate
from typing import Any

from drt_engine.documents.pdf.lines import Line

PACKAGE = "rapidocr"
RECOGNISED = "recognised words alone are read, which may be wrong"  # of a picture
_LEAST_SCORE = 0.5
_SIDE = 64  # pixels of the picture that everything is tried on
_SETTINGS = {
    "Global.log_level": "critical",
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
}


class Recogniser:
    """Models that find and read lines; in use for one document."""

    def __init__(self) -> None:
        numpy, cv2, library = map(importlib.import_module, ("numpy", "cv2", PACKAGE))
        cv2.setNumThreads(0)
        self._engine: Any = library.RapidOCR(params=_SETTINGS)
        # What is imported and opened at the first picture only would be refused later.
        blank = numpy.full((_SIDE, 4 * _SIDE, 3), 255, dtype=numpy.uint8)
        cv2.putText(blank, "word", (_SIDE // 4, _SIDE // 2), cv2.FONT_HERSHEY_SIMPLEX, 1, (0, 0, 0))
        self._engine(blank)

    def lines(self, pixels: Any, *, scale: float, left: float, top: float) -> list[Line]:
        """Return the lines of a picture: uint8 (height, width, 3), ``scale`` pixels to a point.

        ``left`` and ``top`` are the place of its corner, in points, y upwards. The characters of
        all lines are numbered from 0, one number left out between two lines.
        """
        found = self._engine(pixels)
        if found.boxes is None:
            return []
        read = [
            (str(text).strip(), box)
            for box, text, score in zip(found.boxes, found.txts, found.scores, strict=True)
            if score >= _LEAST_SCORE and str(text).strip()
        ]
        starts = accumulate((len(text) + 1 for text, _ in read), initial=0)
        lines = []
        for (text, box), start in zip(read, starts, strict=False):
            xs = [left + float(x) / scale for x, _ in box]
            ys = [top - float(y) / scale for _, y in box]
            lines.append(Line(text, start, min(xs), max(xs), min(ys), max(ys)))
        return lines
