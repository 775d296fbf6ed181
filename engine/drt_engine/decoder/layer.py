"""One layer of a decoder: window attention that also reads chunk memory, and an MLP.

Chunk memory enters the softmax of the layer's own attention: with window scores ``s_j`` and, for
chunk ``k`` with retrieval probability ``w_k``, memory scores ``m_ki``, a token's output is

    (sum_j e^{s_j} v_j + sum_k w_k sum_i e^{m_ki} u_ki) / (sum_j e^{s_j} + sum_k w_k sum_i e^{m_ki})

which is grouped cross-attention (paper, equations 2 and 3) with one denominator for the window and
all chunks in place of one for each chunk. A pretrained layer expects its context there, so it
reads memory before it has been trained to. Without memory it is the pretrained layer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from drt_engine.decoder.config import DecoderConfig
from drt_engine.decoder.rope import rotate
from drt_engine.model.layers import RMSNorm, SwiGLU, linear
from drt_kernels import window_attention


class LayerMemory(NamedTuple):
    """What one layer reads: ``keys``, ``values`` [B, Hk, R * S, D] of R chunks for each row.

    ``bias`` [B, R, S] is added to the scores: ``log w`` of the chunk, minus infinity for padding.
    Where all rows read the same, B may be 1.
    """

    keys: Tensor
    values: Tensor
    bias: Tensor


class Past(NamedTuple):
    """Rotated ``keys`` and ``values`` [B, Hk, P, D] of the tokens before, at most a window."""

    keys: Tensor
    values: Tensor


class DecoderLayer(nn.Module):
    """Pre-norm self-attention with rotary positions and an optional memory, then a gated MLP."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        heads = config.heads + 2 * config.kv_heads
        self.attention_norm = RMSNorm(config.width)
        self.qkv = linear(config.width, heads * config.head_size)
        self.out = linear(config.width, config.width, scale=0.5)
        self.mlp_norm = RMSNorm(config.width)
        self.mlp = SwiGLU(config.width, config.mlp, out_scale=0.5)

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        *,
        memory: LayerMemory | None = None,
        past: Past | None = None,
        shares: list[Tensor] | None = None,
    ) -> tuple[Tensor, Past]:
        """Return the states after the layer [B, T, E], and keys and values of a window's end.

        ``positions`` [T] count on from those of ``past``. ``memory`` is read by all T tokens, from
        ``gap`` positions behind each chunk on; ``shares`` gets what share of the attention each
        chunk of it has, [B, T, R].
        """
        config = self.config
        query, keys, values = self._project(x)
        rotated = rotate(query, positions, config.rope_theta)
        keys = rotate(keys, positions, config.rope_theta)
        if past is not None:
            keys = torch.cat([past.keys, keys], dim=2)
            values = torch.cat([past.values, values], dim=2)
        if memory is None and past is None:
            mixed = self._window(rotated, keys, values)
        else:
            mixed = self._joint((rotated, query), keys, values, positions, memory, shares)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        x = x + self.mlp(self.mlp_norm(x))
        first = max(0, keys.shape[2] - config.window + 1)
        return x, Past(keys[:, :, first:], values[:, :, first:])

    def memory_of(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values [N, Hk, S, D] of chunks whose states [N, S, E] enter this layer.

        Keys are rotated by the place of their token in its chunk.
        """
        _, keys, values = self._project(x)
        places = torch.arange(x.shape[1], device=x.device)
        return rotate(keys, places, self.config.rope_theta), values

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        config = self.config
        heads = self.qkv(self.attention_norm(x)).unflatten(-1, (-1, config.head_size))
        split = heads.transpose(1, 2).split([config.heads, config.kv_heads, config.kv_heads], dim=1)
        query, keys, values = split
        return query, keys, values

    def _window(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attend within the window alone: the kernels' window attention, without ALiBi.

        What is shorter than the window is plain causal attention, which PyTorch has fused; on a
        CPU its backward pass is slow.
        """
        config = self.config
        if query.shape[2] <= config.window and not torch.is_grad_enabled():
            return F.scaled_dot_product_attention(
                query, keys, values, is_causal=True, enable_gqa=True
            )
        out = window_attention(
            query.transpose(1, 2),
            keys.transpose(1, 2),
            values.transpose(1, 2),
            valid=None,
            window=config.window,
            slopes=query.new_zeros(config.heads, dtype=torch.float32),
        )
        return out.transpose(1, 2)

    def _joint(
        self,
        queries: tuple[Tensor, Tensor],
        keys: Tensor,
        values: Tensor,
        positions: Tensor,
        memory: LayerMemory | None,
        shares: list[Tensor] | None,
    ) -> Tensor:
        """Attend to the window and the memory in one softmax; [B, H, T, D].

        ``queries`` are rotated by ``positions``, and not rotated.
        """
        config = self.config
        rotated, query = queries
        scale = config.head_size**-0.5
        tokens, context = query.shape[2], keys.shape[2]
        scores = grouped(rotated * scale, keys) + _band(tokens, context, config.window, keys)
        if memory is None:
            return _mix(scores.float().softmax(dim=-1).to(values.dtype), values)
        # Each chunk of a row begins at its own position 0.
        behind = positions + config.chunk + config.gap
        reader = rotate(query, behind, config.rope_theta) * scale
        read = grouped(reader, memory.keys) + memory.bias.flatten(1)[:, None, None]
        weights = torch.cat([read.float(), scores.float()], dim=-1).softmax(dim=-1)
        if shares is not None:
            by_chunk = weights[..., : read.shape[-1]].unflatten(-1, memory.bias.shape[1:])
            shares.append(by_chunk.sum(dim=-1).mean(dim=1))
        weights = weights.to(values.dtype)
        of_memory, of_window = weights.split([read.shape[-1], context], dim=-1)
        return _mix(of_memory, memory.values) + _mix(of_window, values)


def grouped(query: Tensor, keys: Tensor) -> Tensor:
    """Return scores [B, H, T, N] of queries [B, H, T, D] and keys [B or 1, Hk, N, D] they share."""
    return _shared(query, keys.transpose(-1, -2))


def _mix(weights: Tensor, values: Tensor) -> Tensor:
    """Return [B, H, T, D]: values [B or 1, Hk, N, D] weighed by [B, H, T, N]."""
    return _shared(weights, values)


def _shared(rows: Tensor, matrices: Tensor) -> Tensor:
    """Return the products [B, H, T, N] of [B, H, T, K] and [B or 1, Hk, K, N].

    Heads that share a matrix, and batch rows where there is one for all, are one product's rows.
    """
    batch, heads, tokens, size = rows.shape
    shared = matrices.shape[1]
    if len(matrices) == batch:
        return (rows.reshape(batch, shared, -1, size) @ matrices).view(batch, heads, tokens, -1)
    grouped_rows = rows.view(batch, shared, -1, size).transpose(0, 1).flatten(1, 2)
    product: Tensor = (grouped_rows @ matrices[0]).unflatten(1, (batch, -1))
    return product.transpose(0, 1).reshape(batch, heads, tokens, -1)


def _band(tokens: int, context: int, window: int, like: Tensor) -> Tensor:
    """Return the bias [T, P + T] of a causal window: the last T of the context are the queries."""
    at = torch.arange(context - tokens, context, device=like.device)[:, None]
    seen = torch.arange(context, device=like.device)[None]
    allowed = (seen <= at) & (seen > at - window)
    return torch.zeros(tokens, context, device=like.device).masked_fill(~allowed, -torch.inf)
