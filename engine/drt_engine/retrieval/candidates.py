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
from drt_engine.results import ScanInfo
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


@dataclass(frozen=True)
class LandmarkScan:
    """What is scanned for one query: ``parts``, and of which library they are a part.

    ``library`` is ``None`` where the parts are all that may be retrieved. Otherwise chunks of the
    parts may be gone, and other chunks have their landmarks in the library.
    """

    parts: LandmarkParts
    library: LibraryView | None = None

    def present(self, chunk_ids: Collection[int]) -> Collection[int]:
        """Return which of the scanned chunks may be retrieved."""
        return chunk_ids if self.library is None else self.library.index.present([*chunk_ids])


def scan_scope(store: LibraryView, scope: Scope) -> LandmarkScan:
    """Scan the landmarks of what may be retrieved, with their codes where they have some."""
    parts: LandmarkParts = store.scan_coded_landmarks(scope.document_ids)
    if scope.chunk_ids is not None:
        parts = restricted_parts(parts, scope.chunk_ids)
    return LandmarkScan(parts)


def scan_index(store: LibraryView, query: Tensor) -> tuple[LandmarkScan, ScanInfo]:
    """Scan what the approximate index has near a query [E], or everything without an index."""
    probed = store.index.probe(query)
    library = store if probed.info.lists else None
    return LandmarkScan(probed.parts, library), probed.info


def restricted_parts(parts: LandmarkParts, chunk_ids: Collection[int]) -> LandmarkParts:
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
    landmarks: LandmarkScan,
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
    scan = ScannedLandmarks(landmarks, allowed_chunk_ids or bm25)
    landmark_scores: dict[int, float] = {}
    if allowed_chunk_ids:
        for _ in scan:  # only to keep the rows of the allowed chunks
            pass
    else:
        # A positive BM25 score lifts chunks that are scored below anyway: what is not among the
        # best by landmark is not among the best of all without it. Only a penalty makes room.
        penalised = len(bm25) if weight < 0 else 0
        landmark_scores = scan.best(query, count + penalised)
    # Chunks with words, or allowed ones, that the scan has not scored.
    unscored = scan.other_rows(landmark_scores)
    if unscored:
        rows = torch.stack(list(unscored.values()))  # fp16, as scanned
        landmark_scores.update(zip(unscored, exact_scores(query, rows).tolist(), strict=True))
    ordered = sorted(landmark_scores)
    landmark = torch.tensor([landmark_scores[chunk_id] for chunk_id in ordered])  # [P], fp32
    lexical = None
    if bm25:
        values = [bm25.get(chunk_id, 0.0) for chunk_id in ordered]
        lexical = torch.tensor(values, dtype=torch.float64)
    return Candidates(ordered, scorer.compose(landmark, lexical))


def landmarks_needed(scorer: LandmarkScorer, count: int) -> int:
    """Return how many of the best landmarks ``find_candidates`` needs for ``count`` candidates.

    Each match and its two neighbours may be penalised.
    """
    weight = 0.0 if scorer.lexical is None else scorer.lexical.item()
    return count + (3 * LEXICAL_CANDIDATES if weight < 0 else 0)


class ScannedLandmarks:
    """Landmarks of a library on their way through the scan.

    Notes which chunks they are of, and keeps the landmarks of some ``chunk_ids`` in ``rows``, and
    their ``numbers`` in the scan.
    """

    def __init__(self, landmarks: LandmarkScan, chunk_ids: Iterable[int]) -> None:
        self._landmarks = landmarks
        self._kept_ids = sorted(set(chunk_ids))
        self._starts = [0]
        self._ids: list[Sequence[int]] = []
        self.rows: dict[int, Tensor] = {}
        self.numbers: dict[int, int] = {}

    def __iter__(self) -> Iterator[Landmarks]:
        self._starts, self._ids = [0], []
        for ids, landmarks in self._landmarks.parts:
            start = self._starts[-1]
            self._ids.append(ids)
            self._starts.append(start + len(ids))
            if self._kept_ids:
                places = list(self._places(ids))
                index = torch.tensor([place for _, place in places], dtype=torch.long)
                rows = landmarks.rows[index].unbind()
                self.rows.update(zip([chunk_id for chunk_id, _ in places], rows, strict=True))
                self.numbers.update((chunk_id, start + place) for chunk_id, place in places)
            yield landmarks

    def best(self, query: Tensor, count: int) -> dict[int, float]:
        """Return the ``count`` best chunks for a query [E] with their scores, best first.

        Where some of the best are gone, as many more are looked for.
        """
        dropped = 0
        while True:
            top = landmark_topk(query[None], self, count + dropped)
            real = top.scores[0] > float("-inf")
            chunk_ids = [self._chunk_id(number) for number in top.index[0][real].tolist()]
            scores = dict(zip(chunk_ids, top.scores[0][real].tolist(), strict=True))
            present = self._landmarks.present(scores.keys())
            missing = len(scores) - len(present)
            if missing <= dropped or len(scores) < count + dropped:
                return dict([pair for pair in scores.items() if pair[0] in present][:count])
            dropped = 2 * missing

    def other_rows(self, scored: Collection[int]) -> dict[int, Tensor]:
        """Return the landmarks [E] of the kept chunks that have no score, by chunk id."""
        unscored = sorted(chunk_id for chunk_id in self.rows if chunk_id not in scored)
        rows = {chunk_id: self.rows[chunk_id] for chunk_id in unscored}
        library = self._landmarks.library
        missing_ids = [chunk_id for chunk_id in self._kept_ids if chunk_id not in self.rows]
        if library is not None and missing_ids:
            rows.update(
                zip(missing_ids, library.index.landmarks(missing_ids).unbind(), strict=True)
            )
        return rows

    def _places(self, ids: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield which of the kept chunks are among these, and their places."""
        if isinstance(ids, range):  # not looked through: it may be of millions
            first = bisect_left(self._kept_ids, ids.start)
            for chunk_id in self._kept_ids[first : bisect_left(self._kept_ids, ids.stop)]:
                yield chunk_id, chunk_id - ids.start
        else:
            for chunk_id in set(self._kept_ids).intersection(ids):
                yield chunk_id, ids.index(chunk_id)

    def _chunk_id(self, number: int) -> int:
        """Return the id of the chunk whose landmark has this number in the scan."""
        part = bisect_right(self._starts, number) - 1
        return self._ids[part][number - self._starts[part]]
