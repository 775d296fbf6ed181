"""Candidate sentences of a document: those that are prose, scored by what tells their worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from drt_engine.documents.structure.block_kinds import BlockKinds
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.summary.centrality import chunk_centrality
from drt_engine.summary.focus import focus_scores, share_meant
from drt_engine.summary.sentences.features import Described, described_sentences
from drt_engine.summary.sentences.prose import (
    PROSE,
    PlacedSentence,
    placed_sentences,
    quotable,
    section_names,
)
from drt_engine.summary.sentences.weights import sentence_score
from drt_engine.text.sentences import Span
from drt_engine.text.words import content_words

# Chunks whose graph is scored together: its matrix is this squared, so memory stays flat.
_PART = 1024
# Weights of the focus, by its retrieval of a sentence's chunk, and by its words in the sentence and
# in the name of its section.
_CHUNK_FOCUS, _WORD_FOCUS, _SECTION_FOCUS = 0.25, 1.0, 1.0


@dataclass(frozen=True)
class Candidate:
    """A sentence that may be picked, with its place and its score.

    ``words`` are content words, ``length`` counts all words. ``retrieved`` is the centrality of the
    chunk, as a fraction of its document's. ``previous`` is the end of the sentence before it, in
    the same paragraph; ``is_dangling`` says that it cannot be understood without that one.
    """

    document: int
    start: int
    end: int
    words: frozenset[str]
    length: int
    score: float
    retrieved: float
    previous: int | None = None
    is_dangling: bool = False
    is_prose: bool = True
    is_item: bool = False

    @classmethod
    def of(cls, described: Described, score: float, *, retrieved: float) -> Candidate:
        """Return the candidate that a sentence of the first document is."""
        sentence = described.sentence
        return cls(
            document=0,
            start=sentence.start,
            end=sentence.end,
            words=described.words,
            length=len(sentence.text.split()),
            score=score,
            retrieved=retrieved,
            previous=sentence.previous,
            is_dangling=bool(described.features["dangling"]),
            is_prose=sentence.grade == PROSE,
            is_item=sentence.is_item,
        )


@dataclass(frozen=True, slots=True)
class _InChunk:
    """A sentence with the centrality of the chunk it begins in, and that chunk's relevance."""

    sentence: PlacedSentence
    centrality: float
    relevance: float


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
    entries, total = _sentences_in_chunks(runtime, view, document, focus, spans)
    if spans is not None:
        entries = [
            entry
            for entry in entries
            if any(a <= entry.sentence.start and entry.sentence.end <= b for a, b in spans)
        ]
    entries = [entries[number] for number in quotable([entry.sentence for entry in entries])]
    described = described_sentences([entry.sentence for entry in entries], document.title)
    focus_words = frozenset(content_words(focus)) if focus else frozenset[str]()
    candidates = []
    for entry, sentence in zip(entries, described, strict=True):
        score = sentence_score(sentence.features)
        if focus_words:
            score += _CHUNK_FOCUS * math.log(entry.relevance)
            score += _WORD_FOCUS * share_meant(focus_words, sentence.words)
            section = content_words(sentence.sentence.section)
            score += _SECTION_FOCUS * share_meant(focus_words, section)
        candidates.append(Candidate.of(sentence, score, retrieved=entry.centrality / total))
    if candidates and candidates[0].previous is None:
        candidates[0] = replace(candidates[0], is_dangling=False)  # "This is ..." opens a text, too
    return candidates


def _sentences_in_chunks(
    runtime: Runtime,
    view: LibraryView,
    document: DocumentRow,
    focus: str | None,
    spans: Sequence[Span] | None,
) -> tuple[list[_InChunk], float]:
    """Return the sentences of a document, and the sum of the centralities of its chunks."""
    chunk_ids = view.chunk_ids([document.id])
    landmarks = torch.cat([part.float() for _, part in view.scan_landmarks([document.id])])  # [C,E]
    focus_score = None if focus is None else focus_scores(runtime, view, document, focus, chunk_ids)
    kinds = BlockKinds(view, document)
    sections = section_names(view.places(document.id))
    out: list[_InChunk] = []
    total = 0.0
    for part in _parts(view, chunk_ids, spans):
        centrality = chunk_centrality(runtime, landmarks[part])  # [C of the part]
        relevance = torch.ones_like(centrality) if focus_score is None else focus_score[part]
        total += float((centrality * relevance).sum())
        rows = view.chunk_rows(chunk_ids[part])
        placed = placed_sentences("".join(row.text for row in rows), rows[0].start, kinds, sections)
        # The border of two parts cuts the sentence across it: the half on either side is dropped.
        last = len(placed) - int(part.stop < len(chunk_ids))
        first = int(part.start > 0)
        starts = torch.tensor([sentence.start for sentence in placed])
        edges = torch.tensor([row.start for row in rows])
        chunks = (torch.searchsorted(edges, starts, right=True) - 1).tolist()
        weights, relevances = (centrality * relevance).tolist(), relevance.tolist()
        for number in range(first, last):
            sentence, chunk = placed[number], chunks[number]
            out.append(_InChunk(sentence, weights[chunk], relevances[chunk]))
    return out, total


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
