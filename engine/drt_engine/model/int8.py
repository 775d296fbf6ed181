"""Linear maps in eight bits, for processors whose fp32 is slow: weights and inputs are rounded.

Each output of the weights and each row of the input has a scale of its own (as in LLM.int8(),
Dettmers et al. 2022, section 2.1), so what one row gives never depends on the rows beside it. The
products are sums of integers and exact: they are the same bits in batches of any size and on any
processor.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, _int_mm, nn

from drt_engine.model.drt import DRT

# Where there is no VNNI, oneDNN adds two products in sixteen bits, with inputs moved to 0..255:
# 2 x 255 x 64 still fits in 32767, so weights have seven bits everywhere.
_LARGEST_WEIGHT = 64
_LARGEST_INPUT = 127
_ZERO = 128
_ROWS = 512  # multiplied at a time: with their products they stay in the processor's cache
_EXACT = 1 << 24  # integers up to here are exact in fp32


def fast_int8() -> bool:
    """Return whether PyTorch multiplies eight-bit integers faster than fp32 on this processor.

    Without AVX512-VNNI its product is a plain loop, 26 times as slow as one in fp32.
    """
    return bool(getattr(torch.cpu, "_is_vnni_supported", lambda: False)())


@functools.cache
def lays_out() -> bool:
    """Return whether oneDNN multiplies eight-bit integers exactly on this processor without VNNI.

    With AVX2 its products take half of the time of those in fp32. Tried with the largest sums.
    """
    weight = torch.tensor([[_LARGEST_WEIGHT], [-_LARGEST_WEIGHT]], dtype=torch.int8).expand(2, 256)
    codes = torch.tensor([[_LARGEST_INPUT], [-_LARGEST_INPUT]], dtype=torch.float).expand(2, 256)
    try:
        laid_out = torch.ops.onednn.qlinear_prepack(weight.contiguous(), None)
        products = _multiply_laid_out(codes.clone(), laid_out, torch.ones(2))
    except (AttributeError, RuntimeError, TypeError):  # another PyTorch, another processor
        return False
    return torch.equal(products, codes @ weight.float().t())


class Int8Linear(nn.Module):
    """Linear map of fp32 vectors by weights in eight bits; it takes the place of an ``nn.Linear``.

    It keeps K inputs x N outputs bytes of weights, a scale for each output, and the bias. Where
    products of bytes are slow it also keeps the bytes as oneDNN wants them or, where it has none,
    the integers in fp32. All products are the same bits.
    """

    keeps_fp32 = True
    weight: Tensor
    scale: Tensor
    bias: Tensor
    laid_out: Tensor | None
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
        self.laid_out = self.wide = None
        if fast_int8():
            return
        if lays_out():
            self.laid_out = torch.ops.onednn.qlinear_prepack(rounded, None)
        elif weight.shape[1] * _LARGEST_INPUT * _LARGEST_WEIGHT <= _EXACT:
            self.wide = rounded.float()

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
        if self.laid_out is not None:
            scaled = _multiply_laid_out(codes, self.laid_out, self.scale)
        elif self.wide is not None:
            scaled = torch.mm(codes, self.wide.t(), out=out).mul_(self.scale)
        else:
            # Integers first become fp32, then are multiplied: one step would convert more slowly.
            scaled = out.copy_(_int_mm(codes.to(torch.int8), self.weight.t())).mul_(self.scale)
        torch.addcmul(self.bias, scaled, step, out=out)


def _multiply_laid_out(codes: Tensor, laid_out: Tensor, scale: Tensor) -> Tensor:
    """Return integers [R, K] in fp32 times laid out weights, times the outputs' scales, fp32."""
    zeros = torch.zeros(len(scale), dtype=torch.int32)
    moved = codes.add_(_ZERO).to(torch.uint8)  # unsigned; what was added is its zero point
    front = (moved, 1.0, _ZERO, laid_out, scale, zeros, None)
    products: Tensor = torch.ops.onednn.qlinear_pointwise(
        *front, 1.0, 0, torch.float32, "none", [], ""
    )
    return products


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
