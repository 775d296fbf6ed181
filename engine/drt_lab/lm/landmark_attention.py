"""Landmark Attention: full attention through the landmarks of blocks (arXiv 2305.16300).

A stream is cut into chunks with a landmark token after each, as for DRT; a chunk is a block. The
softmax is *grouped*: a token shares its attention among the tokens of its own block and the
landmarks of the blocks before, and what a landmark gets is shared among the tokens of its block by
a softmax of their own. Training attends to every block. Reading, every head of every token keeps
the ``retrieved`` blocks whose landmarks score best, so keys of all layers stay in memory.

Positions are ALiBi's. A distance beyond ``window``, the length that the model is trained at, counts
as that length: the part that stingy positions play in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from drt_engine.config.model import ModelConfig
from drt_engine.model.attention import WindowAttention
from drt_engine.model.chunking import insert_landmarks
from drt_engine.model.layers import RMSNorm, SwiGLU
from drt_engine.model.protocol import LanguageModel
from drt_lab.lm.chunk_store import GrowingRows
from drt_lab.lm.held import held_bytes

_STEPS = 1024  # of a score, that are told apart when blocks are chosen


class Blocks(NamedTuple):
    """Keys and values of N blocks, the landmark last: [B, N, S+1, Hk, D].

    ``exists``, ``places`` [B, N, S+1]: which tokens there are, and their numbers in the stream.
    """

    keys: Tensor
    values: Tensor
    exists: Tensor
    places: Tensor


class GroupedSoftmaxAttention(WindowAttention):
    """Pre-norm attention with the grouped softmax; projections are those of the window's."""

    def attend(
        self, query: Tensor, places: Tensor, blocks: Blocks, *, open_slot: int, top_k: int | None
    ) -> Tensor:
        """Attend from tokens [B, T, H, D] at slots ``open_slot``.. of the last of ``blocks``.

        ``places`` [B, T] are their numbers in the stream. With ``top_k`` each token keeps so many
        of the blocks before. Returns [B, T, H * D].
        """
        tokens, length = query.shape[1], blocks.keys.shape[2]
        scores = self._scores(query, places, blocks)  # [B, H, T, N, S+1]
        values = blocks.values.repeat_interleave(self.heads // self.kv_heads, dim=3)
        lowest = torch.finfo(scores.dtype).min
        exists = blocks.exists[:, None, None]  # [B, 1, 1, N, S+1]
        # The tokens of each earlier block among themselves: [B, H, T, N-1, S].
        inside = scores[..., :-1, :-1].masked_fill(~exists[..., :-1, :-1], lowest).softmax(dim=-1)
        # The own block up to the token, without its landmark, beside the landmarks before.
        slots = torch.arange(length - 1, device=query.device)
        visible = slots <= open_slot + torch.arange(tokens, device=query.device)[:, None]  # [T, S]
        own = scores[..., -1, :-1].masked_fill(~(visible & exists[..., -1, :-1]), lowest)
        landmarks = scores[..., :-1, -1].masked_fill(~exists[..., :-1, -1], lowest)
        if top_k is not None and landmarks.shape[-1] > top_k:
            landmarks = landmarks.masked_fill(~_best(landmarks, top_k), lowest)
        shares = torch.cat([landmarks, own], dim=-1).softmax(dim=-1)
        before, here = shares.split([landmarks.shape[-1], own.shape[-1]], dim=-1)
        weights = before[..., None] * inside
        out = torch.einsum("bhtns,bnshd->bthd", weights, values[:, :-1, :-1])
        out = out + torch.einsum("bhts,bshd->bthd", here, values[:, -1, :-1])
        return out.flatten(2)

    def _scores(self, query: Tensor, places: Tensor, blocks: Blocks) -> Tensor:
        keys = blocks.keys.repeat_interleave(self.heads // self.kv_heads, dim=3)
        scores = torch.einsum("bthd,bnshd->bhtns", query * self.size**-0.5, keys)
        distance = places[:, :, None, None] - blocks.places[:, None]  # [B, T, N, S+1]
        steep = self.slopes.to(scores.dtype).view(1, -1, 1, 1, 1)
        return scores - steep * distance.clamp(max=self.window)[:, None].to(scores.dtype)


class LandmarkLayer(nn.Module):
    """Pre-norm attention with the grouped softmax, and MLP."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = GroupedSoftmaxAttention(
            config.width, config.heads, config.kv_heads, window=config.window, out_scale=0.5
        )
        self.norm = RMSNorm(config.width)
        self.mlp = SwiGLU(config.width, config.mlp, out_scale=0.5)

    def forward(self, x: Tensor, exists: Tensor, places: Tensor, top_k: int | None) -> Tensor:
        """Return the states after the layer, [B, C, S+1, E] -> [B, C, S+1, E]."""
        attention = self.attention
        q, k, v = (t.unflatten(1, exists.shape[1:]) for t in attention.project(x.flatten(1, 2)))
        # Chunk by chunk: scores of all at once would be the square of the stream's length.
        attended = [
            attention.attend(
                q[:, at],
                places[:, at],
                Blocks(*(t[:, : at + 1] for t in (k, v, exists, places))),
                open_slot=0,
                top_k=top_k,
            )
            for at in range(x.shape[1])
        ]
        return self.finish(x, torch.stack(attended, dim=1))

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the states after the attention's heads [.., H * D] and the MLP, [.., E]."""
        x = x + self.attention.out(attended)
        return x + self.mlp(self.norm(x))  # type: ignore[no-any-return]


class LandmarkLM(LanguageModel):
    """``config.layers`` layers of Landmark Attention."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.layers = nn.ModuleList(LandmarkLayer(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width)

    @property
    def stack(self) -> list[LandmarkLayer]:
        """The layers, in their order."""
        return cast("list[LandmarkLayer]", list(self.layers))

    def forward(
        self,
        chunks: Tensor,
        valid: Tensor,
        *,
        generator: torch.Generator | None = None,  # noqa: ARG002  nothing here is drawn
    ) -> Tensor:
        """Return the last states [B, C, S+1, E]; all blocks are attended to only in training."""
        top_k = None if self.training else self.config.retrieved
        ids = insert_landmarks(chunks, self.config.landmark_id)
        exists = insert_landmarks(valid, True)
        places = (exists.flatten(1).cumsum(dim=1) - 1).view_as(exists)
        x = self.embed(ids)  # [B, C, S+1, E]
        for layer in self.stack:
            x = self.run(layer, x, exists, places, top_k)
        return self.norm(x)  # type: ignore[no-any-return]

    def begin(self, *, dtype: torch.dtype) -> LandmarkState:
        """Return the state of an empty stream; keys and values are in ``dtype``."""
        return LandmarkState(self, dtype=dtype)


class LandmarkState:
    """Keys and values of a whole stream in every layer of a ``LandmarkLM``; a ``DecodingState``."""

    def __init__(self, model: LandmarkLM, *, dtype: torch.dtype) -> None:
        config = model.config
        self._model, self._dtype = model, dtype
        self._device = model.embedding.weight.device
        # By layer, one row [S+1, Hk, D] a block; of the open one the rest is zeros.
        self._keys = [GrowingRows() for _ in range(config.layers)]
        self._values = [GrowingRows() for _ in range(config.layers)]
        self._exists, self._places = GrowingRows(), GrowingRows()
        self._open = 0  # tokens of the open block
        self._tokens = self._slots = 0  # read so far, without and with landmarks

    @property
    def position(self) -> int:
        """How many tokens were read, without landmarks."""
        return self._tokens

    @property
    def state_bytes(self) -> int:
        """Bytes of all tensors that are kept for the next token, with room for further blocks."""
        return held_bytes(self)

    def prefill(self, ids: Sequence[int]) -> Tensor:
        """Read tokens, closing each block that is full; return their last states [T, E]."""
        size, done = self._model.config.chunk, 0
        states = []
        while done < len(ids):
            if self._open == size:
                self.close()
            part = ids[done : done + size - self._open]
            states.append(self._read(part, slot=self._open))
            self._open += len(part)
            done += len(part)
        self._tokens += len(ids)
        return torch.cat(states)

    def step(self, token: int) -> Tensor:
        """Read one token; return the logits [V] of the next, fp32."""
        return self._model.logits(self.prefill([token]))[0].float()

    def close(self) -> None:
        """End the open block with its landmark."""
        if self._open:
            self._read([self._model.config.landmark_id], slot=self._model.config.chunk)
            self._open = 0

    def _read(self, ids: Sequence[int], *, slot: int) -> Tensor:
        """Read tokens at the slots ``slot``.. of the open block; return their states [T, E]."""
        model, config = self._model, self._model.config
        if self._open == 0:
            self._add_block()
        places = torch.arange(self._slots, self._slots + len(ids), device=self._device)
        here = slice(slot, slot + len(ids))
        self._exists.all()[-1, here] = True
        self._places.all()[-1, here] = places
        self._slots += len(ids)
        x = model.embed(torch.tensor([ids], device=self._device))  # [1, T, E]
        for layer, keys, values in zip(model.stack, self._keys, self._values, strict=True):
            q, k, v = layer.attention.project(x)
            keys.all()[-1, here], values.all()[-1, here] = k[0], v[0]
            rows = (keys, values, self._exists, self._places)
            stored = Blocks(*(row.all()[None] for row in rows))
            blocks = stored._replace(keys=stored.keys.to(q.dtype), values=stored.values.to(q.dtype))
            attended = layer.attention.attend(
                q, places[None], blocks, open_slot=slot, top_k=config.retrieved
            )
            x = layer.finish(x, attended)
        return model.norm(x)[0]  # type: ignore[no-any-return]

    def _add_block(self) -> None:
        config = self._model.config
        shape = (1, config.slots, config.kv_heads, config.head_size)
        for rows in (*self._keys, *self._values):
            rows.append(torch.zeros(shape, dtype=self._dtype, device=self._device))
        self._exists.append(torch.zeros(1, config.slots, dtype=torch.bool, device=self._device))
        self._places.append(torch.zeros(1, config.slots, dtype=torch.long, device=self._device))


def _best(scores: Tensor, count: int) -> Tensor:
    """Return which ``count`` of the scores [.., N] are best; of equal ones the last.

    In the first layer all landmarks are the same token: far ones differ by rounding alone, which
    must not choose among them.
    """
    coarse = (scores * _STEPS).round().flip(-1)
    order = coarse.sort(dim=-1, descending=True, stable=True).indices[..., :count]
    return torch.zeros_like(scores, dtype=torch.bool).scatter(
        -1, scores.shape[-1] - 1 - order, True
    )
