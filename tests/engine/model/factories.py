"""Tiny models whose every parameter matters, and streams for them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from drt_engine.config.model import EncoderConfig, ModelConfig, preset
from drt_engine.model.drt import DRT
from drt_engine.model.gca_layer import ChunkMemory, Retrieved
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.model.selection import select
from drt_engine.retrieval.sources import Retrieval

BERT = EncoderConfig(kind="bert", layers=1, heads=4, mlp=48, positions=64)
SMALL_OPTIONS: dict[str, object] = {
    "encoder": BERT,
    "landmark_pooling": "mean",
    "landmark_query": "state+landmark",
    "normalised_scores": True,
    "lexical_scores": True,
    "lexical_neighbours": 0.3,
    "late_interaction": True,
    "gca_output": "residual",
    "question_states": True,
    "quote_head": True,
    "reread": True,
    "reread_relevance": True,
    "reread_margin": 2,
    "reread_layers": 1,
}


def tiny(**changes: object) -> ModelConfig:
    """``drt-tiny`` with changes."""
    return preset("drt-tiny", **changes)


def small_like(**changes: object) -> ModelConfig:
    """``drt-tiny`` with the options of ``drt-small-en``."""
    return tiny(**{**SMALL_OPTIONS, **changes})


def make_model(config: ModelConfig | None = None, *, seed: int = 0) -> DRT:
    """A model away from its start, where zeros and ones would hide mistakes."""
    torch.manual_seed(seed)
    model = DRT(config or tiny())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter) * 0.1
            parameter.add_(noise * 5 if name.startswith("embedding") else noise)
    return model.eval()


def fresh_model(config: ModelConfig, *, seed: int = 0) -> DRT:
    """A model as training starts it."""
    torch.manual_seed(seed)
    return DRT(config).eval()


def random_ids(config: ModelConfig, *shape: int, seed: int = 1) -> Tensor:
    """Token ids that are never special."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, config.vocab, shape, generator=generator)


def full(ids: Tensor) -> Tensor:
    """A mask of tokens that all exist."""
    return torch.ones(ids.shape, dtype=torch.bool)


def changed(config: ModelConfig, **changes: object) -> ModelConfig:
    """The same configuration with some fields changed."""
    return replace(config, **changes)  # type: ignore[arg-type]


class PoolSource:
    """A fixed pool of chunks that every landmark chooses from, with BM25 shares if given."""

    def __init__(self, memory: ChunkMemory, count: int, lexical: Tensor | None = None) -> None:
        self.memory, self.count, self.lexical = memory, count, lexical

    def find(self, query: Tensor, scorer: LandmarkScorer, query_chunk: ChunkMemory) -> Retrieval:
        shares = None if self.lexical is None else self.lexical[None]
        late = None
        if scorer.late is not None:
            late = scorer.late(query_chunk, scorer.late.keys(self.memory), self.memory.mask)
        scores = scorer.scores(query[None], self.memory.landmarks, shares, late).total
        found = select(scores, torch.ones_like(scores, dtype=torch.bool), self.count)
        picked = (found.index[None], found.scores[None], found.probabilities[None])
        retrieved = Retrieved(self.memory, *picked)
        return Retrieval(retrieved, tuple(int(i) for i in found.index[0]))

    def add(self, memory: ChunkMemory) -> None:
        """Keep nothing: a prompt's own chunks are not retrieved."""
