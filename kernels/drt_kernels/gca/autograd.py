"""The Triton kernels of grouped cross-attention as ``torch.library`` operators.

Autograd and ``torch.compile`` see each as one step.
``drt::gca_forward`` has two ways back: ``drt::gca_backward_query`` and ``drt::gca_backward_memory``
(deterministic, the second only where its gradients are asked for), or ``drt::gca_backward_atomic``.
Importing this module registers the operators and needs Triton. They are defined by schema, since
the decorator ``torch.library.custom_op`` imports the compiler on the first call, which takes longer
than a question.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from drt_kernels.gca.backward_memory import gca_backward_memory
from drt_kernels.gca.backward_query import gca_backward_query
from drt_kernels.gca.forward import gca_forward
from drt_kernels.launch import dense_rows
from drt_kernels.shapes import Retrieval, check_index_range

_INPUTS = (
    "Tensor query, Tensor keys, Tensor values, Tensor mask, Tensor index, Tensor probabilities"
)
_LIBRARY = torch.library.Library("drt", "FRAGMENT")
_LIBRARY.define(f"gca_forward({_INPUTS}, bool off_by_one, bool deterministic) -> (Tensor, Tensor)")
_LIBRARY.define(
    f"gca_backward_query(Tensor grad, {_INPUTS}, Tensor lse) -> (Tensor, Tensor, Tensor)"
)
_LIBRARY.define(f"gca_backward_memory(Tensor grad, {_INPUTS}, Tensor stats) -> (Tensor, Tensor)")
_LIBRARY.define(
    f"gca_backward_atomic(Tensor grad, {_INPUTS}, Tensor lse) -> (Tensor, Tensor, Tensor, Tensor)"
)


def gca_triton(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    retrieval: Retrieval,
    *,
    off_by_one: bool = True,
    deterministic: bool = True,
) -> Tensor:
    """Compute what ``gca_reference`` computes, with the same arguments.

    The result is in the query's type, or that of autocast. ``deterministic=False`` sums the
    gradients of keys and values by atomics.
    """
    kind = query.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else query.dtype
    batch, chunks = query.shape[:2]
    out, _ = torch.ops.drt.gca_forward(
        dense_rows(query.to(dtype).flatten(0, 1)),
        dense_rows(keys.to(dtype)),
        dense_rows(values.to(dtype)),
        retrieval.mask.contiguous(),
        retrieval.index.flatten(0, 1).contiguous(),
        retrieval.probabilities.float().flatten(0, 1).contiguous(),
        off_by_one,
        deterministic,
    )
    return out.unflatten(0, (batch, chunks))  # type: ignore[no-any-return]


def gca_triton_atomics(*tensors: Any, off_by_one: bool = True) -> Tensor:
    """Compute ``gca_triton``, its gradients of keys and values summed by atomics."""
    return gca_triton(*tensors, off_by_one=off_by_one, deterministic=False)


def _forward(query: Tensor, keys: Tensor, values: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    *lookup, off_by_one, _ = rest
    retrieval = Retrieval(*lookup)
    check_index_range(retrieval.index, keys.shape[0])
    return gca_forward(query, keys, values, retrieval, off_by_one=off_by_one)


# The fakes only say what shapes and types the operators return.


def _forward_fake(query: Tensor, keys: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    index = rest[2]
    chunks, tokens, heads = query.shape[:3]
    shape = (chunks, keys.shape[2], index.shape[1], tokens * heads // keys.shape[2])
    return query.new_empty(query.shape), query.new_empty(shape, dtype=torch.float32)


def _backward_query(
    grad: Tensor, query: Tensor, keys: Tensor, values: Tensor, *rest: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    *lookup, lse = rest
    return gca_backward_query(grad, query, keys, values, Retrieval(*lookup), lse=lse)


def _backward_query_fake(_: Tensor, query: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    probabilities, lse = rest[-2:]
    stats = lse.new_empty((*lse.shape, 2))
    return query.new_empty(query.shape), torch.empty_like(probabilities), stats


def _backward_memory(
    grad: Tensor, query: Tensor, keys: Tensor, values: Tensor, *rest: Tensor
) -> tuple[Tensor, Tensor]:
    *lookup, stats = rest
    return gca_backward_memory(grad, query, keys, values, Retrieval(*lookup), stats=stats)


def _backward_memory_fake(
    _: Tensor, __: Tensor, keys: Tensor, values: Tensor, *___: Tensor
) -> tuple[Tensor, Tensor]:
    return keys.new_empty(keys.shape), values.new_empty(values.shape)


def _backward_atomic(
    grad: Tensor, query: Tensor, keys: Tensor, values: Tensor, *rest: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *lookup, lse = rest
    dk, dv = (torch.zeros(keys.shape, dtype=torch.float32, device=keys.device) for _ in range(2))
    dq, dprobabilities, _ = gca_backward_query(
        grad,
        query,
        keys,
        values,
        Retrieval(*lookup),
        lse=lse,
        sums=(dk, dv),
        keep_stats=False,
    )
    return dq, dk.to(keys.dtype), dv.to(values.dtype), dprobabilities


def _backward_atomic_fake(
    _: Tensor, query: Tensor, keys: Tensor, values: Tensor, *rest: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (
        query.new_empty(query.shape),
        keys.new_empty(keys.shape),
        values.new_empty(values.shape),
        torch.empty_like(rest[2]),
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, _, ctx.deterministic = inputs
    ctx.save_for_backward(*tensors, output[1])


def _backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors
    grad = dense_rows(grad)
    if not ctx.deterministic:
        dq, dk, dv, dp = torch.ops.drt.gca_backward_atomic(grad, *saved)
        return dq, dk, dv, None, None, dp, None, None
    dq, dp, stats = torch.ops.drt.gca_backward_query(grad, *saved)
    dk = dv = None
    if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
        dk, dv = torch.ops.drt.gca_backward_memory(grad, *saved[:-1], stats)
    return dq, dk, dv, None, None, dp, None, None


def _on_its_device(launch: Callable[..., Any]) -> Callable[..., Any]:
    # Triton launches on the current device, whatever device the tensors are on.
    def run(*arguments: Any) -> Any:
        with torch.cuda.device(arguments[0].device):
            return launch(*arguments)

    return run


for _name, _real, _fake in (
    ("gca_forward", _forward, _forward_fake),
    ("gca_backward_query", _backward_query, _backward_query_fake),
    ("gca_backward_memory", _backward_memory, _backward_memory_fake),
    ("gca_backward_atomic", _backward_atomic, _backward_atomic_fake),
):
    _LIBRARY.impl(_name, _real, "CPU")
    _LIBRARY.impl(_name, _on_its_device(_real), "CUDA")
    torch.library.register_fake(f"drt::{_name}", _fake, lib=_LIBRARY)
torch.library.register_autograd("drt::gca_forward", _backward, setup_context=_setup, lib=_LIBRARY)
