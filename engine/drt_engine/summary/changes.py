"""Changes in a document since an older version of its file, as sentences of both.

The texts are compared by their words; the model only ranks the differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from drt_engine.answer.citations import CitationResult, cite
from drt_engine.documents import Source, open_document
from drt_engine.errors import ConfigError
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow, Store
from drt_engine.store.view import LibraryView
from drt_engine.summary.candidates import Candidate, sentence_candidates
from drt_engine.summary.differences import Difference, Wording, differences
from drt_engine.summary.options import SummaryOptions
from drt_engine.summary.result import ChangeResult, SummaryResult
from drt_engine.summary.sections import section_spans
from drt_engine.text.sentences import Span

NOTHING = "Nothing changed."


def summarize_changes(
    runtime: Runtime,
    store: Store,
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
    all_changes = differences(old_text, new_text)
    if options.section is not None:
        spans, _ = section_spans(view, row, options.section)
        all_changes = [d for d in all_changes if any(a <= d.at <= b for a, b in spans)]
    with runtime.computing():
        sentences = sentence_candidates(runtime, view, row, options.focus)
    candidates = {(c.start, c.end): c for c in sentences}
    wordings = {d: Wording.of(d, old_text, new_text) for d in all_changes}
    listed = all_changes
    if options.is_limited:
        listed = _most_important(wordings, candidates, options.budget)
    changes = tuple(_change(view, row, d, wordings[d], candidates) for d in listed)
    return SummaryResult(
        text="\n".join(wordings[d].line() for d in listed) if all_changes else NOTHING,
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
    wordings: Mapping[Difference, Wording], candidates: Mapping[Span, Candidate], budget: int
) -> list[Difference]:
    """Return the differences that fit in ``budget`` words, taken by importance, in text order."""
    scores = sorted(candidate.score for candidate in candidates.values())
    # A sentence without a score, such as a removed one, counts as much as the median sentence.
    median = scores[len(scores) // 2] if scores else 1.0
    importance = {d: _importance(d, wording, candidates, median) for d, wording in wordings.items()}
    fitting: list[Difference] = []
    for difference in sorted(wordings, key=lambda d: -importance[d]):
        length = len(wordings[difference].line().split())
        if length <= budget:
            fitting.append(difference)
            budget -= length
    return sorted(fitting, key=lambda d: (d.at, d.kind))


def _importance(
    difference: Difference,
    wording: Wording,
    candidates: Mapping[Span, Candidate],
    median: float,
) -> float:
    """Return the sentence's score, doubled for a change: it contradicts what the reader knows.

    A change of nothing but the number that a clause begins with counts a tenth.
    """
    candidate = candidates.get(difference.new) if difference.new is not None else None
    score = candidate.score if candidate is not None else median
    if difference.kind == "changed":
        return score * (0.1 if wording.is_renumbered else 2.0)
    return score


def _change(
    view: LibraryView,
    row: DocumentRow,
    difference: Difference,
    wording: Wording,
    candidates: Mapping[Span, Candidate],
) -> ChangeResult:
    new: CitationResult | None = None
    if difference.new is not None:
        candidate = candidates.get(difference.new)
        probability = candidate.retrieved if candidate is not None else 0.0
        new = cite(view, row, *difference.new, probability)
    return ChangeResult(difference.kind, wording.old, new)
