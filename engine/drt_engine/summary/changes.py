"""What changed between two versions of a document, told in sentences of both.

The texts are compared sentence by sentence; the model only ranks what differs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from drt_engine.answer.citations import CitationResult, cite
from drt_engine.documents import Source, open_document
from drt_engine.errors import ConfigError
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow, Store
from drt_engine.store.view import LibraryView
from drt_engine.summary.summarize import (
    Candidate,
    ChangeResult,
    SummaryOptions,
    SummaryResult,
    candidates,
    section_spans,
)
from drt_engine.text.sentences import sentence_spans

NOTHING = "Nothing changed."
_ALIKE = 0.5  # share of their words from which two sentences are versions of one
_FARTHEST = 100  # old sentences compared with a new one: a rewritten book takes seconds
_NUMBER = re.compile(r"\A\(?\d+(\.\d+)*[.)]?\s")
_LABELS = {"added": "Added:", "changed": "Changed:", "removed": "Removed:"}

Span = tuple[int, int]


@dataclass(frozen=True)
class Difference:
    """A sentence of either text or of both: its places, None where it is not."""

    kind: Literal["added", "changed", "removed"]
    old: Span | None
    new: Span | None
    at: int  # where in the new text it is, or would be


def differences(old: str, new: str) -> list[Difference]:
    """Return the sentences by which two texts differ, in the new one's order.

    White space does not count.
    """
    before, after = sentence_spans(old), sentence_spans(new)
    old_words = [" ".join(old[a:b].split()) for a, b in before]
    new_words = [" ".join(new[a:b].split()) for a, b in after]
    matcher = difflib.SequenceMatcher(None, old_words, new_words, autojunk=False)
    out: list[Difference] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            at = after[c][0] if c < len(after) else len(new)
            pairs = _pairs(old_words[a:b], new_words[c:d])
            out += _told(before[a:b], after[c:d], pairs, at)
    return out


def _pairs(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Which new sentence is a version of which old one, in order: new -> old."""
    pairs: dict[int, int] = {}
    first = 0
    for number, sentence in enumerate(new):
        words = sentence.split()
        for other in range(first, min(first + _FARTHEST, len(old))):
            ratio = difflib.SequenceMatcher(None, old[other].split(), words, autojunk=False)
            if ratio.quick_ratio() >= _ALIKE and ratio.ratio() >= _ALIKE:
                pairs[number], first = other, other + 1
                break
    return pairs


def _told(
    old: Sequence[Span], new: Sequence[Span], pairs: dict[int, int], at: int
) -> Iterator[Difference]:
    for number, span in enumerate(old):
        if number not in pairs.values():
            yield Difference("removed", span, None, at)
    for number, span in enumerate(new):
        was = pairs.get(number)
        if was is None:
            yield Difference("added", None, span, span[0])
        else:
            yield Difference("changed", old[was], span, span[0])


def summarize_changes(
    runtime: Runtime,
    store: Store,
    documents: Sequence[str],
    old: Path,
    options: SummaryOptions,
) -> SummaryResult:
    """Summarise what changed in one document of the library since the version in file ``old``.

    All changes are listed; where a length is set, the most important that fit, and the others are
    counted. The document stays what it is at this moment, whatever writers do meanwhile.
    Raises ``ConfigError`` for several documents, ``DocumentError`` where the old file cannot be
    read, ``NotFound`` for a section that neither changed nor exists.
    """
    if len(documents) != 1:
        raise ConfigError(f"since compares one document with a file, {len(documents)} were named")
    if options.mode == "abstractive":
        raise ConfigError("mode is 'abstractive', expected 'auto' or 'extractive' with since")
    before = _text(old)  # which may take long, and is no part of the library
    with store.snapshot() as view:
        return _summarised(runtime, view, view.document(documents[0]), before, options)


def _summarised(
    runtime: Runtime, store: LibraryView, row: DocumentRow, before: str, options: SummaryOptions
) -> SummaryResult:
    after = "".join(store.iter_text(row.id))
    found = differences(before, after)
    if options.section is not None:
        spans, _ = section_spans(store, row, options.section)
        found = [one for one in found if any(a <= one.at <= b for a, b in spans)]
    with runtime.computing():
        scores = {(c.start, c.end): c for c in candidates(runtime, store, row, options.focus)}
    chosen = found
    if options.is_limited:
        chosen = _chosen(found, scores, (before, after), options.budget)
    changes = tuple(_change(store, row, one, before, scores) for one in chosen)
    lines = [_line(one.kind, *_sentences(one, (before, after))) for one in chosen]
    text = "\n".join(lines) if found else NOTHING
    cited = tuple(change.new for change in changes if change.new is not None)
    omitted = len(found) - len(chosen)
    return SummaryResult(text, "changes", cited, row.tokens, changes, changes_omitted=omitted)


def _text(file: Path) -> str:
    source = Source.from_path(file)
    with open_document(source) as document:
        return "".join(block.text for block in document.blocks)


def _chosen(
    found: Sequence[Difference],
    scores: dict[Span, Candidate],
    texts: tuple[str, str],
    budget: int,
) -> list[Difference]:
    """Differences that fit in so many words, those the document leans on most first."""
    middle = sorted(c.score for c in scores.values())[len(scores) // 2] if scores else 1.0
    chosen: list[Difference] = []
    ranked = [(_score(one, scores, middle, _sentences(one, texts)), one) for one in found]
    for _, one in sorted(ranked, key=lambda item: -item[0]):
        length = len(_line(one.kind, *_sentences(one, texts)).split())
        if length <= budget:
            chosen.append(one)
            budget -= length
    return sorted(chosen, key=lambda one: (one.at, one.kind))


def _score(
    one: Difference, scores: dict[Span, Candidate], middle: float, told: tuple[str, str]
) -> float:
    """A change counts more than an addition: it contradicts what a reader knows.

    But little where it is only of the number that a clause begins with.
    """
    found = scores.get(one.new) if one.new is not None else None
    value = found.score if found is not None else middle
    if one.kind == "changed":
        old, new = (_NUMBER.sub("", sentence, count=1) for sentence in told)
        return value * (0.1 if old == new else 2.0)
    return value


def _sentences(one: Difference, texts: tuple[str, str]) -> tuple[str, str]:
    """The old and the new sentence on one line each, empty where there is none."""
    places = zip((one.old, one.new), texts, strict=True)
    old, new = ("" if at is None else " ".join(text[slice(*at)].split()) for at, text in places)
    return old, new


def _change(
    store: LibraryView,
    row: DocumentRow,
    one: Difference,
    before: str,
    scores: dict[Span, Candidate],
) -> ChangeResult:
    new: CitationResult | None = None
    if one.new is not None:
        found = scores.get(one.new)
        new = cite(store, row, *one.new, found.share if found is not None else 0.0)
    return ChangeResult(one.kind, _sentences(one, (before, ""))[0], new)


def _line(kind: str, old: str, new: str) -> str:
    return f"{_LABELS[kind]} {_merged(old, new) if kind == 'changed' else new or old}"


def _merged(old: str, new: str) -> str:
    """The new sentence, with what stood there before in brackets after each change."""
    before, after = old.split(), new.split()
    out: list[str] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        out += after[c:d]
        if tag != "equal" and b > a:
            out.append(f"[was: {' '.join(before[a:b])}]")
    return " ".join(out)
