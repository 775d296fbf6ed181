"""Small parts of all stacks, and the types that they compute in.

Types
    A loaded model has one compute type, bf16 or fp32, and no autocast around it:

    - ``cast_weights`` puts the weights of linear maps, embeddings and norms in the compute type.
      The states that layers pass on have it too, and so have chunk keys and values.
    - What is compared or summed across chunks is fp32, weights included: landmarks and their
      products, late interaction, scores, probabilities, quote, null and relevance logits. Such a
      module says ``keeps_fp32 = True``, and converts its inputs with ``.float()`` on entry.
    - Norms and softmax take and return the compute type; PyTorch sums in fp32 inside them. So
      attention scores within a chunk or window are rounded to it: fp32 scores would cost 6% of
      an encoder block in bf16 (117 instead of 110 ms for 64 chunks).
    - Two types meet only where a module takes in what it did not compute: memory from a library,
      a saved stream. That module converts it, to the type of its own operand.

    Training puts autocast around weights in fp32. A module written by these rules needs nothing
    for it, unless it must stay fp32 there too: then it turns autocast off (``LandmarkScorer``).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def linear(inputs: int, outputs: int, *, scale: float = 1.0, bias: bool = False) -> nn.Linear:
    """Return a linear map with weights of standard deviation ``scale / sqrt(inputs)``."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=scale * inputs**-0.5)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def cast_weights(model: nn.Module, dtype: torch.dtype) -> None:
    """Put the weights of a model in its compute type, in place; those that keep fp32 stay."""
    if getattr(model, "keeps_fp32", False):
        return
    for parameter in model.parameters(recurse=False):
        parameter.data = parameter.data.to(dtype)
    for child in model.children():
        cast_weights(child, dtype)


class RMSNorm(nn.Module):
    """Root-mean-square norm with a learnt gain, in the type of its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise vectors [.., E]."""
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), 1e-5)


class SwiGLU(nn.Module):
    """Gated MLP: ``down(silu(gate(x)) * up(x))``."""

    def __init__(self, width: int, hidden: int, *, out_scale: float = 1.0) -> None:
        super().__init__()
        self.gate_up = linear(width, 2 * hidden)
        self.down = linear(hidden, width, scale=out_scale)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the MLP to vectors [.., E]."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)  # type: ignore[no-any-return]
