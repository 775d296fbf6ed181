"""What a window lets each token see: the argument that all implementations share."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Band(NamedTuple):
    """A causal window with ALiBi.

    ``valid`` [B, T], true for tokens that exist (``None``: all do); ``window``: how many tokens one
    sees, itself included; ``slopes`` [H] of the bias.
    """

    valid: Tensor | None
    window: int
    slopes: Tensor


def check_band(query: Tensor, keys: Tensor, values: Tensor, band: Band) -> None:
    """Raise ``ValueError`` unless the shapes of one ``window_attention`` call fit together."""
    valid, window, slopes = band
    if query.dim() != 4:
        raise ValueError(f"query has {query.dim()} dimensions, expected 4: [B, T, H, D]")
    batch, tokens, heads, size = query.shape
    if keys.dim() != 4 or keys.shape != values.shape or keys.shape[3] != size:
        raise ValueError(
            f"keys {tuple(keys.shape)} and values {tuple(values.shape)} must both be "
            f"[B, T, Hk, {size}]"
        )
    if keys.shape[:2] != (batch, tokens):
        raise ValueError(f"keys are {tuple(keys.shape)}, expected [{batch}, {tokens}, Hk, D]")
    if heads % keys.shape[2]:
        raise ValueError(f"{heads} query heads cannot share {keys.shape[2]} key/value heads")
    if valid is not None and valid.shape != (batch, tokens):
        raise ValueError(f"valid is {tuple(valid.shape)}, expected [{batch}, {tokens}]")
    if slopes.shape != (heads,):
        raise ValueError(f"slopes are {tuple(slopes.shape)}, expected [{heads}]")
    if window < 1:
        raise ValueError(f"window is {window}, expected 1 or more")
