"""Tile shapes of the Triton kernels of grouped cross-attention.

A fixed choice by shape, and what timing chose where it was asked for. Knows nothing of Triton, so
it can be imported and tested without.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from drt_kernels.launch import power_of_two

# One tile holds all keys of a chunk up to this length; longer chunks are read block by block.
WHOLE_CHUNK = 128
# wgmma multiplies 64 rows at a time, the older instruction 16.
TAIL = 16


@dataclass(frozen=True)
class Tiles:
    """How one kernel cuts its work.

    ``rows`` and ``keys``: query rows and keys in a tile; ``tail``: further rows that the same
    program takes; ``warps`` of a program; ``stages`` of its software pipeline; ``registers``: the
    most of a thread, where it matters.
    """

    rows: int
    tail: int
    keys: int
    warps: int
    stages: int
    registers: int | None = None

    def count(self, rows: int) -> int:
        """Return how many tiles cover ``rows`` query rows; the tail belongs to the only tile."""
        return 1 if self.tail else -(-rows // self.rows)

    def sizes(self, size: int) -> dict[str, int]:
        """Return the block sizes of a kernel for heads of ``size``, as its arguments."""
        return {
            "D": size,
            "BLOCK_D": power_of_two(size),
            "BLOCK_M": self.rows,
            "TAIL": self.tail,
            "BLOCK_S": self.keys,
        }

    def options(self) -> dict[str, int | None]:
        """Return what a launch tells the compiler."""
        return {"num_warps": self.warps, "num_stages": self.stages, "maxnreg": self.registers}


@dataclass(frozen=True)
class Problem:
    """What the choice of tiles depends on.

    Query ``rows`` per key head (T * H / Hk), ``keys`` in a chunk, head ``size`` and ``bytes`` of an
    element.
    """

    rows: int
    keys: int
    size: int
    bytes: int

    @classmethod
    def of(cls, query: Tensor, keys: Tensor) -> Problem:
        """Return the problem of ``query`` [N, T, H, D] and ``keys`` [P, S, Hk, D]."""
        _, tokens, heads, size = query.shape
        groups = keys.shape[2]
        return cls(tokens * heads // groups, keys.shape[1], size, query.element_size())


_MEASURED: dict[tuple[str, Problem], Tiles] = {}


def tiles_for(kernel: str, problem: Problem) -> Tiles:
    """Return the tiles of ``kernel``: as measured by ``tune_gca``, else by rule."""
    return _MEASURED.get((kernel, problem)) or rule(kernel, problem)


def remember(kernel: str, problem: Problem, tiles: Tiles) -> None:
    """Use these tiles from now on, in this process."""
    _MEASURED[kernel, problem] = tiles


def rule(kernel: str, problem: Problem) -> Tiles:
    """Return tiles that are right for any problem and fit a GPU's registers and shared memory.

    65 rows (64 tokens and a landmark) are one tile of 64 and a tail of 16: a tile of 128 would
    leave half the matrix units' work unused, a second tile would read all keys again.
    """
    full = problem.bytes == 4  # no tensor cores: products of small tiles in registers
    wide = problem.size > 64
    rows = power_of_two(problem.rows, least=16, most=32 if full else 128)
    most_keys = 64 if full or wide else WHOLE_CHUNK
    keys = power_of_two(problem.keys, least=16, most=most_keys)
    tail = 0
    if not full and 64 < problem.rows <= 64 + TAIL and problem.keys <= keys:
        rows, tail = 64, TAIL
    if kernel == "memory":
        # Two accumulators of keys x size live in registers, so it is keys that are cut.
        rows, keys = min(rows, 64), min(keys, 32 if full else 64)
    warps = 8 if full or rows == 128 else 4
    stages = 2 if full or (rows + keys) * problem.size > 128 * 128 else 3
    # 180 registers would fit without it, and then two programs share a multiprocessor; three do so.
    registers = 168 if kernel == "forward" and tail and not wide else None
    return Tiles(rows, tail, keys, warps, stages, registers)


def candidates(kernel: str, problem: Problem) -> list[Tiles]:
    """Return the few tiles worth timing, the rule's first."""
    first = rule(kernel, problem)
    tiles = [first, *(replace(first, stages=stages) for stages in (2, 3, 4))]
    if first.registers:
        tiles.append(replace(first, registers=None))
    if first.rows >= 64:
        tiles.append(replace(first, warps=12 - first.warps, registers=None))  # 4 for 8, 8 for 4
    if first.tail and kernel != "memory":
        tiles.append(replace(first, rows=128, tail=0, warps=8, registers=None))
    return list(dict.fromkeys(tiles))
