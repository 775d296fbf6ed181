"""Sliding-window attention: the one interface to its implementations."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from drt_kernels.backend import Backends, choose
from drt_kernels.window.band import Band, check_band
from drt_kernels.window.banded import window_banded
from drt_kernels.window.reference import window_reference

_MOST_FLEX = 256  # numbers of a head
# FlexAttention is compiled in every process that uses it, which takes seconds. In inference mode
# calls of up to so many tokens use plain products: a library is read in blocks of about 5,000, of
# which a short command has few. Training, frozen parts too, computes long enough for a compiler.
_FEW_TOKENS = 1 << 14


def _needless(query: Tensor) -> str | None:
    """Return why FlexAttention is not worth compiling for ``query``; ``None`` where it is."""
    tokens = query.shape[0] * query.shape[1]
    if tokens > _FEW_TOKENS or not torch.is_inference_mode_enabled():
        return None
    return f"compiling is not worth it for {tokens:,} tokens in inference mode"


BACKENDS = Backends(
    operation="window attention",
    names=("banded", "flex", "reference"),
    kernels=("flex",),
    cpu="banded",
    fallback="banded",
    notes={"banded": "blocks of matrix products"},
    needless=_needless,
)


def explain_window(query: Tensor, backend: str | None = None) -> str:
    """Return the implementation ``window_attention`` uses for queries [B, T, H, D], and why."""
    return str(choose(BACKENDS, query, _limits, backend=backend))


def window_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    valid: Tensor | None,
    window: int,
    slopes: Tensor,
    backend: str | None = None,
    keep_weights: bool = True,
) -> Tensor:
    """Attend causally, with ALiBi, from each token to the ``window`` tokens that end with it.

    ``query`` [B, T, H, D]; ``keys``, ``values`` [B, T, Hk, D]; ``valid`` [B, T], true for tokens
    that exist (``None``: all do, which saves looking); ``slopes`` [H]. Distances count tokens that
    exist, so padding changes nothing wherever it is; a token that does not exist gets zeros.
    ``keep_weights=False`` computes weights again in the backward pass, where they would be kept.
    Returns [B, T, H, D]. Raises ``ValueError`` for shapes that do not fit, an unknown backend, or a
    named one that cannot run here.
    """
    check_band(query, keys, values, Band(valid, window, slopes))
    choice = choose(BACKENDS, query, _limits, backend=backend).runnable()
    if valid is not None and not torch.compiler.is_compiling() and bool(valid.all()):
        valid = None
    band = Band(valid, window, slopes)
    if choice.name == "banded":
        return window_banded(query, keys, values, band, keep_weights=keep_weights)
    return _implementation(choice.name)(query, keys, values, band)


def _limits(query: Tensor) -> str | None:
    size = query.shape[-1]
    if size <= _MOST_FLEX:
        return None
    return f"FlexAttention takes head sizes up to {_MOST_FLEX}, not {size}"


def _implementation(name: str) -> Callable[..., Tensor]:
    if name == "flex":
        from drt_kernels.window.flex import window_flex  # pulls in the compiler

        return window_flex
    return window_reference
