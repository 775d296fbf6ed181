"""Codes for landmarks that are scanned again and again, made a few at a time.

Whoever scans once does not wait for codes; whoever goes on never waits for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from drt_kernels.scan.landmarks import Codes, Landmarks, codes_of, codes_pay, join_codes

CODED_ROWS = 8_192  # coded in one scan, so that no question waits long for it


class LandmarkCoder:
    """The parts of a landmark table [n, E] fp16, which get int8 codes one after the other."""

    def __init__(self, parts: Iterable[Tensor]) -> None:
        self.parts = [Landmarks(part) for part in parts]
        self._coded = -1  # parts that have codes; -1 before the first scan
        self._pieces: list[Codes] = []  # of the next part, as far as they were made

    def advance(self) -> None:
        """Encode ``CODED_ROWS`` more landmarks as int8, from the second call on."""
        if self._coded == len(self.parts):
            return
        if self._coded < 0:
            self._coded = 0
            return
        part = self.parts[self._coded]
        at = sum(len(piece) for piece in self._pieces)
        rows = part.rows[at : at + CODED_ROWS]
        codes = codes_of(rows)
        first = self._coded == at == 0
        if codes is None or (first and not codes_pay(rows, codes)):
            self._coded, self._pieces = len(self.parts), []  # not on this processor
            return
        self._pieces.append(codes)
        if at + len(rows) == len(part):
            self.parts[self._coded] = Landmarks(part.rows, join_codes(self._pieces).pack())
            self._coded, self._pieces = self._coded + 1, []
