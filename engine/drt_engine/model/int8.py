"""Linear maps in eight bits, for processors whose fp32 is slow: weights and inputs are rounded.

Each output of the weights and each row of the input has a scale of its own (as in LLM.int8(),
Dettmers et al. 2022, section 2.1), so what one row gives never depends on the rows beside it. The
products are sums of integers and exact: they are the same bits in batches of any size and on any
processor.
"""

from __future__ import annotations

import torch
from torch import Tensor, _int_mm, nn

from drt_engine.model.drt import DRT

# Where there is no VNNI, oneDNN adds two products in sixteen bits, with inputs moved to 0..255:
# 2 x 255 x 64 still fits in 32767, so weights have seven bits everywhere.
_LARGEST_WEIGHT = 64
_LARGEST_INPUT = 127
_ROWS = 512  # multiplied at a time: with their products they stay in the processor's cache
_EXACT = 1 << 24  # integers up to here are exact in fp32


def fast_int8() -> bool:
    """Return whether PyTorch multiplies eight-bit integers faster than fp32 on this processor.

    Without AVX512-VNNI its product is a plain loop, 26 times as slow as one in fp32.
    """
    return bool(getattr(torch.cpu, "_is_vnni_supported", lambda: False)())


class Int8Linear(nn.Module):
    """Linear map of fp32 vectors by weights in eight bits; it takes the place of an ``nn.Linear``.

    It keeps K inputs x N outputs bytes of weights, a scale for each output, and the bias. Where
    products of bytes are slow it also keeps the integers in fp32, whose products are the same bits.
    """

    keeps_fp32 = True
    weight: Tensor
    scale: Tensor
    bias: Tensor
    wide: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()  # [N, K]
        scale = (weight.abs().amax(dim=1) / _LARGEST_WEIGHT).clamp(min=torch.finfo().tiny)
        rounded = (weight / scale[:, None]).round_().to(torch.int8)
        bias = torch.zeros(len(weight)) if linear.bias is None else linear.bias.detach().float()
        self.register_buffer("weight", rounded, persistent=False)
        self.register_buffer("scale", scale, persistent=False)
        self.register_buffer("bias", bias, persistent=False)
        is_exact = weight.shape[1] * _LARGEST_INPUT * _LARGEST_WEIGHT <= _EXACT
        wide = rounded.float() if is_exact and not fast_int8() else None
        self.register_buffer("wide", wide, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map [.., K] fp32 to [.., N] fp32."""
        rows = x.reshape(-1, x.shape[-1])
        out = rows.new_empty(len(rows), len(self.weight))
        for part, into in zip(rows.split(_ROWS), out.split(_ROWS), strict=True):
            self._multiply(part, into)
        return out.view(*x.shape[:-1], len(self.weight))

    def _multiply(self, rows: Tensor, out: Tensor) -> None:
        """Write the products of [R, K] into ``out`` [R, N]."""
        largest = torch.maximum(rows.amax(dim=1), -rows.amin(dim=1))  # twice as fast as abs().amax
        step = (largest / _LARGEST_INPUT).clamp_(min=torch.finfo().tiny)[:, None]
        codes = (rows * step.reciprocal()).round_()
        if self.wide is None:
            # Integers first become fp32, then are multiplied: one step would convert more slowly.
            out.copy_(_int_mm(codes.to(torch.int8), self.weight.t()))
        else:
            torch.mm(codes, self.wide.t(), out=out)
        out.mul_(step)
        torch.addcmul(self.bias, out, self.scale, out=out)


def round_to_int8(model: DRT) -> None:
    """Round the linear maps that read documents to eight bits: lower stack and chunk encoder.

    Most of the time of reading is theirs. The decoder and what compares chunks stay, and so does
    the reader: rounded, it moves answers that are near a threshold of showing.
    """
    for part in (model.lower, model.encoder):
        _replace_linear_maps(part)


def _replace_linear_maps(module: nn.Module) -> None:
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            setattr(module, name, Int8Linear(child))
        else:
            _replace_linear_maps(child)
