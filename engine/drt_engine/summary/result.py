"""What summaries and lists of changes return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from drt_engine.answer.citations import CitationResult


@dataclass(frozen=True)
class ChangeResult:
    """A sentence that differs between two versions: its place now, and its older text."""

    kind: Literal["added", "changed", "removed"]
    old: str
    new: CitationResult | None


@dataclass(frozen=True)
class SummaryResult:
    """A summary and, in document order, the sentences that it consists of or is supported by.

    The probability of a sentence is the fraction of its document's retrievals that goes to its
    chunk. ``changes_omitted`` counts the changes for which the length left no room.
    """

    text: str
    mode: str
    sentences: tuple[CitationResult, ...]
    tokens_read: int
    changes: tuple[ChangeResult, ...] = ()
    changes_omitted: int = 0
