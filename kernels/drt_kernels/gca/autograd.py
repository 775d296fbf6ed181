"""The Triton kernels of grouped cross-attention as ``torch.library`` operators, which autograd and
``torch.compile`` see as one each.

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

from drt_kernels.gca.backward import gca_backward_memory, gca_backward_query
from drt_kernels.gca.forward import gca_forward
from drt_kernels.shapes import check_index_range

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
    *,
    mask: Tensor,
    index: Tensor,
    probabilities: Tensor,
    off_by_one: bool = True,
    deterministic: bool = True,
) -> Tensor:
    """Compute what ``gca_reference`` computes, with the same arguments, in the query's type or
    that of autocast.

    ``deterministic=False`` sums the gradients of keys and values by atomics.
    """
    kind = query.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else query.dtype
    batch, chunks = query.shape[:2]
    out, _ = torch.ops.drt.gca_forward(
        _dense_rows(query.to(dtype).flatten(0, 1)),
        _dense_rows(keys.to(dtype)),
        _dense_rows(values.to(dtype)),
        mask.contiguous(),
        index.flatten(0, 1).contiguous(),
        probabilities.float().flatten(0, 1).contiguous(),
        off_by_one,
        deterministic,
    )
    return out.unflatten(0, (batch, chunks))  # type: ignore[no-any-return]


def gca_triton_atomics(*args: Tensor, **options: Any) -> Tensor:
    """``gca_triton`` whose gradients of keys and values are summed by atomics."""
    return gca_triton(*args, deterministic=False, **options)


def _dense_rows(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _named(mask: Tensor, index: Tensor, probabilities: Tensor) -> dict[str, Tensor]:
    return {"mask": mask, "index": index, "probabilities": probabilities}


def _forward(query: Tensor, keys: Tensor, values: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    *sparse, off_by_one, _ = rest
    check_index_range(sparse[1], keys.shape[0])
    return gca_forward(query, keys, values, **_named(*sparse), off_by_one=off_by_one)


def _forward_fake(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, index: Tensor, *_: Any
) -> tuple[Tensor, Tensor]:
    chunks, tokens, heads, _ = query.shape
    shape = (chunks, keys.shape[2], index.shape[1], tokens * heads // keys.shape[2])
    return query.new_empty(query.shape), query.new_empty(shape, dtype=torch.float32)


def _backward_query(
    grad: Tensor, query: Tensor, keys: Tensor, values: Tensor, *rest: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    *sparse, lse = rest
    return gca_backward_query(grad, query, keys, values, **_named(*sparse), lse=lse)


def _backward_query_fake(
    grad: Tensor, query: Tensor, keys: Tensor, values: Tensor, *rest: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    *_, probabilities, lse = rest
    stats = lse.new_empty((*lse.shape, 2))
    return query.new_empty(query.shape), torch.empty_like(probabilities), stats


def _backward_memory(
    grad: Tensor, query: Tensor, keys: Tensor, values: Tensor, *rest: Tensor
) -> tuple[Tensor, Tensor]:
    *sparse, stats = rest
    return gca_backward_memory(grad, query, keys, values, **_named(*sparse), stats=stats)


def _backward_memory_fake(
    grad: Tensor, query: Tensor, keys: Tensor, values: Tensor, *_: Tensor
) -> tuple[Tensor, Tensor]:
    return keys.new_empty(keys.shape), values.new_empty(values.shape)


def _backward_atomic(
    grad: Tensor, query: Tensor, keys: Tensor, values: Tensor, *rest: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *sparse, lse = rest
    dk, dv = (torch.zeros(keys.shape, dtype=torch.float32, device=keys.device) for _ in range(2))
    dq, dprobabilities, _ = gca_backward_query(
        grad,
        query,
        keys,
        values,
        **_named(*sparse),
        lse=lse,
        sums=(dk, dv),
        keep_stats=False,
    )
    return dq, dk.to(keys.dtype), dv.to(values.dtype), dprobabilities


def _backward_atomic_fake(
    grad: Tensor, query: Tensor, keys: Tensor, values: Tensor, *rest: Tensor
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
    grad = _dense_rows(grad)
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
