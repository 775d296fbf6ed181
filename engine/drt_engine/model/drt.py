"""The Differentiable Retrieval-based Transformer: lower stack, chunk encoder, upper groups.

A stream is cut into chunks of S tokens, with a landmark token after each:

1. The lower stack (window attention, MLP) turns all tokens into states.
2. The chunk encoder reads the states of each chunk in both directions. From its result come the
   chunk memory (keys and values, shared by all upper layers) and the landmark (the vector the
   chunk is found by).
3. At each chunk's end, the border, every group of upper layers scores the landmarks of earlier
   chunks and picks R of them; the *next* chunk reads these by grouped cross-attention (GCA), so
   nothing is retrieved by what is still to be predicted. The softmax of the scores weighs the
   chunks inside GCA: retrieval learns from the loss on the tokens.
4. Tied embeddings turn the states of the last layer into next-token logits.

Source: arXiv 2410.01651. Knows nothing of text, files or libraries: a ``Plan`` decides what is
retrieved for which tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from drt_engine.config.model import ModelConfig
from drt_engine.errors import ConfigError
from drt_engine.model.attention import WindowAttention
from drt_engine.model.cache import WindowCache
from drt_engine.model.chunk_encoder import ChunkEncoder, encoder_blocks
from drt_engine.model.chunking import insert_landmarks, shift_chunks
from drt_engine.model.frozen import ChunkVectors, Ranking, random_ranking, vector_scores
from drt_engine.model.gca_layer import ChunkMemory, GroupedCrossAttention, Retrieved
from drt_engine.model.layers import RMSNorm, SwiGLU, linear
from drt_engine.model.prompt import Prompt, segments
from drt_engine.model.protocol import LanguageModel
from drt_engine.model.quote_head import QuoteHead, Reread
from drt_engine.model.reader import SpanReader
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.model.selection import causal_mask, select
from drt_kernels.decode import DecodeMemory


@dataclass(frozen=True)
class Span:
    """Tokens ``start:stop`` of a flat sequence, and what they read.

    They are ``retrieved.index.shape[1]`` chunks of equal length.
    """

    start: int
    stop: int
    retrieved: Retrieved


# From a group's number and the states [B, T, E] that enter it: what is retrieved for which tokens.
Plan = Callable[[int, Tensor], Sequence[Span]]


@dataclass(frozen=True)
class Encoded:
    """N encoded chunks: token ``states`` [N, S, E], ``landmarks`` [N, E], ``mask`` [N, S]."""

    states: Tensor
    landmarks: Tensor
    mask: Tensor


class LowerLayer(nn.Module):
    """Pre-norm self-attention and MLP."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        scale = 0.0 if config.zero_lower else 0.5
        self.attention = WindowAttention(
            config.width, config.heads, config.kv_heads, window=config.window, out_scale=scale
        )
        self.norm = RMSNorm(config.width)
        self.mlp = SwiGLU(config.width, config.mlp, out_scale=scale)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Return the states after the layer, [B, T, E] -> [B, T, E]."""
        x = x + self.attention(x, valid)
        return x + self.mlp(self.norm(x))  # type: ignore[no-any-return]

    def step(self, x: Tensor, window: WindowCache, layer: int) -> Tensor:
        """Compute ``forward`` for new tokens [1, T, E] that were announced to ``window``.

        ``layer`` is the layer's number among all of the model.
        """
        x = x + _attend_window(self.attention, x, window, layer)
        return x + self.mlp(self.norm(x))  # type: ignore[no-any-return]


class UpperLayer(nn.Module):
    """Pre-norm self-attention, GCA and MLP."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.residual = config.gca_output == "residual"
        self.attention = WindowAttention(
            config.width, config.heads, config.kv_heads, window=config.window, out_scale=0.5
        )
        self.gca = GroupedCrossAttention(config)
        self.norm = RMSNorm(config.width)
        self.mlp = SwiGLU(config.width, config.mlp, out_scale=0.5)

    def forward(self, x: Tensor, valid: Tensor, spans: Sequence[Span]) -> Tensor:
        """Return the states after the layer, [B, T, E] -> [B, T, E]; ``spans`` read memory."""
        x = x + self.attention(x, valid)
        return self._add_gca_and_mlp(x, self._cross_attention(x, spans))

    def step(
        self,
        x: Tensor,
        window: WindowCache,
        layer: int,
        retrieval: tuple[Retrieved, DecodeMemory | None] | None,
    ) -> Tensor:
        """Compute ``forward`` for new tokens [1, T, E] of one chunk.

        ``retrieval`` is what the chunk reads, and the same as laid out for decoding steps.
        """
        x = x + _attend_window(self.attention, x, window, layer)
        if retrieval is None:
            return self._add_gca_and_mlp(x, None)
        retrieved, ready = retrieval
        return self._add_gca_and_mlp(x, self.gca(x[:, None], retrieved, ready=ready)[:, 0])

    def _add_gca_and_mlp(self, x: Tensor, gca_out: Tensor | None) -> Tensor:
        """Return the states after GCA's output and the MLP, all [B, T, E]."""
        if gca_out is None:
            return x + self.mlp(self.norm(x))  # type: ignore[no-any-return]
        if self.residual:  # GCA is a sublayer of its own, like attention
            x = x + gca_out
            return x + self.mlp(self.norm(x))  # type: ignore[no-any-return]
        # As in the paper: what was retrieved reaches the MLP, but not the residual stream.
        return x + self.mlp(self.norm(x + gca_out))  # type: ignore[no-any-return]

    def _cross_attention(self, x: Tensor, spans: Sequence[Span]) -> Tensor | None:
        """Return GCA's output [B, T, E], zeros for tokens outside the spans."""
        if not spans:
            return None
        pieces, at = [], 0
        for span in spans:
            chunks = span.retrieved.index.shape[1]
            span_states = x[:, span.start : span.stop].unflatten(1, (chunks, -1))  # [B, C, T, E]
            pieces.append(torch.zeros_like(x[:, at : span.start]))
            pieces.append(self.gca(span_states, span.retrieved).flatten(1, 2).to(x.dtype))
            at = span.stop
        pieces.append(torch.zeros_like(x[:, at:]))
        return torch.cat(pieces, dim=1)


def _attend_window(
    attention: WindowAttention, x: Tensor, window: WindowCache, layer: int
) -> Tensor:
    """Return the window attention of new tokens [1, T, E], read from the cache."""
    query, keys, values = attention.project(x)
    return attention.out(window.attend(layer, query, keys, values))  # type: ignore[no-any-return]


class DRT(LanguageModel):
    """The whole model; see ``ModelConfig`` for its options."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.lower = nn.ModuleList(LowerLayer(config) for _ in range(config.lower_layers))
        self.encoder = ChunkEncoder(config)
        self.reader = encoder_blocks(config, config.reread_layers) if config.reread_layers else None
        self.memory_map = linear(config.width, 2 * config.kv_heads * config.head_size)
        self.scorer = LandmarkScorer(config)
        self.upper = nn.ModuleList(UpperLayer(config) for _ in range(config.upper_layers))
        self.norm = RMSNorm(config.width)
        self.question_map: nn.Linear | None = None
        self.quote_head: QuoteHead | None = None
        if config.question_states:
            self.question_map = linear(config.width, config.width, scale=0.3)
        if config.quote_head:
            self.quote_head = QuoteHead(config)
        self.span_reader = SpanReader(config.reader, config) if config.reader else None
        # The encoder of the fixed retriever: frozen, and no part of this model's weights.
        self.chunk_vectors: ChunkVectors | None = None

    def lower_states(self, ids: Tensor, valid: Tensor) -> Tensor:
        """Return lower-stack states [B, T, E] of token ids [B, T], ``valid`` where they exist."""
        x = self.embed(ids)
        for layer in self.lower:
            x = self.run(layer, x, valid)
        return x

    def chunk_states(self, chunks: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """Return lower-stack states of consecutive chunks [B, C, S] with landmarks, [B, C, S+1, E].

        The second result says which of these positions exist, [B, C, S+1].
        """
        # The window runs across chunk borders: chunks and landmarks are one flat sequence here.
        ids = insert_landmarks(chunks, self.config.landmark_id)
        mask = insert_landmarks(valid, True)
        states = self.lower_states(ids.flatten(1), mask.flatten(1))
        return states.unflatten(1, (-1, self.config.slots)), mask

    def encode(self, states: Tensor, valid: Tensor) -> Encoded:
        """Encode the lower-stack states [N, S+1, E] of N chunks, whose landmark comes last."""
        out = self.run(self.encoder, states, valid)
        landmarks = self.encoder.landmark(out, valid)
        return Encoded(out[:, :-1], landmarks, valid[:, :-1])

    def prompt_states(self, prompt: Prompt) -> tuple[Tensor, list[Encoded]]:
        """Return the lower-stack states [N, T, E] of prompts, and the encoding of each query chunk.

        The states have the question's encoding added where it is restated.
        """
        states = self.lower_states(prompt.ids, prompt.valid)
        encoded = [
            self.encode(states[:, a:b], prompt.valid[:, a:b])
            for a, b in segments(prompt)[: prompt.query_borders]
        ]
        return self.add_question(states, prompt, encoded), encoded

    def add_question(self, states: Tensor, prompt: Prompt, encoded: Sequence[Encoded]) -> Tensor:
        """Add the question's encoding to its restated tokens, if the model has that option.

        ``prompt.restates`` [N, T] says which token of the question one restates, -1 for none.
        """
        if self.question_map is None:
            return states
        # A landmark slot keeps the slots of the prompt and of the encoded chunks aligned.
        question = torch.cat([F.pad(e.states, (0, 0, 0, 1)) for e in encoded], dim=1)
        places = prompt.restates.clamp(min=0)[..., None].expand(-1, -1, question.shape[-1])
        restated = question.gather(1, places)  # [N, T, E]
        is_restated = (prompt.restates >= 0)[..., None].to(states.dtype)
        added: Tensor = self.question_map(restated) * is_restated
        return states + added.to(states.dtype)

    def remember(self, encoded: Encoded) -> ChunkMemory:
        """Return the memory of encoded chunks, which all upper layers share, and its landmarks."""
        keys, values = self.project_memory(encoded.states)
        return ChunkMemory(keys, values, encoded.mask, self.scorer.keys(encoded.landmarks))

    def project_memory(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Project encoder states [N, S, E] to keys and values [N, S, Hk, D]."""
        config = self.config
        both = self.memory_map(states).unflatten(-1, (2, config.kv_heads, config.head_size))
        keys, values = both.unbind(dim=-3)
        return keys, values

    def read(self, chunks: Tensor, valid: Tensor, *, skip: int = 0) -> tuple[Tensor, Encoded]:
        """Read consecutive chunks [B, C, S]; return lower states [B, C, S+1, E] and the encoding.

        The first ``skip`` chunks only warm the window up: the encoding is of the other B * (C -
        skip) chunks.
        """
        states, mask = self.chunk_states(chunks, valid)
        return states, self.encode(states[:, skip:].flatten(0, 1), mask[:, skip:].flatten(0, 1))

    def reread(
        self, question: Tensor, question_valid: Tensor, tokens: Tensor, mask: Tensor
    ) -> tuple[Reread, ChunkMemory]:
        """Run the reader pass: encode each retrieved chunk with the question in front of it.

        The input is ``question LMK chunk LMK`` in a fresh window. The last encoder layers may be
        separate ones (``reread_layers``), so that training them does not move landmarks.
        ``question``, ``question_valid`` [N, L]; ``tokens``, ``mask`` [N, R, U], a chunk with its
        margins. Returns the states for the quote head and the chunk memory [N * R, U, Hk, D] that
        replaces the stored one in GCA.
        """
        count, retrieved, length = tokens.shape
        landmark = tokens.new_full((count, retrieved, 1), self.config.landmark_id)
        front = question[:, None].expand(-1, retrieved, -1)
        front_valid = question_valid[:, None].expand(-1, retrieved, -1)
        # R sequences per question, [N * R, L + 1 + U + 1]; an empty chunk has no landmarks either.
        exists = mask.any(dim=-1, keepdim=True)
        ids = torch.cat([front, landmark, tokens, landmark], dim=-1).flatten(0, 1)
        valid = torch.cat([front_valid, exists, mask, exists], dim=-1).flatten(0, 1)
        out = self.encoder(self.lower_states(ids, valid), valid, last=self.reader)
        # The chunk's tokens become memory; the closing landmark's state is for the reranker score.
        states = out[:, -length - 1 : -1]  # [N * R, U, E]
        keys, values = self.project_memory(states)
        memory = ChunkMemory(keys, values, mask.flatten(0, 1), out.new_zeros(0))
        rows = (count, retrieved)
        return Reread(states.unflatten(0, rows), mask, out[:, -1].unflatten(0, rows)), memory

    def upper_states(self, x: Tensor, valid: Tensor, plan: Plan) -> Tensor:
        """Return the normalised states after the upper layers, [B, T, E] -> [B, T, E]."""
        per_group = len(self.upper) // self.config.groups
        for group in range(self.config.groups):
            # One retrieval per group, by the states that enter it; its layers share the result.
            spans = plan(group, x)
            for layer in self.upper[group * per_group : (group + 1) * per_group]:
                x = self.run(layer, x, valid, spans)
        return self.norm(x)  # type: ignore[no-any-return]

    def forward(
        self,
        chunks: Tensor,
        valid: Tensor,
        *,
        generator: torch.Generator | None = None,
        retrieval: bool = True,
        ranking: Ranking | None = None,
        scores: list[Tensor] | None = None,
    ) -> Tensor:
        """Return the last states [B, C, S+1, E] of streams of chunks [B, C, S].

        Each chunk reads what its predecessor retrieved. ``generator`` adds Gumbel noise to the
        choice; ``retrieval=False`` gives the same model without GCA, and a ``ranking`` chooses
        chunks in place of the scores, which still weigh them. ``scores`` is given those of each
        group, [B, C, C].
        """
        states, encoded = self.read(chunks, valid)
        batch, count = chunks.shape[:2]
        plan: Plan = _retrieve_nothing
        if retrieval:
            vectors = self.frozen_vectors(chunks, valid)
            plan = self.stream_plan(
                encoded,
                batch,
                count,
                generator,
                vectors=vectors,
                ranking=ranking,
                record=scores,
            )
        mask = insert_landmarks(valid, True).flatten(1)  # [B, C * (S+1)]
        out = self.upper_states(states.flatten(1, 2), mask, plan)  # [B, C * (S+1), E]
        return out.unflatten(1, (count, -1))  # type: ignore[no-any-return]

    def frozen_vectors(self, chunks: Tensor, valid: Tensor) -> Tensor | None:
        """Return the fixed retriever's vectors [B, C, F] of chunks [B, C, S].

        ``None`` where another retriever is used.
        """
        if self.config.retriever != "fixed":
            return None
        if self.chunk_vectors is None:
            raise ConfigError("a model with the fixed retriever needs its encoder of chunks")
        with torch.no_grad():
            return self.chunk_vectors(chunks, valid)

    def stream_plan(
        self,
        encoded: Encoded,
        batch: int,
        count: int,
        generator: torch.Generator | None = None,
        *,
        vectors: Tensor | None = None,
        ranking: Ranking | None = None,
        record: list[Tensor] | None = None,
    ) -> Plan:
        """Return the plan by which chunks retrieve earlier chunks of the same stream.

        ``vectors`` [B, C, F] replace the landmarks with the fixed retriever; a ``ranking`` chooses
        in place of the scores; ``record`` is given the scores [B, C, C] of each group.
        """
        drawn = ranking is None and self.config.retriever == "random"
        ranked_by = random_ranking if drawn else ranking
        memory = self.remember(encoded)
        width = self.config.width
        landmarks = encoded.landmarks.view(batch, count, width)
        keys = memory.landmarks.view(batch, count, width)
        # All streams share one pool of B * C chunks; stream b starts at b * C.
        offset = torch.arange(batch, device=keys.device)[:, None, None] * count
        allowed = causal_mask(count, keys.device).expand(batch, -1, -1)  # [B, C, C]
        order = torch.arange(count, device=keys.device)
        # A fixed choice is the same every time.
        noise = generator if vectors is None and ranking is None else None

        def plan(group: int, x: Tensor) -> Sequence[Span]:
            ranks = None
            if vectors is None:
                # The state of each chunk's landmark token queries the landmarks before it.
                border = x.unflatten(1, (count, -1))[:, :, -1]  # [B, C, E]
                queries = self.scorer.queries(border, landmarks, group)
                scores = self.scorer.scores(queries, keys).total  # [B, C, C]
            else:
                scores = vector_scores(vectors, vectors)
            if record is not None:
                record.append(scores)
            if drawn and noise is not None:
                ranks = torch.zeros_like(scores)  # ranked by the noise of this step
            elif ranked_by is not None:
                ranks = ranked_by(group, order, count).expand_as(allowed)
            top = select(scores, allowed, self.config.retrieved, generator=noise, ranking=ranks)
            # What chunk t retrieved is read by chunk t + 1; the first chunk reads nothing.
            retrieved = Retrieved(
                memory,
                shift_chunks(top.index + offset),
                shift_chunks(top.scores, float("-inf")),
                shift_chunks(top.probabilities, 0.0),
            )
            return [Span(0, x.shape[1], retrieved)]

        return plan


def _retrieve_nothing(_: int, __: Tensor) -> Sequence[Span]:
    return ()
