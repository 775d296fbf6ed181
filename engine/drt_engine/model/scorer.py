"""Scores of chunks for a landmark: the one place where training, prefill and step compute them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from drt_engine.config.model import ModelConfig
from drt_engine.model.gca_layer import ChunkMemory


class LandmarkScorer(nn.Module):
    """``r = (W_h h)^T (W_l l) / sqrt(E)`` (paper eq. 2), with the options of DESIGN section 7.

    Options: the query adds ``W_e l`` of the asking chunk's own landmark; vectors are normalised and
    scaled by a learnt temperature; a chunk's BM25 share is added with a learnt weight, and what
    ``LateInteraction`` makes of its tokens. fp32 throughout, in training too.
    """

    keeps_fp32 = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.width
        self.state_query = nn.ModuleList(
            nn.Linear(width, width, bias=False) for _ in range(config.groups)
        )
        self.key = nn.Linear(width, width, bias=False)
        self.normalised = config.normalised_scores
        self.landmark_query: nn.Linear | None = None
        self.log_scale: nn.Parameter | None = None
        self.lexical: nn.Parameter | None = None
        for layer in (*self.state_query, self.key):
            nn.init.normal_(layer.weight, std=width**-0.5)
        if config.landmark_query == "state+landmark":
            # The warm-started encoder already places questions near their answers: start exactly
            # there.
            self.landmark_query = nn.Linear(width, width, bias=False)
            for layer in (self.landmark_query, self.key):
                layer.weight.data.zero_().fill_diagonal_(1.0)
            for layer in self.state_query:
                nn.init.zeros_(layer.weight)
        if config.normalised_scores:
            self.log_scale = nn.Parameter(torch.tensor(3.0))
        if config.lexical_scores:
            self.lexical = nn.Parameter(torch.tensor(4.0))
        self.late = LateInteraction(config) if config.late_interaction else None

    def keys(self, landmarks: Tensor) -> Tensor:
        """Landmarks [.., E] -> the vectors chunks are found by, [.., E], fp32."""
        with torch.autocast(landmarks.device.type, enabled=False):
            keys = self.key(landmarks.float())
        return F.normalize(keys, dim=-1) if self.normalised else keys

    def queries(self, states: Tensor, landmarks: Tensor, group: int) -> Tensor:
        """States of landmark tokens entering a group and their chunks' landmarks [.., E] -> queries
        [.., E], fp32.

        The scale is part of the query, so a score is a plain dot product with a key.
        """
        with torch.autocast(states.device.type, enabled=False):
            query = self.state_query[group](states.float())
            if self.landmark_query is not None:
                query = query + self.landmark_query(landmarks.float())
        if self.log_scale is not None:
            return F.normalize(query, dim=-1) * self.log_scale.exp()
        return query * states.shape[-1] ** -0.5

    def scores(
        self,
        queries: Tensor,
        keys: Tensor,
        lexical: Tensor | None = None,
        late: Tensor | None = None,
    ) -> Tensor:
        """Queries [.., Q, E], keys [.., P, E], BM25 shares in 0..1 and late interaction [.., Q, P]
        -> scores [.., Q, P], fp32.
        """
        with torch.autocast(queries.device.type, enabled=False):
            scores = queries @ keys.to(queries.dtype).transpose(-1, -2)
        if lexical is not None and self.lexical is not None:
            scores = scores + self.lexical * lexical
        return scores if late is None else scores + late


class LateInteraction(nn.Module):
    """Scores of chunks by their tokens: each token of the question meets the chunk token most like
    it (MaxSim of ColBERT, arXiv 2004.12832), and tokens have learnt weights.

    Questions and chunks are both seen as their chunk memory, so what the store holds is enough.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        memory = 2 * config.kv_heads * config.head_size
        self.query = nn.Linear(memory, memory, bias=False)
        self.key = nn.Linear(memory, memory, bias=False)
        for layer in (self.query, self.key):  # words that are alike have memories that are alike
            layer.weight.data.zero_().fill_diagonal_(1.0)
        self.importance = nn.Linear(memory, 1, bias=False)
        nn.init.zeros_(self.importance.weight)
        self.log_scale = nn.Parameter(torch.tensor(3.0))

    def keys(self, memory: ChunkMemory) -> Tensor:
        """The tokens of P chunks, [P, S, M], of length 1, fp32; M are the numbers of a token."""
        with torch.autocast(memory.keys.device.type, enabled=False):
            return F.normalize(self.key(_tokens(memory)), dim=-1)

    def forward(self, questions: ChunkMemory, keys: Tensor, mask: Tensor) -> Tensor:
        """``questions`` of N chunks, ``keys`` [P, S, M] of those that exist by ``mask`` [P, S] ->
        scores [N, P], fp32.
        """
        with torch.autocast(keys.device.type, enabled=False):
            tokens = _tokens(questions)
            weights = self.importance(tokens)[..., 0].masked_fill(~questions.mask, float("-inf"))
            weights = torch.softmax(weights, dim=-1)[questions.mask]
            asked = F.normalize(self.query(tokens[questions.mask]), dim=-1)
            alike = (asked @ keys.flatten(0, 1).T).unflatten(1, mask.shape)
            best = alike.masked_fill(~mask, -1.0).amax(dim=-1)
            row = questions.mask.nonzero()[:, 0]
            sums = best.new_zeros(len(questions.mask), len(keys))
            return sums.index_add(0, row, weights[:, None] * best) * self.log_scale.exp()


def _tokens(memory: ChunkMemory) -> Tensor:
    return torch.cat([memory.keys.flatten(2), memory.values.flatten(2)], dim=-1).float()
