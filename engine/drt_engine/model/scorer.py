"""Retrieval scores of chunks: the one place where training, asking and streams compute them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from drt_engine.config.model import ModelConfig
from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.layers import RMSNorm


@dataclass(frozen=True)
class ChunkScores:
    """Retrieval scores of P chunks as the parts that they are the sum of, each [.., P].

    ``landmark``: dot product of query and landmark key, fp32; ``lexical``: normalised BM25 times
    its learnt weight; ``late``: late interaction of tokens. ``None``: a part that does not count.
    """

    landmark: Tensor
    lexical: Tensor | None = None
    late: Tensor | None = None

    @property
    def total(self) -> Tensor:
        """The scores that chunks are chosen by and that become probabilities, fp32."""
        total = self.landmark
        if self.lexical is not None:
            # A library has BM25 in fp64: rounded once, after the addition.
            total = (total + self.lexical).to(total.dtype)
        return total if self.late is None else total + self.late

    def at(self, index: Tensor) -> ChunkScores:
        """Return the scores of the chunks ``index`` [R] of one query."""
        parts = (self.landmark, self.lexical, self.late)
        return ChunkScores(*(part if part is None else part[index] for part in parts))  # type: ignore[arg-type]


class LandmarkScorer(nn.Module):
    """``r = (W_h h)^T (W_l l) / sqrt(E)`` (paper eq. 2), with the options of DESIGN section 7.

    Options: states are normalised first, by a norm for each group; the query adds ``W_e l`` of the
    query chunk's own landmark; vectors are normalised and scaled by a learnt temperature; a chunk's
    normalised BM25 score is added with a learnt weight, and its ``LateInteraction`` score. fp32
    throughout, in training too.
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
            assert isinstance(layer, nn.Linear)
            nn.init.normal_(layer.weight, std=width**-0.5)
        if config.landmark_query == "state+landmark":
            # The warm-started encoder already places questions near their answers. Start exactly
            # there: identity maps of landmarks, no contribution of the state.
            self.landmark_query = nn.Linear(width, width, bias=False)
            for layer in (self.landmark_query, self.key):
                layer.weight.data.zero_().fill_diagonal_(1.0)
            for layer in self.state_query:
                assert isinstance(layer, nn.Linear)
                nn.init.zeros_(layer.weight)
        self.query_norm: nn.ModuleList | None = None
        if config.query_norm:  # as in the authors' code, which has no maps of states
            self.query_norm = nn.ModuleList(RMSNorm(width) for _ in range(config.groups))
        if config.normalised_scores:
            self.log_scale = nn.Parameter(torch.tensor(3.0))
        if config.lexical_scores:
            self.lexical = nn.Parameter(torch.tensor(4.0))
        self.late = LateInteraction(config) if config.late_interaction else None

    def keys(self, landmarks: Tensor) -> Tensor:
        """Map landmarks [.., E] to the vectors that chunks are found by, [.., E], fp32."""
        with torch.autocast(landmarks.device.type, enabled=False):
            keys: Tensor = self.key(landmarks.float())
        return F.normalize(keys, dim=-1) if self.normalised else keys

    def queries(self, states: Tensor, landmarks: Tensor, group: int) -> Tensor:
        """Return the queries [.., E] of landmark tokens, fp32.

        ``states`` [.., E] enter upper group ``group``; ``landmarks`` [.., E] are those of the same
        chunks. The scale is part of the query, so that a score is a plain dot product with a key.
        """
        with torch.autocast(states.device.type, enabled=False):
            states = states.float()
            if self.query_norm is not None:
                states = self.query_norm[group](states)
            query: Tensor = self.state_query[group](states)
            if self.landmark_query is not None:
                query = query + self.landmark_query(landmarks.float())
        if self.log_scale is not None:
            return F.normalize(query, dim=-1) * self.log_scale.exp()
        scale: float = states.shape[-1] ** -0.5
        return query * scale

    def scores(
        self,
        queries: Tensor,
        keys: Tensor,
        bm25: Tensor | None = None,
        late: Tensor | None = None,
    ) -> ChunkScores:
        """Score keys [.., P, E] for queries [.., Q, E]; the parts are [.., Q, P].

        ``bm25`` (normalised, 0..1) and ``late`` (what ``LateInteraction`` returns) are [.., Q, P].
        """
        with torch.autocast(queries.device.type, enabled=False):
            landmark = queries @ keys.to(queries.dtype).transpose(-1, -2)
        return self.compose(landmark, bm25, late)

    def compose(
        self, landmark: Tensor, bm25: Tensor | None = None, late: Tensor | None = None
    ) -> ChunkScores:
        """Return the scores of chunks whose ``landmark`` scores [.., P] a scan has computed."""
        if bm25 is None or self.lexical is None:
            return ChunkScores(landmark, late=late)
        return ChunkScores(landmark, self.lexical.to(bm25.device) * bm25, late)


class LateInteraction(nn.Module):
    """Score chunks by their tokens (MaxSim of ColBERT, arXiv 2004.12832).

    Each token of the question is compared with the chunk token most like it, and the tokens are
    averaged with learnt weights. Questions and chunks are both given as chunk memory, so what the
    store holds is enough.
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
        """Map the tokens of P chunks to unit vectors [P, S, M], fp32; ``M = 2 Hk D``."""
        with torch.autocast(memory.keys.device.type, enabled=False):
            return F.normalize(self.key(_tokens(memory)), dim=-1)

    def queries(self, questions: ChunkMemory) -> tuple[Tensor, Tensor]:
        """Return unit vectors [n, M] of all tokens of N questions, and their weights [n], fp32.

        The weights of one question add up to 1; multiplied by the scale they give scores.
        """
        with torch.autocast(questions.keys.device.type, enabled=False):
            tokens = _tokens(questions)  # [N, L, M]
            # Weights of the tokens of each question, then all tokens of all questions in a row.
            weights = self.importance(tokens)[..., 0].masked_fill(~questions.mask, float("-inf"))
            weights = torch.softmax(weights, dim=-1)[questions.mask]  # [n]
            return F.normalize(self.query(tokens[questions.mask]), dim=-1), weights

    def forward(self, questions: ChunkMemory, keys: Tensor, mask: Tensor) -> Tensor:
        """Score P chunks for N questions -> [N, P], fp32.

        ``keys`` [P, S, M] are the chunks' tokens, ``mask`` [P, S] says which of them exist.
        """
        with torch.autocast(keys.device.type, enabled=False):
            queries, weights = self.queries(questions)
            # MaxSim: the best token of each chunk for each question token.
            cosines = (queries @ keys.flatten(0, 1).T).view(len(queries), *mask.shape)  # [n, P, S]
            best = cosines.masked_fill(~mask, -1.0).amax(dim=-1)  # [n, P]
            # Back to questions: the weighted sum over the tokens of each.
            row = questions.mask.nonzero()[:, 0]
            sums = best.new_zeros(len(questions.mask), len(keys))
            return sums.index_add(0, row, weights[:, None] * best) * self.log_scale.exp()


def _tokens(memory: ChunkMemory) -> Tensor:
    """Return keys and values of each token side by side, [P, S, 2 Hk D], fp32."""
    return torch.cat([memory.keys.flatten(2), memory.values.flatten(2)], dim=-1).float()
