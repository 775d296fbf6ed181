"""The on-disk library: FORMAT.md is the specification, ``Store`` opens one; imports no torch."""

from __future__ import annotations

from drt_engine.store.store import Store
from drt_engine.store.types import (
    ChunkBatch,
    ChunkRow,
    ChunkText,
    DocumentRow,
    RecordLayout,
    SegmentRow,
    SessionRow,
    TokenBatch,
)

__all__ = [
    "ChunkBatch",
    "ChunkRow",
    "ChunkText",
    "DocumentRow",
    "RecordLayout",
    "SegmentRow",
    "SessionRow",
    "Store",
    "TokenBatch",
]
