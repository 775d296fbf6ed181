"""Candidate chunks of a library: landmark scan and BM25.

Returns scores only; reads no records. Knows nothing of prompts or of what is read afterwards.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from drt_engine.model.scorer import ChunkScores, LandmarkScorer
from drt_engine.retrieval.filters import Scope
from drt_engine.store import ChunkBatch
from drt_engine.store.view import LibraryView
from drt_engine.text.lexical import normalised_bm25, with_neighbours
from drt_kernels import landmark_topk
from drt_kernels.scan import Landmarks, exact_scores

RetrieverName = Literal["hybrid", "landmark", "lexical"]
LandmarkParts = Iterable[tuple[Sequence[int], Landmarks]]  # chunk ids and their landmarks

LEXICAL_CANDIDATES = 64


@dataclass(frozen=True)
class LexicalScores:
    """Normalised BM25 scores of chunks for one question, by chunk id.

    ``matches``: chunks that hold words of the question; ``spread``: the same with a part of the
    neighbours' scores added, which is what the scorer weighs.
    """

    matches: Mapping[int, float] = field(default_factory=dict)
    spread: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidates:
    """Chunks that may be retrieved, in the order of their ids, with their scores on the CPU.

    ``records`` [P] are their stored records, where a step has read them.
    """

    chunk_ids: list[int]
    scores: ChunkScores
    records: ChunkBatch | None = None


def bm25_matches(store: LibraryView, question: str, scope: Scope) -> dict[int, float]:
    """Return the normalised BM25 scores of the best chunks that hold words of the question."""
    ranking = store.search_text(
        question, documents=scope.document_ids, chunks=scope.chunk_ids, limit=LEXICAL_CANDIDATES
    )
    return normalised_bm25(dict(ranking))


def lexical_scores(
    store: LibraryView, question: str, scope: Scope, *, neighbour_weight: float
) -> LexicalScores:
    """Search the question's words once, for all landmarks that will ask."""
    matches = bm25_matches(store, question, scope)
    neighbours = store.neighbours_of(list(matches)) if neighbour_weight else {}
    return LexicalScores(matches, with_neighbours(matches, neighbours, neighbour_weight))


def scan_scope(store: LibraryView, scope: Scope) -> LandmarkParts:
    """Scan the landmarks of what may be retrieved, with their codes where they have some."""
    parts = store.scan_coded_landmarks(scope.document_ids)
    return parts if scope.chunk_ids is None else _restricted(parts, scope.chunk_ids)


def _restricted(parts: LandmarkParts, chunk_ids: Collection[int]) -> LandmarkParts:
    """Yield only the landmarks of some chunks; these are gathered, so they come without codes."""
    for ids, landmarks in parts:
        if isinstance(ids, range):  # not looked through: it may be of millions
            numbers = sorted(chunk_id - ids.start for chunk_id in chunk_ids if chunk_id in ids)
        else:
            numbers = [number for number, chunk_id in enumerate(ids) if chunk_id in chunk_ids]
        if len(numbers) == len(ids):
            yield ids, landmarks
        elif numbers:
            yield [ids[n] for n in numbers], Landmarks(landmarks.rows[torch.tensor(numbers)])


def find_candidates(
    query: Tensor,
    scorer: LandmarkScorer,
    parts: LandmarkParts,
    bm25: Mapping[int, float],
    *,
    count: int,
    allowed_chunk_ids: Sequence[int] = (),
) -> Candidates:
    """Scan landmarks with a query [E]; return chunks that hold the ``count`` best of the library.

    ``bm25`` counts with the scorer's learnt weight. Only ``allowed_chunk_ids`` are candidates
    where there are any.
    """
    weight = 0.0 if scorer.lexical is None else scorer.lexical.item()
    if scorer.lexical is None:
        bm25 = {}
    scan = _Scan(parts, allowed_chunk_ids or bm25)
    landmark_scores: dict[int, float] = {}
    if allowed_chunk_ids:
        for _ in scan:  # only to keep the rows of the allowed chunks
            pass
    else:
        # A positive BM25 score lifts chunks that are scored below anyway: what is not among the
        # best by landmark is not among the best of all without it. Only a penalty makes room.
        penalised = len(bm25) if weight < 0 else 0
        top = landmark_topk(query[None], scan, count + penalised)
        real = top.scores[0] > float("-inf")
        chunk_ids = map(scan.chunk_id, top.index[0][real].tolist())
        landmark_scores = dict(zip(chunk_ids, top.scores[0][real].tolist(), strict=True))
    # Chunks with words, or allowed ones, that the scan has not scored.
    unscored = sorted(chunk_id for chunk_id in scan.rows if chunk_id not in landmark_scores)
    if unscored:
        rows = torch.stack([scan.rows[chunk_id] for chunk_id in unscored])  # fp16, as scanned
        landmark_scores.update(zip(unscored, exact_scores(query, rows).tolist(), strict=True))
    ordered = sorted(landmark_scores)
    landmark = torch.tensor([landmark_scores[chunk_id] for chunk_id in ordered])  # [P], fp32
    lexical = None
    if bm25:
        values = [bm25.get(chunk_id, 0.0) for chunk_id in ordered]
        lexical = torch.tensor(values, dtype=torch.float64)
    return Candidates(ordered, scorer.compose(landmark, lexical))


class _Scan:
    """Landmarks of a library on their way through the scan.

    Notes which chunks they are of, and keeps the landmarks of some ``chunk_ids`` in ``rows``.
    """

    def __init__(self, parts: LandmarkParts, chunk_ids: Iterable[int]) -> None:
        self._parts = parts
        self._kept_ids = sorted(set(chunk_ids))
        self._starts = [0]
        self._ids: list[Sequence[int]] = []
        self.rows: dict[int, Tensor] = {}

    def __iter__(self) -> Iterator[Landmarks]:
        for ids, landmarks in self._parts:
            self._ids.append(ids)
            self._starts.append(self._starts[-1] + len(ids))
            if self._kept_ids:
                places = list(self._places(ids))
                index = torch.tensor([place for _, place in places], dtype=torch.long)
                rows = landmarks.rows[index].unbind()
                self.rows.update(zip([chunk_id for chunk_id, _ in places], rows, strict=True))
            yield landmarks

    def _places(self, ids: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield which of the kept chunks are among these, and their places."""
        if isinstance(ids, range):  # not looked through: it may be of millions
            first = bisect_left(self._kept_ids, ids.start)
            for chunk_id in self._kept_ids[first : bisect_left(self._kept_ids, ids.stop)]:
                yield chunk_id, chunk_id - ids.start
        else:
            for chunk_id in set(self._kept_ids).intersection(ids):
                yield chunk_id, ids.index(chunk_id)

    def chunk_id(self, number: int) -> int:
        """Return the id of the chunk whose landmark has this number in the scan."""
        part = bisect_right(self._starts, number) - 1
        return self._ids[part][number - self._starts[part]]
