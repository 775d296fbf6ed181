"""Trained matrices as the sum of a pretrained one and a product of low rank (arXiv 2106.09685).

A pretrained decoder's matrices have four bits a number exactly, and what training adds to them is
smaller than the steps between these numbers: it is kept apart, and added when a decoder is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from drt_engine.decoder.layer import DecoderLayer
from drt_engine.decoder.model import RetrievalDecoder

UP, DOWN = ".up", ".down"  # endings of the two factors, after the name of their matrix


class LowRankLinear(nn.Module):
    """A frozen linear map with a trained one of low rank beside it, 0 at the start."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.empty(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.normal_(self.down, std=base.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Map vectors [.., in] to [.., out]."""
        added = nn.functional.linear(nn.functional.linear(x, self.down), self.up)
        return self.base(x) + added  # type: ignore[no-any-return]


def add_low_rank(model: RetrievalDecoder, rank: int) -> None:
    """Freeze the matrices of the upper layers, and put trained ones of low rank beside them."""
    for layer in model.upper:
        assert isinstance(layer, DecoderLayer)
        for parent, name in (
            (layer, "qkv"),
            (layer, "out"),
            (layer.mlp, "gate_up"),
            (layer.mlp, "down"),
        ):
            setattr(parent, name, LowRankLinear(getattr(parent, name), rank))


def low_rank_factors(model: RetrievalDecoder) -> dict[str, Tensor]:
    """Return both factors of each matrix with something of low rank beside it, by its name."""
    return {
        f"{name}.weight{ending}": factor.detach()
        for name, module in model.named_modules()
        if isinstance(module, LowRankLinear)
        for ending, factor in ((UP, module.up), (DOWN, module.down))
    }


def apart(model: RetrievalDecoder, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give a model what tensors have of low rank, and return them by its names."""
    ranks = {name.removesuffix(UP): t.shape[1] for name, t in tensors.items() if name.endswith(UP)}
    if ranks:
        add_low_rank(model, next(iter(ranks.values())))
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        matrix, _, ending = name.rpartition(".")
        if name in ranks:
            out[f"{matrix}.base.weight"] = tensor
        elif f".{ending}" in (UP, DOWN) and matrix in ranks:
            out[matrix.removesuffix("weight") + ending] = tensor
        else:
            out[name] = tensor
    return out


def merged(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors with products of low rank added to the matrices that they belong to.

    ``ValueError`` names a factor without its other one or its matrix, or of another shape.
    """
    out = {name: t for name, t in tensors.items() if not name.endswith((UP, DOWN))}
    for name, up in tensors.items():
        if not name.endswith(UP):
            continue
        matrix = name.removesuffix(UP)
        down = tensors.get(matrix + DOWN)
        if down is None or matrix not in out:
            raise ValueError(f"{name} does not fit {matrix}: it or the other factor is missing")
        product = [len(up), *down.shape[1:]] if up.shape[1:] == down.shape[:1] else []
        if product != list(out[matrix].shape):
            raise ValueError(
                f"{name} does not fit {matrix}: got {product}, expected {list(out[matrix].shape)}"
            )
        out[matrix] = torch.addmm(out[matrix].float(), up.float(), down.float())
    return out
