"""Landmarks as a scan takes them: fp16, and beside it, once they were coded, an int8 copy.

The copy is a quarter of the work on a CPU: half the bytes, and products of integers. It only
preselects candidates; the error of its scores is bounded, so no landmark is missed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

_ROWS = 1024  # coded at a time: in fp32 they still fit a cache
_LEVELS = 127
_TINY = 1e-30
_ROUNDING = 1 + 2.0**-12  # of norms and products in fp32
_TRIES = 5
_GAIN = 1.2  # less is not worth the memory
_MAX_PACKED = 512  # numbers of a landmark: sums of their products are exact in fp32


@dataclass(frozen=True)
class CodedQuery:
    """A query in eight bits: ``values`` [E, 1] times ``scale``.

    ``lost`` is the length of what rounding lost, ``length`` the length of the query itself.
    """

    values: Tensor
    scale: float
    lost: float
    length: float

    @classmethod
    def of(cls, query: Tensor) -> CodedQuery:
        """Code a query [E]."""
        values, scale, lost = code(query[None])
        return cls(values.T.contiguous(), scale.item(), lost, query.norm().item())


@dataclass(frozen=True)
class Codes:
    """Landmarks in eight bits: ``values`` [n, E] int8 times ``scales`` [n].

    ``lost`` bounds the length of what rounding lost of each, ``longest`` the lengths of the
    landmarks themselves. ``packed`` says that oneDNN has laid out the values as it multiplies them.
    """

    values: Tensor
    scales: Tensor
    lost: float
    longest: float
    packed: bool = False

    def __len__(self) -> int:
        return len(self.scales)

    def __getitem__(self, rows: slice) -> Codes:
        return replace(self, values=self.values[rows], scales=self.scales[rows])

    def rough(self, query: CodedQuery) -> tuple[Tensor, float]:
        """Return scores [n] fp32 of a query, and by how much each may be off."""
        # |q . l - q' . l'| <= |q| |l - l'| + |q - q'| |l'|
        off = query.length * self.lost + query.lost * (self.longest + self.lost)
        # Besides, the integer is rounded to fp32 and multiplied twice.
        rounding = 2.0**-22 * (query.length + query.lost) * (self.longest + self.lost)
        return self._products(query), (off + rounding) * _ROUNDING

    def pack(self) -> Codes:
        """Return the same laid out for this processor, where that is faster and as exact.

        Without VNNI, oneDNN adds pairs of products in 16 bits, which overflow.
        """
        if self.packed or self.values.shape[1] > _MAX_PACKED or not _has_vnni():
            return self
        try:
            return replace(
                self, values=torch.ops.onednn.qlinear_prepack(self.values, None), packed=True
            )
        except (AttributeError, RuntimeError, TypeError):  # another PyTorch
            return self

    def _products(self, query: CodedQuery) -> Tensor:
        """Return the products [n] of the coded query and the coded landmarks, fp32."""
        if self.packed:
            # Unsigned on one side: the query, moved by 128, which is taken off as its zero point.
            moved = (query.values.T.short() + 128).to(torch.uint8)
            zeros = torch.zeros(len(self), dtype=torch.int32)
            front = (moved, query.scale, 128, self.values, self.scales, zeros, None)
            scores: Tensor = torch.ops.onednn.qlinear_pointwise(
                *front, 1.0, 0, torch.float32, "none", [], ""
            )
            return scores[0]
        products = torch._int_mm(self.values, query.values)[:, 0]  # noqa: SLF001  no public name
        return products.float() * (self.scales * query.scale)


def _has_vnni() -> bool:
    supported = getattr(torch.cpu, "_is_vnni_supported", None)
    return bool(supported and supported())


def code(rows: Tensor) -> tuple[Tensor, Tensor, float]:
    """Code vectors [n, E] as int8 values [n, E] and scales [n] fp32; bound what is lost."""
    wide = rows.float()
    scales = wide.abs().amax(dim=1).clamp(min=_TINY) / _LEVELS
    values = (wide / scales[:, None]).round_()
    lost = torch.addcmul(wide, values, scales[:, None], value=-1).norm(dim=1).max().item()
    return values.to(torch.int8), scales, lost * _ROUNDING


def codes_of(rows: Tensor) -> Codes | None:
    """Return the codes of landmarks [n, E] fp16 on a CPU, n > 0; None for what cannot be coded.

    Landmarks that are not finite cannot: their codes would be off by an unknown amount.
    """
    if not len(rows) or rows.dtype != torch.float16 or rows.is_cuda:
        return None
    parts = []
    for block in rows.split(_ROWS):
        values, scales, lost = code(block)
        longest = block.float().norm(dim=1).max().item() * _ROUNDING
        if not math.isfinite(lost + longest):
            return None
        parts.append(Codes(values, scales, lost, longest))
    return join_codes(parts)


def join_codes(parts: Sequence[Codes]) -> Codes:
    """Join the codes of landmarks that follow one another."""
    return Codes(
        torch.cat([part.values for part in parts]),
        torch.cat([part.scales for part in parts]),
        max(part.lost for part in parts),
        max(part.longest for part in parts),
    )


@dataclass(frozen=True)
class Landmarks:
    """Landmarks ``rows`` [n, E], and their ``codes`` where they have some."""

    rows: Tensor
    codes: Codes | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: slice) -> Landmarks:
        if rows.indices(len(self)) == (0, len(self), 1):
            return self
        # Packed codes have no rows that could be taken out.
        codes = None if self.codes is None or self.codes.packed else self.codes[rows]
        return Landmarks(self.rows[rows], codes)

    def coded(self) -> Landmarks:
        """Return the same with codes, if this processor multiplies them faster than fp16."""
        codes = codes_of(self.rows)
        if codes is None or not codes_pay(self.rows, codes):
            return self
        return Landmarks(self.rows, codes.pack())


def codes_pay(rows: Tensor, codes: Codes) -> bool:
    """Return whether codes are multiplied faster than the landmarks they are of."""
    query = rows[0]
    coded, codes = CodedQuery.of(query.float()), codes.pack()
    try:
        plain_seconds = _seconds(lambda: rows @ query)
        coded_seconds = _seconds(lambda: codes.rough(coded))
    except RuntimeError:  # this processor, or this PyTorch, has no such product
        return False
    return coded_seconds * _GAIN < plain_seconds


def _seconds(work: Callable[[], object]) -> float:
    """Return the shortest time of a few runs, of this thread alone: others' work does not count."""
    times = []
    for _ in range(_TRIES):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times)
