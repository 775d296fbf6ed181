"""Candidate sentences of a document, scored by how much their chunks are retrieved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drt_engine.runtime import Runtime
from drt_engine.store import ChunkRow, DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.summary.centrality import chunk_centrality
from drt_engine.summary.focus import focus_scores
from drt_engine.text.sentences import Span, is_heading, sentence_spans
from drt_engine.text.words import content_words

# Chunks whose graph is scored together: its matrix is this squared, so memory stays flat.
_PART = 1024


@dataclass(frozen=True)
class Candidate:
    """A sentence that may be picked, with its place and its scores.

    ``score`` ranks the sentences of a long text before the pick, ``weight`` (how early, how close
    to the focus) counts in it. ``retrieved`` is the centrality of the chunk, as a fraction of its
    document's once all are known. ``words`` are content words, ``length`` counts all words.
    """

    document: int
    start: int
    end: int
    words: frozenset[str]
    length: int
    score: float
    weight: float
    retrieved: float
    prose: bool


def sentence_candidates(
    runtime: Runtime,
    view: LibraryView,
    document: DocumentRow,
    focus: str | None,
    *,
    spans: Sequence[Span] | None = None,
) -> list[Candidate]:
    """Return the sentences of a document, or of some ``spans`` of it, with their scores.

    Sentences that are no prose are left out, unless there are no others.
    """
    chunk_ids = view.chunk_ids([document.id])
    landmarks = torch.cat([part.float() for _, part in view.scan_landmarks([document.id])])  # [C,E]
    focus_score = None if focus is None else focus_scores(runtime, view, document, focus, chunk_ids)
    candidates: list[Candidate] = []
    totals: list[float] = []
    for part in _parts(view, chunk_ids, spans):
        score = chunk_centrality(runtime, landmarks[part])  # [C of the part]
        relevance = torch.ones_like(score) if focus_score is None else focus_score[part]
        score = score * relevance
        totals.append(float(score.sum()))
        rows = view.chunk_rows(chunk_ids[part])
        sentences = _scored_sentences(rows, score, relevance, opens_text=part.start == 0)
        # The border of two parts cuts the sentence across it: the half on either side is dropped.
        last = len(sentences) - int(part.stop < len(chunk_ids))
        candidates += sentences[int(part.start > 0) : last]
    if spans is not None:
        candidates = [c for c in candidates if any(a <= c.start and c.end <= b for a, b in spans)]
    total = sum(totals)
    candidates = [replace(c, retrieved=c.retrieved / total) for c in candidates]
    # A document of tables, headings or scraps is summarised by what it has.
    return [c for c in candidates if c.prose] or candidates


def _parts(
    view: LibraryView, chunk_ids: Sequence[int], spans: Sequence[Span] | None
) -> list[slice]:
    """Return the runs of consecutive chunks whose graphs are scored together."""
    runs = [(0, len(chunk_ids))]
    if spans is not None:
        edges = [(row.start, row.start + len(row.text)) for row in view.chunk_rows(chunk_ids)]
        runs = []
        for a, b in spans:
            inside = [i for i, (low, high) in enumerate(edges) if low < b and a < high]
            # One more on each side, so that no sentence of the span is at a border.
            low, high = max(0, inside[0] - 1), min(len(chunk_ids), inside[-1] + 2)
            if runs and low <= runs[-1][1]:
                runs[-1] = (runs[-1][0], high)
            else:
                runs.append((low, high))
    return [
        slice(first, min(first + _PART, high))
        for low, high in runs
        for first in range(low, high, _PART)
    ]


def _scored_sentences(
    rows: Sequence[ChunkRow], score: Tensor, relevance: Tensor, *, opens_text: bool
) -> list[Candidate]:
    """Return the sentences of consecutive chunks [C] with the scores of the chunks they begin in.

    ``relevance`` is that to the focus. Where the chunks open the text, its first sentences are
    favoured, for they often say what it is about.
    """
    text = "".join(row.text for row in rows)
    base = rows[0].start
    edges = torch.tensor([row.start - base for row in rows])
    candidates = []
    for number, (start, end) in enumerate(sentence_spans(text)):
        sentence = text[start:end]
        length = len(sentence.split())
        chunk = int(torch.searchsorted(edges, torch.tensor(start), right=True)) - 1
        position = 1 + 2.0 / (1 + number) if opens_text else 1.0
        retrieved = float(score[chunk])
        candidates.append(
            Candidate(
                document=0,
                start=start + base,
                end=end + base,
                words=frozenset(content_words(sentence)),
                length=length,
                score=retrieved**0.5 * position,
                weight=position * float(relevance[chunk]) ** 0.5,
                retrieved=retrieved,
                prose=6 <= length <= 60 and not is_heading(sentence) and _is_prose(sentence),
            )
        )
    return candidates


def _is_prose(sentence: str) -> bool:
    letters = sum(c.isalpha() or c.isspace() for c in sentence)
    return letters > 0.75 * len(sentence) and "|" not in sentence
