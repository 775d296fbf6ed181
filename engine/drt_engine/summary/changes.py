"""Changes in a document since an older version of its file, as sentences of both.

The texts are compared by their words; the model only ranks the differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from drt_engine.answer.citations import cite
from drt_engine.documents import Source, open_document
from drt_engine.errors import ConfigError
from drt_engine.results import Change, Citation
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.summary.candidates import Candidate, sentence_candidates
from drt_engine.summary.differences import Wording, differences
from drt_engine.summary.options import SummaryOptions
from drt_engine.summary.result import SummaryResult
from drt_engine.summary.sections import section_spans

NOTHING = "Nothing changed."


def summarize_changes(
    runtime: Runtime,
    store: LibraryView,
    documents: Sequence[str],
    old: Path,
    options: SummaryOptions,
) -> SummaryResult:
    """List the changes in one document of the library since the version in the file ``old``.

    Without a length all changes are listed; with one, the most important that fit, and the others
    are counted. Reads a snapshot: writers do not change the document meanwhile. Raises
    ``ConfigError`` for several documents, ``DocumentError`` where the old file cannot be read,
    ``NotFound`` for a section that neither changed nor exists.
    """
    if len(documents) != 1:
        raise ConfigError(f"since compares one document with a file, {len(documents)} were named")
    if options.mode == "abstractive":
        raise ConfigError("mode is 'abstractive', expected 'auto' or 'extractive' with since")
    # Before the snapshot, for reading a file may take long.
    old_text = _file_text(old)
    with store.snapshot() as view:
        return _list_changes(runtime, view, view.document(documents[0]), old_text, options)


def _list_changes(
    runtime: Runtime, view: LibraryView, row: DocumentRow, old_text: str, options: SummaryOptions
) -> SummaryResult:
    new_text = "".join(view.iter_text(row.id))
    all_changes = [Wording.of(d, old_text, new_text) for d in differences(old_text, new_text)]
    if options.section is not None or options.pages is not None:
        spans, _ = section_spans(view, row, options.section, options.pages)
        all_changes = [
            change
            for change in all_changes
            if any(start <= change.difference.at <= end for start, end in spans)
        ]
    with runtime.computing():
        sentences = sentence_candidates(runtime, view, row, options.focus)
    # By their ends, for candidates lack the number of the item that they may be.
    candidates = {c.end: c for c in sentences}
    listed = all_changes
    if options.is_limited:
        listed = _most_important(all_changes, candidates, options.budget)
    changes = tuple(_cited_change(view, row, change, candidates) for change in listed)
    return SummaryResult(
        text="\n".join(change.line() for change in listed) if all_changes else NOTHING,
        mode="changes",
        sentences=tuple(change.new for change in changes if change.new is not None),
        tokens_read=row.tokens,
        changes=changes,
        changes_omitted=len(all_changes) - len(listed),
    )


def _file_text(file: Path) -> str:
    with open_document(Source.from_path(file)) as document:
        return "".join(block.text for block in document.blocks)


def _most_important(
    changes: Sequence[Wording], candidates: Mapping[int, Candidate], budget: int
) -> list[Wording]:
    """Return the changes that fit in ``budget`` words, taken by importance, in text order."""
    scores = sorted(math.exp(candidate.score) for candidate in candidates.values())
    # A sentence without a score, such as a removed one, counts as much as the median sentence.
    median = scores[len(scores) // 2] if scores else 1.0
    fitting: list[Wording] = []
    for change in sorted(changes, key=lambda c: -_importance(c, candidates, median)):
        length = len(change.line().split())
        if length <= budget:
            fitting.append(change)
            budget -= length
    return sorted(fitting, key=lambda c: (c.difference.at, c.difference.kind))


def _importance(change: Wording, candidates: Mapping[int, Candidate], median: float) -> float:
    """Return the sentence's score, doubled for a change: it contradicts what the reader knows.

    A change of nothing but the number that a clause begins with counts a tenth.
    """
    span = change.difference.new
    candidate = None if span is None else candidates.get(span[1])
    score = median if candidate is None else math.exp(candidate.score)
    if change.difference.kind == "changed":
        return score * (0.1 if change.is_renumbered else 2.0)
    return score


def _cited_change(
    view: LibraryView, row: DocumentRow, change: Wording, candidates: Mapping[int, Candidate]
) -> Change:
    new: Citation | None = None
    span = change.difference.new
    if span is not None:
        candidate = candidates.get(span[1])
        probability = 0.0 if candidate is None else candidate.retrieved
        new = cite(view, row, *span, probability)
    return Change(change.difference.kind, change.old, new)
