"""Chunks with their scores, and passages: neighbouring chunks that belong together.

Knows how chunks are grouped and cut into sentences, not how they were scored; needs no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drt_engine.answer.sentences import sentences_at
from drt_engine.store import ChunkRow, DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.text.sentences import Span

MOST_JOINED = 3  # chunks of one passage: about 190 tokens, which one looks through at a glance


@dataclass(frozen=True)
class ScoredChunk:
    """A chunk with its score, which is the sum of ``landmark``, ``lexical`` and ``late``."""

    row: ChunkRow
    score: float
    landmark: float = 0.0
    lexical: float = 0.0
    late: float = 0.0


@dataclass(frozen=True)
class FoundPassage:
    """Neighbouring chunks as one passage, from the first to the last sentence they touch.

    ``chunks`` are in the order of the document, ``best`` is the one with the highest score;
    ``sentences`` are the spans, in characters of the document, that begin or end in the chunks.
    """

    document: DocumentRow
    chunks: tuple[ScoredChunk, ...]
    sentences: tuple[Span, ...]
    text: str

    @property
    def best(self) -> ScoredChunk:
        return max(self.chunks, key=lambda chunk: chunk.score)

    @property
    def start(self) -> int:
        """The first character of ``text`` in the document."""
        return self.sentences[0][0]

    def sentence(self, number: int) -> str:
        """Return the text of a sentence."""
        start, end = self.sentences[number]
        return self.text[start - self.start : end - self.start]


def join_neighbours(chunks: Iterable[ScoredChunk]) -> list[list[ScoredChunk]]:
    """Join chunks, given best first, with neighbours in their document; groups come best first."""
    groups: list[list[ScoredChunk]] = []
    group_of: dict[tuple[str, int], list[ScoredChunk]] = {}
    for chunk in chunks:
        document, ordinal = chunk.row.document_id, chunk.row.ordinal
        beside = (group_of.get((document, ordinal + step)) for step in (-1, 1))
        group = next((g for g in beside if g is not None and len(g) < MOST_JOINED), None)
        if group is None:
            group = []
            groups.append(group)
        group.append(chunk)
        group_of[document, ordinal] = group
    return groups


def cut_passage(
    view: LibraryView,
    document: DocumentRow,
    chunks: Sequence[ScoredChunk],
    *,
    spans: Sequence[Span] | None = None,
) -> FoundPassage | None:
    """Return chunks of one document as a passage of whole sentences; None where there are none.

    Only sentences that begin in ``spans`` (characters of the document) count where there are any.
    """
    ordered = tuple(sorted(chunks, key=lambda chunk: chunk.row.ordinal))
    first, last = ordered[0].row, ordered[-1].row
    sentences = sentences_at(view, document, first.start, last.start + len(last.text))
    if spans is not None:
        sentences = [s for s in sentences if any(a <= s[0] < b for a, b in spans)]
    if not sentences:
        return None
    text = view.text(document.id, sentences[0][0], sentences[-1][1])
    return FoundPassage(document, ordered, tuple(sentences), text)
