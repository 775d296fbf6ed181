"""What summaries and lists of changes return."""

from __future__ import annotations

from dataclasses import dataclass

from drt_engine.results import Change, Citation


@dataclass(frozen=True)
class SummaryResult:
    """A summary and, in document order, the sentences that it consists of or is supported by.

    The probability of a sentence is the fraction of its document's retrievals that goes to its
    chunk. ``changes_omitted`` counts the changes for which the length left no room. ``about`` says
    in one line what is summarised, empty for a part of a document.
    """

    text: str
    mode: str
    sentences: tuple[Citation, ...]
    tokens_read: int
    changes: tuple[Change, ...] = ()
    changes_omitted: int = 0
    about: str = ""
