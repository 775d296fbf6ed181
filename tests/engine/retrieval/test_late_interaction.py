"""Late interaction: its definition, what must not matter to it, and its place in a library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor

from drt_engine.config.model import preset
from drt_engine.errors import ConfigError
from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.scorer import LandmarkScorer, LateInteraction
from drt_engine.retrieval import library as library_module
from drt_engine.retrieval.candidates import Candidates, LexicalScores, RetrieverName
from drt_engine.retrieval.library import (
    LibraryQuery,
    LibrarySource,
    SearchOptions,
    library_candidates,
)
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch, Store
from drt_kernels.scan import Landmarks
from tests.engine.model.factories import tiny

CONFIG = tiny(late_interaction=True, lexical_scores=True, late_candidates=6)
SIZE = (CONFIG.kv_heads, CONFIG.head_size)


def memory_of(lengths: Sequence[int], slots: int = 5, seed: int = 0) -> ChunkMemory:
    """Random chunks of these lengths; what stands in slots beyond them is loud."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), slots, *SIZE)
    keys, values = (torch.randn(shape, generator=generator) for _ in range(2))
    mask = torch.arange(slots)[None] < torch.tensor(lengths)[:, None]
    keys[~mask] = 100.0
    return ChunkMemory(keys, values, mask, torch.randn(len(lengths), CONFIG.width))


def late_of(seed: int = 0) -> LateInteraction:
    torch.manual_seed(seed)
    late = LateInteraction(CONFIG)
    for parameter in late.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return late


def one_by_one(late: LateInteraction, question: ChunkMemory, chunks: ChunkMemory) -> list[float]:
    """The same scores for the first question, one token at a time."""

    def tokens(memory: ChunkMemory, row: int) -> list[Tensor]:
        both = torch.cat([memory.keys[row].flatten(1), memory.values[row].flatten(1)], 1)
        return [t for t, there in zip(both, memory.mask[row].tolist(), strict=True) if there]

    asked = tokens(question, 0)
    weights = [math.exp(float(late.importance.weight[0] @ t)) for t in asked]
    out = []
    for row in range(len(chunks.mask)):
        total = 0.0
        for weight, token in zip(weights, asked, strict=True):
            a = late.query.weight @ token
            alike = []
            for other in tokens(chunks, row):
                b = late.key.weight @ other
                alike.append(float(a @ b / a.norm() / b.norm()))
            total += weight / sum(weights) * max(alike)
        out.append(total * math.exp(float(late.log_scale)))
    return out


@torch.inference_mode()
def test_each_token_meets_the_one_most_like_it() -> None:
    late, question, chunks = late_of(), memory_of([3]), memory_of([5, 2, 4], seed=1)
    scores = late(question, late.keys(chunks), chunks.mask)
    assert scores[0].tolist() == pytest.approx(one_by_one(late, question, chunks), rel=1e-4)


@torch.inference_mode()
def test_a_question_scores_alone_as_among_others_and_padding_changes_nothing() -> None:
    late, chunks = late_of(), memory_of([5, 2, 4], seed=1)
    many = memory_of([4, 1, 3], slots=7, seed=2)
    together = late(many, late.keys(chunks), chunks.mask)
    for row, length in enumerate([4, 1, 3]):
        cut = (t[row : row + 1, :length] for t in (many.keys, many.values, many.mask))
        alone = late(ChunkMemory(*cut, many.landmarks[:1]), late.keys(chunks), chunks.mask)
        torch.testing.assert_close(alone[0], together[row])


@torch.inference_mode()
def test_it_starts_by_comparing_memories_as_they_are() -> None:
    late, chunks = LateInteraction(CONFIG), memory_of([5, 5, 5], seed=1)
    question = ChunkMemory(*(t[1:2] for t in (chunks.keys, chunks.values, chunks.mask)), Tensor())
    scores = late(question, late.keys(chunks), chunks.mask)[0]
    assert scores.argmax() == 1
    assert scores[1] == pytest.approx(math.exp(3.0), rel=1e-4)


def test_all_of_it_learns() -> None:
    late, question, chunks = late_of(), memory_of([3, 2]), memory_of([5, 2, 4], seed=1)
    late(question, late.keys(chunks), chunks.mask)[:, 0].sum().backward()
    for name, parameter in late.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_fewer_candidates_than_are_retrieved_are_refused() -> None:
    with pytest.raises(ConfigError, match="late_candidates is 4"):
        preset("drt-small-en", late_candidates=4)


class Chunks:
    """As much of a store as finding and comparing needs."""

    def __init__(self, count: int = 40) -> None:
        self.memory = memory_of([5] * count, seed=5)
        self.landmarks = torch.randn(count, CONFIG.width).half()
        self.read: list[list[int]] = []

    def scan_coded_landmarks(
        self, documents: object = None
    ) -> list[tuple[Sequence[int], Landmarks]]:
        return [(range(len(self.landmarks)), Landmarks(self.landmarks))]

    def looked_up(self, lookup: object) -> object:
        return self

    def neighbours_of(self, chunk_ids: Sequence[int]) -> dict[int, tuple[None, None]]:
        return dict.fromkeys(chunk_ids, (None, None))

    def read_chunks(self, ids: Sequence[int]) -> ChunkBatch:
        self.read.append(list(ids))
        rows = torch.tensor(list(ids))
        numbers = torch.zeros(len(rows), 5, dtype=torch.int32)
        lengths = torch.full((len(rows),), 5)
        memory = (self.memory.keys[rows], self.memory.values[rows])
        return ChunkBatch(numbers, numbers, numbers, lengths, *memory, self.landmarks[rows].float())


def library_of(store: Chunks, retriever: RetrieverName, top_k: int = 2) -> LibraryQuery:
    runtime = SimpleNamespace(config=CONFIG, device=torch.device("cpu"))
    lexical = {3: 1.0, 20: 0.5} if retriever != "landmark" else {}
    return LibraryQuery(
        cast(Runtime, runtime),
        cast(Store, store),
        (),
        SearchOptions(top_k=top_k, retriever=retriever),
        LexicalScores(lexical, lexical),
    )


@pytest.mark.parametrize("retriever", ["hybrid", "landmark"])
@pytest.mark.parametrize("count", [2, 9])
@torch.inference_mode()
def test_the_best_candidates_are_compared_and_only_they_can_be_chosen(
    retriever: RetrieverName, count: int
) -> None:
    store, scorer, query = Chunks(), LandmarkScorer(CONFIG), torch.randn(CONFIG.width)
    assert scorer.late is not None and scorer.lexical is not None
    scorer.late, question = late_of(), memory_of([3])
    library = library_of(store, retriever, count)
    first = scorer.scores(query[None], store.landmarks.float()).total[0]
    if retriever == "hybrid":
        first[3] += scorer.lexical
        first[20] += 0.5 * scorer.lexical
    candidates = sorted(first.topk(max(6, count)).indices.tolist())
    reranked = library_candidates(library, query, scorer, question)
    ids, scores = reranked.chunk_ids, reranked.scores.total
    late = scorer.late(question, scorer.late.keys(store.memory), store.memory.mask)[0]
    assert ids == candidates and store.read == [candidates]
    torch.testing.assert_close(scores, (first + late)[ids], rtol=1e-4, atol=1e-3)
    assert reranked.scores.late is not None and reranked.records is not None
    torch.testing.assert_close(reranked.scores.late, late[ids], rtol=1e-4, atol=1e-3)
    assert torch.equal(reranked.records.keys, store.memory.keys[torch.tensor(ids)])


def asking(
    finder: LibrarySource,
    scorer: LandmarkScorer,
    chunks: Sequence[ChunkMemory],
    monkeypatch: pytest.MonkeyPatch,
) -> Tensor:
    """The question's tokens that are compared when these chunks ask, the last by its landmark."""
    seen: list[Tensor] = []

    def rerank(
        candidates: Candidates, late: object, question: ChunkMemory, *_: object, **more: object
    ) -> Candidates:
        seen.append(question.keys[question.mask])
        return Candidates([], candidates.scores.at(torch.tensor([], dtype=torch.long)))

    monkeypatch.setattr(library_module, "rerank", rerank)
    for chunk in chunks[:-1]:
        finder.add(chunk)
    assert finder.find(torch.randn(CONFIG.width), scorer, chunks[-1]) is None
    return seen[0]


@torch.inference_mode()
def test_a_long_question_asks_with_all_its_chunks_and_each_asks_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scorer, parts = LandmarkScorer(CONFIG), [memory_of([n], seed=n) for n in (5, 4, 2)]
    finder = LibrarySource(library_of(Chunks(), "hybrid"))
    asked = asking(finder, scorer, parts, monkeypatch)
    assert torch.equal(asked, torch.cat([p.keys[p.mask] for p in parts]))
    finder.add(parts[-1])  # closed, as a decoder does
    again = asking(finder, scorer, [memory_of([3], seed=9)], monkeypatch)
    assert len(again) == 2 + 3  # what was closed since, and the new one


@torch.inference_mode()
def test_words_alone_compare_no_tokens() -> None:
    scorer, store = LandmarkScorer(CONFIG), Chunks()
    library = library_of(store, "lexical")
    query = torch.randn(CONFIG.width)
    candidates = library_candidates(library, query, scorer, memory_of([3]))
    assert candidates.chunk_ids == [3, 20] and store.read == []
    assert candidates.scores.late is None and candidates.records is None
