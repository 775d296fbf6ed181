"""Bidirectional encoder of one chunk: lower-stack states in, token states and the landmark out.

Positions count the tokens that exist, from 1, so padding before or after them changes nothing.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from drt_engine.config.model import ModelConfig
from drt_engine.model.layers import RMSNorm, SwiGLU, linear


class EncoderAttention(nn.Module):
    """Self-attention among the tokens of one chunk."""

    def __init__(self, width: int, heads: int, *, bias: bool) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv = linear(width, 3 * width, bias=bias)
        self.out = linear(width, width, bias=bias)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Attend within each sequence, [N, T, E] -> [N, T, E]; ``bias`` [N, 1, 1, T] is added."""
        n, tokens, width = x.shape
        q, k, v = self.qkv(x).view(n, tokens, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        if x.is_cuda:
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        else:
            # Scores [N, heads, T, T]. Explicit products: SDPA's backward on a CPU is several times
            # slower for short chunks.
            scores = (q * self.size**-0.5) @ k.transpose(-1, -2) + bias.to(q.dtype)
            out = torch.softmax(scores, dim=-1).to(v.dtype) @ v
        return self.out(out.transpose(1, 2).reshape(n, tokens, width))  # type: ignore[no-any-return]


class BertBlock(nn.Module):
    """Post-norm block with LayerNorm and GELU, as in BERT."""

    def __init__(self, width: int, heads: int, mlp: int) -> None:
        super().__init__()
        self.attention = EncoderAttention(width, heads, bias=True)
        self.attention_norm = nn.LayerNorm(width, 1e-12)
        self.up = linear(width, mlp, bias=True)
        self.down = linear(mlp, width, bias=True)
        self.mlp_norm = nn.LayerNorm(width, 1e-12)

    def forward(self, x: Tensor, bias: Tensor, *, dropout: float = 0.0) -> Tensor:
        """Return the states after the block, [N, T, E] -> [N, T, E].

        ``dropout``: share of what attention and MLP add that is left out, in training.
        """
        x = self.attention_norm(x + _dropped(self.attention(x, bias), dropout))
        mlp = self.down(F.gelu(self.up(x)))
        return self.mlp_norm(x + _dropped(mlp, dropout))  # type: ignore[no-any-return]


def _dropped(x: Tensor, share: float) -> Tensor:
    return F.dropout(x, share) if share else x


class LlamaBlock(nn.Module):
    """Pre-norm block with RMSNorm and SwiGLU."""

    def __init__(self, width: int, heads: int, mlp: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(width)
        self.attention = EncoderAttention(width, heads, bias=False)
        self.mlp_norm = RMSNorm(width)
        self.mlp = SwiGLU(width, mlp)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Return the states after the block, [N, T, E] -> [N, T, E]."""
        x = x + self.attention(self.attention_norm(x), bias)
        return x + self.mlp(self.mlp_norm(x))  # type: ignore[no-any-return]


def encoder_blocks(config: ModelConfig, count: int) -> nn.ModuleList:
    """Make new blocks of the kind that the encoder consists of."""
    encoder = config.encoder
    block = BertBlock if encoder.kind == "bert" else LlamaBlock
    return nn.ModuleList(block(config.width, encoder.heads, encoder.mlp) for _ in range(count))


class ChunkEncoder(nn.Module):
    """Encode chunks independently; positions are learnt, one table for both kinds of block."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        encoder, width = config.encoder, config.width
        self.pooling = config.landmark_pooling
        self.positions = nn.Embedding(encoder.positions, width)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.input_norm = nn.LayerNorm(width, 1e-12) if encoder.kind == "bert" else nn.Identity()
        self.blocks = encoder_blocks(config, encoder.layers)
        self.output_norm = nn.Identity() if encoder.kind == "bert" else RMSNorm(width)

    def forward(
        self, states: Tensor, valid: Tensor, *, last: nn.ModuleList | None = None
    ) -> Tensor:
        """Encode lower-stack ``states`` [N, T, E] of N sequences, ``valid`` [N, T] -> [N, T, E].

        Blocks given as ``last`` replace as many of the encoder's last ones.
        """
        last_blocks = list(last or ())
        # Positions from 1; longer sequences than the table share its last one.
        places = valid.long().cumsum(dim=1).clamp(max=self.positions.num_embeddings - 1)
        x = self.input_norm(states + self.positions(places).to(states.dtype))
        if torch.is_autocast_enabled(x.device.type):  # training on a GPU: norms give fp32 there
            x = x.to(torch.get_autocast_dtype(x.device.type))
        # Padding gets half the least number, which leaves room for the scores it is added to.
        bias = torch.zeros(valid.shape, dtype=x.dtype, device=x.device)
        bias = bias.masked_fill(~valid, torch.finfo(x.dtype).min / 2)[:, None, None, :]
        for block in [*self.blocks[: len(self.blocks) - len(last_blocks)], *last_blocks]:
            x = block(x, bias)
        return self.output_norm(x)  # type: ignore[no-any-return]

    def landmark(self, states: Tensor, valid: Tensor) -> Tensor:
        """Return the vector each chunk is found by, [N, E] fp32, from token states [N, S+1, E].

        The landmark token comes last.
        """
        if self.pooling == "token":
            return states[:, -1].float()
        # The mean of the tokens that exist.
        weight = valid[..., None].to(torch.float32)
        return (states.float() * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1.0)
