"""What one retrieval looks up in the whole library, so that remote shards are asked once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Lookup:
    """The words and the landmarks that one retrieval needs.

    ``words`` are a question's, of which the best ``limit`` chunks are needed; ``None`` where they
    were searched before. ``query`` [E] fp32 is compared with all landmarks, of which the best
    ``count`` are needed. Only ``document_ids``, and only ``chunk_ids``, where they are given.
    """

    words: str | None = None
    limit: int = 0
    query: Tensor | None = None
    count: int = 0
    document_ids: Sequence[str] | None = None
    chunk_ids: Collection[int] | None = None
