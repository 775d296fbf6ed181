"""Small parts of all stacks: norms, linear maps, the gated MLP."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def linear(inputs: int, outputs: int, *, scale: float = 1.0, bias: bool = False) -> nn.Linear:
    """Return a linear map with weights of standard deviation ``scale / sqrt(inputs)`` (0 gives
    zeros).
    """
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=scale * inputs**-0.5)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


class RMSNorm(nn.Module):
    """Root-mean-square norm with a learnt gain, in the type of its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """[.., E] -> [.., E]."""
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), 1e-5)


class SwiGLU(nn.Module):
    """Gated MLP: ``down(silu(gate(x)) * up(x))``."""

    def __init__(self, width: int, hidden: int, *, out_scale: float = 1.0) -> None:
        super().__init__()
        self.gate_up = linear(width, 2 * hidden)
        self.down = linear(hidden, width, scale=out_scale)

    def forward(self, x: Tensor) -> Tensor:
        """[.., E] -> [.., E]."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)  # type: ignore[no-any-return]
