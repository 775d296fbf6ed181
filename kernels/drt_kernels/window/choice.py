"""Which form of sliding-window attention runs, and why; the one override."""

from __future__ import annotations

import torch
from torch import Tensor

from drt_kernels.window.banded import window_banded
from drt_kernels.window.reference import window_reference

_NAMES = ("banded", "flex", "reference")
_FLEX_SIZES = (16, 32, 64, 128, 256)


def explain_window(query: Tensor, backend: str | None = None) -> str:
    """Return the form that ``window_attention`` uses for queries [B, T, H, D], and the reason."""
    name, reason = _choose(query, backend)
    return f"{name}: {reason}"


def window_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    valid: Tensor | None,
    window: int,
    slopes: Tensor,
    backend: str | None = None,
) -> Tensor:
    """Causal attention with ALiBi of each token to the ``window`` tokens that end with it.

    ``query`` [B, T, H, D]; ``keys``, ``values`` [B, T, Hk, D]; ``valid`` [B, T], true for tokens
    that exist (``None``: all do, which saves looking); ``slopes`` [H]. Distances count tokens that
    exist, so padding changes nothing wherever it stands; a token that does not exist gets zeros.
    Returns [B, T, H, D]. Raises ``ValueError`` for shapes that do not fit or an unknown backend.
    """
    _check(query, keys, values, valid=valid, window=window, slopes=slopes)
    name, _ = _choose(query, backend)
    if valid is not None and not torch.compiler.is_compiling() and bool(valid.all()):
        valid = None
    more = {"valid": valid, "window": window, "slopes": slopes}
    if name == "flex":
        from drt_kernels.window.flex import window_flex  # pulls in the compiler

        return window_flex(query, keys, values, **more)  # type: ignore[arg-type]
    form = window_banded if name == "banded" else window_reference
    return form(query, keys, values, **more)  # type: ignore[arg-type]


def _choose(query: Tensor, backend: str | None) -> tuple[str, str]:
    if backend is not None:
        if backend not in _NAMES:
            raise ValueError(f"backend {backend!r} is unknown, expected one of {list(_NAMES)}")
        return backend, "asked for by name"
    if query.device.type != "cuda":
        return "banded", f"blocks of matrix products, tensors are on {query.device.type}"
    size = query.shape[-1]
    if size not in _FLEX_SIZES:
        return "banded", f"FlexAttention takes head sizes {_FLEX_SIZES}, not {size}"
    return "flex", "FlexAttention, tensors are on cuda"


def _check(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    valid: Tensor | None,
    window: int,
    slopes: Tensor,
) -> None:
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
