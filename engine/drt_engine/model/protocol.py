"""What every model of token streams can do, whatever its architecture.

Training, perplexity and the studies use nothing else. A stream comes as chunks [B, C, S], padded
anywhere; an architecture without landmarks has nothing at their slots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from drt_engine.config.model import ModelConfig
from drt_engine.model.attention import WindowAttention

Recompute = Literal["nothing", "attention", "layers"]


class LanguageModel(nn.Module):
    """A language model with tied embeddings: states of a stream and their logits."""

    config: ModelConfig
    embedding: nn.Embedding
    # What a training step computes twice instead of keeping it; set by ``set_recompute``.
    recompute: Recompute = "nothing"

    def forward(
        self, chunks: Tensor, valid: Tensor, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the last states [B, C, S+1, E] of streams of chunks [B, C, S].

        ``valid`` [B, C, S]: tokens that exist. ``generator`` draws the noise of training, where the
        architecture has any. The last slot of a chunk is its landmark's, zeros where there is none.
        """
        raise NotImplementedError

    def embed(self, ids: Tensor) -> Tensor:
        """Embed token ids [..] -> [.., E], in the compute type; in training, that of autocast."""
        x: Tensor = self.embedding(ids)
        device_type = x.device.type
        if torch.is_autocast_enabled(device_type):
            return x.to(torch.get_autocast_dtype(device_type))
        return x

    def logits(self, states: Tensor) -> Tensor:
        """Return next-token logits [.., V] of last states [.., E], by the tied embeddings."""
        return F.linear(states, self.embedding.weight.to(states.dtype))

    def set_recompute(self, recompute: Recompute) -> None:
        """Choose what the backward pass computes again, to save memory; results are the same.

        ``attention``: the weights of window attention; ``layers``: these and all of every layer
        and of the chunk encoder, of which only the input is kept (gradient checkpointing).
        """
        self.recompute = recompute
        for module in self.modules():
            if isinstance(module, WindowAttention):
                module.keep_weights = recompute == "nothing"

    def run(self, layer: Callable[..., Tensor], *inputs: Any) -> Tensor:
        """Return what a layer makes of its inputs, as ``recompute`` says."""
        if self.recompute != "layers" or not torch.is_grad_enabled():
            return layer(*inputs)
        out: Tensor = checkpoint(layer, *inputs, use_reentrant=False, preserve_rng_state=False)
        return out
