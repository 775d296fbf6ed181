"""The Differentiable Retrieval-based Transformer: lower stack, chunk encoder, upper groups with
GCA.

Knows nothing of text, files or libraries: what is retrieved for a span of tokens is decided by a
``Plan``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from drt_engine.config.model import ModelConfig
from drt_engine.model.attention import WindowAttention
from drt_engine.model.cache import WindowCache
from drt_engine.model.chunk_encoder import ChunkEncoder, encoder_blocks
from drt_engine.model.chunking import (
    insert_landmarks,
    next_token_targets,
    shift_chunks,
)
from drt_engine.model.gca_layer import ChunkMemory, GroupedCrossAttention, Retrieved
from drt_engine.model.layers import RMSNorm, SwiGLU, linear
from drt_engine.model.prompt import Prompt, segments
from drt_engine.model.quote_head import QuoteHead, Reread
from drt_engine.model.reader import SpanReader
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.model.selection import causal_mask, select
from drt_kernels.decode import DecodeMemory


@dataclass(frozen=True)
class Span:
    """Tokens ``start:stop`` of a flat sequence, ``retrieved.index.shape[1]`` chunks of equal
    length.
    """

    start: int
    stop: int
    retrieved: Retrieved


# Given a group's number and the states [B, T, E] entering it, says what is retrieved for which
# tokens.
Plan = Callable[[int, Tensor], Sequence[Span]]


@dataclass(frozen=True)
class Encoded:
    """What the encoder makes of N chunks: token ``states`` [N, S, E], ``landmarks`` [N, E],
    ``mask`` [N, S].
    """

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
        """[B, T, E] -> [B, T, E]."""
        x = x + self.attention(x, valid)
        return x + self.mlp(self.norm(x))  # type: ignore[no-any-return]

    def step(self, x: Tensor, window: WindowCache, layer: int) -> Tensor:
        """The same for new tokens [1, T, E] that ``window`` was told of; ``layer`` counts all."""
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
        """[B, T, E] -> [B, T, E]."""
        x = x + self.attention(x, valid)
        return self._rest(x, self._cross(x, spans))

    def step(
        self,
        x: Tensor,
        window: WindowCache,
        layer: int,
        found: tuple[Retrieved, DecodeMemory | None] | None,
    ) -> Tensor:
        """The same for new tokens [1, T, E] of one chunk, which read what was ``found`` for it."""
        x = x + _attend_window(self.attention, x, window, layer)
        if found is None:
            return self._rest(x, None)
        return self._rest(x, self.gca(x[:, None], found[0], ready=found[1])[:, 0])

    def _rest(self, x: Tensor, found: Tensor | None) -> Tensor:
        if found is None:
            return x + self.mlp(self.norm(x))  # type: ignore[no-any-return]
        if self.residual:
            x = x + found
            return x + self.mlp(self.norm(x))  # type: ignore[no-any-return]
        return x + self.mlp(self.norm(x + found))  # type: ignore[no-any-return]

    def _cross(self, x: Tensor, spans: Sequence[Span]) -> Tensor | None:
        if not spans:
            return None
        pieces, at = [], 0
        for span in spans:
            chunks = span.retrieved.index.shape[1]
            part = x[:, span.start : span.stop].unflatten(1, (chunks, -1))
            pieces.append(torch.zeros_like(x[:, at : span.start]))
            pieces.append(self.gca(part, span.retrieved).flatten(1, 2).to(x.dtype))
            at = span.stop
        pieces.append(torch.zeros_like(x[:, at:]))
        return torch.cat(pieces, dim=1)


def _attend_window(
    attention: WindowAttention, x: Tensor, window: WindowCache, layer: int
) -> Tensor:
    query, keys, values = attention.project(x)
    return attention.out(window.attend(layer, query, keys, values))  # type: ignore[no-any-return]


class DRT(nn.Module):
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
        self.span_reader = SpanReader(config.reader, config.width) if config.reader else None

    def embed(self, ids: Tensor) -> Tensor:
        """Token ids [..] -> [.., E], in the compute type; in training, in that of autocast."""
        x = self.embedding(ids)
        kind = x.device.type
        return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x

    def lower_states(self, ids: Tensor, valid: Tensor) -> Tensor:
        """Token ids and which exist, [B, T] -> lower-stack states [B, T, E]."""
        x = self.embed(ids)
        for layer in self.lower:
            x = layer(x, valid)
        return x

    def chunk_states(self, chunks: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """Consecutive chunks [B, C, S] -> their lower-stack states with landmarks [B, C, S+1, E].

        The second result says which of these positions exist, [B, C, S+1].
        """
        ids = insert_landmarks(chunks, self.config.landmark_id)
        mask = insert_landmarks(valid, True)
        states = self.lower_states(ids.flatten(1), mask.flatten(1))
        return states.unflatten(1, (-1, self.config.slots)), mask

    def encode(self, states: Tensor, valid: Tensor) -> Encoded:
        """Lower-stack states of N chunks with their landmark last, [N, S+1, E] -> what the encoder
        makes of them.
        """
        out = self.encoder(states, valid)
        landmarks = self.encoder.landmark(out, valid)
        return Encoded(out[:, :-1], landmarks, valid[:, :-1])

    def prompt_states(self, prompt: Prompt) -> tuple[Tensor, list[Encoded]]:
        """Lower-stack states [N, T, E] of prompts, question states added, and the encoding of each
        query chunk.
        """
        states = self.lower_states(prompt.ids, prompt.valid)
        encoded = [
            self.encode(states[:, a:b], prompt.valid[:, a:b])
            for a, b in segments(prompt)[: prompt.query_borders]
        ]
        return self.add_question(states, prompt, encoded), encoded

    def add_question(self, states: Tensor, prompt: Prompt, encoded: Sequence[Encoded]) -> Tensor:
        """Add what the encoder made of the question to its restated tokens, where the option is
        on.
        """
        if self.question_map is None:
            return states
        # A landmark slot keeps the slots of the prompt and of the encoded chunks aligned.
        known = torch.cat([F.pad(e.states, (0, 0, 0, 1)) for e in encoded], dim=1)
        picked = known.gather(
            1, prompt.restates.clamp(min=0)[..., None].expand(-1, -1, known.shape[-1])
        )
        added = self.question_map(picked) * (prompt.restates >= 0)[..., None].to(states.dtype)
        return states + added.to(states.dtype)

    def remember(self, encoded: Encoded) -> ChunkMemory:
        """Encoded chunks -> the chunk memory that all upper layers share, and the vectors they are
        found by.
        """
        keys, values = self.project_memory(encoded.states)
        return ChunkMemory(keys, values, encoded.mask, self.scorer.keys(encoded.landmarks))

    def project_memory(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Encoder states [N, S, E] -> keys and values [N, S, Hk, D]."""
        config = self.config
        both = self.memory_map(states).unflatten(-1, (2, config.kv_heads, config.head_size))
        keys, values = both.unbind(dim=-3)
        return keys, values

    def read(self, chunks: Tensor, valid: Tensor, *, skip: int = 0) -> tuple[Tensor, Encoded]:
        """Read consecutive chunks [B, C, S]; return lower states [B, C, S+1, E] and the encoding of
        all but ``skip``.

        The first ``skip`` chunks only warm the window up. The encoding is of [B * (C - skip)]
        chunks.
        """
        states, mask = self.chunk_states(chunks, valid)
        rest = states[:, skip:].flatten(0, 1)
        return states, self.encode(rest, mask[:, skip:].flatten(0, 1))

    def reread(
        self, question: Tensor, question_valid: Tensor, tokens: Tensor, mask: Tensor
    ) -> tuple[Reread, ChunkMemory]:
        """Encode retrieved chunks with the question in front: ``question LMK chunk LMK`` in a fresh
        window; the last layers may be of their own, so that reading does not move landmarks.

        ``question``, ``question_valid`` [N, L]; ``tokens``, ``mask`` [N, R, U], a chunk with its
        margins. Returns the states for the quote head and the chunk memory [N * R, U, Hk, D] that
        replaces the stored one in GCA.
        """
        count, retrieved, length = tokens.shape
        landmark = tokens.new_full((count, retrieved, 1), self.config.landmark_id)
        front = question[:, None].expand(-1, retrieved, -1)
        front_valid = question_valid[:, None].expand(-1, retrieved, -1)
        exists = mask.any(dim=-1, keepdim=True)
        ids = torch.cat([front, landmark, tokens, landmark], dim=-1).flatten(0, 1)
        valid = torch.cat([front_valid, exists, mask, exists], dim=-1).flatten(0, 1)
        out = self.encoder(self.lower_states(ids, valid), valid, last=self.reader)
        states = out[:, -length - 1 : -1]
        keys, values = self.project_memory(states)
        flat_mask = mask.flatten(0, 1)
        memory = ChunkMemory(keys, values, flat_mask, out.new_zeros(0))
        per = (count, retrieved)
        return Reread(states.unflatten(0, per), mask, out[:, -1].unflatten(0, per)), memory

    def upper_states(self, x: Tensor, valid: Tensor, plan: Plan) -> Tensor:
        """Lower-stack states [B, T, E] -> normalised states after the upper layers [B, T, E]."""
        per_group = len(self.upper) // self.config.groups
        for group in range(self.config.groups):
            spans = plan(group, x)
            for layer in self.upper[group * per_group : (group + 1) * per_group]:
                x = layer(x, valid, spans)
        return self.norm(x)  # type: ignore[no-any-return]

    def logits(self, states: Tensor) -> Tensor:
        """Upper states [.., E] -> next-token logits [.., V] by the tied embeddings."""
        return F.linear(states, self.embedding.weight.to(states.dtype))

    def forward(
        self,
        chunks: Tensor,
        valid: Tensor,
        *,
        generator: torch.Generator | None = None,
        retrieval: bool = True,
    ) -> Tensor:
        """Streams of chunks [B, C, S] -> states [B, C, S+1, E], each chunk reading what its
        predecessor retrieved.

        ``generator`` adds Gumbel noise to the choice; ``retrieval=False`` gives the same model
        without GCA.
        """
        states, encoded = self.read(chunks, valid)
        batch, count = chunks.shape[:2]
        plan: Plan = _nothing
        if retrieval:
            plan = self.stream_plan(encoded, batch, count, generator)
        mask = insert_landmarks(valid, True).flatten(1)
        return self.upper_states(states.flatten(1, 2), mask, plan).unflatten(1, (count, -1))

    def stream_plan(
        self, encoded: Encoded, batch: int, count: int, generator: torch.Generator | None = None
    ) -> Plan:
        """Return the plan by which the chunks of each stream retrieve earlier chunks of the same
        stream.
        """
        memory = self.remember(encoded)
        width = self.config.width
        landmarks = encoded.landmarks.view(batch, count, width)
        keys = memory.landmarks.view(batch, count, width)
        offset = torch.arange(batch, device=keys.device)[:, None, None] * count
        allowed = causal_mask(count, keys.device).expand(batch, -1, -1)

        def plan(group: int, x: Tensor) -> Sequence[Span]:
            border = x.unflatten(1, (count, -1))[:, :, -1]
            queries = self.scorer.queries(border, landmarks, group)
            scores = self.scorer.scores(queries, keys).total
            found = select(scores, allowed, self.config.retrieved, generator=generator)
            retrieved = Retrieved(
                memory,
                shift_chunks(found.index + offset),
                shift_chunks(found.scores, float("-inf")),
                shift_chunks(found.probabilities, 0.0),
            )
            return [Span(0, x.shape[1], retrieved)]

        return plan

    def stream_loss(
        self,
        chunks: Tensor,
        valid: Tensor,
        *,
        generator: torch.Generator | None = None,
        retrieval: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """Next-token loss of streams [B, C, S], landmarks excluded: per-token losses [n] and their
        mask [B, C, S+1].
        """
        states = self(chunks, valid, generator=generator, retrieval=retrieval)
        targets, mask = next_token_targets(chunks, valid)
        logits = self.logits(states[mask])
        return F.cross_entropy(logits.float(), targets[mask], reduction="none"), mask


def _nothing(group: int, x: Tensor) -> Sequence[Span]:
    return ()
