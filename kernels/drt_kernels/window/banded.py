"""Sliding-window attention as plain matrix products over blocks of a band: the path for a CPU.

Each block of queries meets only the keys of its band. Scores and weights of one block stay in the
processor's cache, the bias is made once per model shape, and padding is left out before anything
is multiplied. Autograd and ``torch.compile`` see one step, not its loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from drt_kernels.window.band import Band

_BLOCK = 128  # queries; 64 and 256 were measured slower, forward and backward
_ALIGN = 32  # keys; a softmax over 77 of them takes twice as long as one over 96

_Operands = tuple[Tensor, Tensor, Tensor]  # query, keys, values


@dataclass(frozen=True)
class _Block:
    """Queries ``begin:end`` of the packed tokens, keys ``first:last``, first bias column.

    Keys from ``end`` on make the width even; they follow every query and weigh nothing.
    """

    begin: int
    end: int
    first: int
    last: int
    column: int

    def size(self, q: Tensor) -> int:
        """Return how many scores it has, for packed queries."""
        return q.shape[0] * q.shape[2] * (self.end - self.begin) * (self.last - self.first)


def window_banded(
    query: Tensor, keys: Tensor, values: Tensor, band: Band, *, keep_weights: bool = True
) -> Tensor:
    """Compute what ``window_reference`` computes, with the same arguments, in the query's type.

    ``keep_weights=False`` computes the weights again for the backward pass: a quarter more time,
    and a part of the memory, since W weights a token and head are kept otherwise.
    """
    valid, window, slopes = band
    k, v = keys.to(query.dtype), values.to(query.dtype)
    if torch.compiler.is_compiling():
        return _window_op(query, k, v, valid, slopes, window)  # type: ignore[no-any-return]
    return _Banded.apply(query, k, v, valid, slopes, window, keep_weights)  # type: ignore[no-any-return, no-untyped-call]


class _Banded(torch.autograd.Function):
    """Keeps the attention weights or not: again, they cost a quarter of both passes."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        valid: Tensor | None,
        slopes: Tensor,
        window: int,
        keep_weights: bool,
    ) -> Tensor:
        keep = keep_weights and any(ctx.needs_input_grad)
        band = Band(valid, window, slopes)
        out, weights = _forward((query, keys, values), band, keep=keep)
        ctx.save_for_backward(query, keys, values, valid, slopes, *weights)
        ctx.window = window
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, keys, values, valid, slopes, *weights = ctx.saved_tensors  # can be read only once
        grads = _gradients(
            grad, (query, keys, values), Band(valid, ctx.window, slopes), weights=weights
        )
        return *grads, None, None, None, None


@torch.library.custom_op("drt_kernels::window_banded", mutates_args=())
def _window_op(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    valid: Tensor | None,
    slopes: Tensor,
    window: int,
) -> Tensor:
    """Compute it as one operator for ``torch.compile``, whose backward computes weights again."""
    return _forward((query, keys, values), Band(valid, window, slopes), keep=False)[0]


@torch.library.custom_op("drt_kernels::window_banded_backward", mutates_args=())
def _window_backward_op(
    grad: Tensor,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    valid: Tensor | None,
    slopes: Tensor,
    window: int,
) -> tuple[Tensor, Tensor, Tensor]:
    return _gradients(grad, (query, keys, values), Band(valid, window, slopes), weights=[])


@_window_op.register_fake
def _(query: Tensor, *_: object) -> Tensor:
    return query.new_empty(query.shape)


@_window_backward_op.register_fake
def _(
    _: Tensor, query: Tensor, keys: Tensor, values: Tensor, *__: object
) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(t.new_empty(t.shape) for t in (query, keys, values))  # type: ignore[return-value]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001  PyTorch names the arguments
    ctx.save_for_backward(*inputs[:5])
    ctx.window = inputs[5]


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *_window_backward_op(grad, *ctx.saved_tensors, ctx.window), None, None, None


_window_op.register_autograd(_backward, setup_context=_setup_context)


def _forward(operands: _Operands, band: Band, *, keep: bool) -> tuple[Tensor, list[Tensor]]:
    """Return the output [B, T, H, D] and, where ``keep``, the attention weights of every block."""
    q, k, v = _packed(operands, band.valid)
    bias = _bias(tuple(band.slopes.tolist()), k.shape[0], band.window, q.dtype, q.device)
    blocks = list(_blocks(_lengths(operands[0], band.valid), band.window))
    # Memory for scores and weights of the largest block, used again by each.
    scores, spare = q.new_empty(2, max((block.size(q) for block in blocks), default=0))
    out = torch.empty_like(q)
    kept_weights = []
    for block in blocks:
        # One large piece of memory for all blocks was slower than small ones, used again and again.
        weights = q.new_empty(block.size(q)) if keep else spare
        weights = _weights(q, k, bias, block, scores=scores, out=weights)
        query_slice, key_slice = slice(block.begin, block.end), slice(block.first, block.last)
        torch.bmm(weights, v[:, key_slice], out=out[:, query_slice].flatten(1, 2))
        if keep:
            kept_weights.append(weights)
    return _unpacked(out, operands[0], band.valid), kept_weights


def _gradients(
    grad: Tensor,
    operands: Sequence[Tensor],
    band: Band,
    *,
    weights: Sequence[Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, keys and values.

    ``weights`` are those of every block; where there are none, they are computed again.
    """
    query, keys, values = operands
    valid = band.valid
    q, k, v = _packed((query, keys, values), valid)
    g = _heads_first(grad, valid, k.shape[0])
    bias = _bias(tuple(band.slopes.tolist()), k.shape[0], band.window, q.dtype, q.device)
    blocks = list(_blocks(_lengths(query, valid), band.window))
    scores, spare = q.new_empty(2, max((block.size(q) for block in blocks), default=0))
    # Up to six blocks add to the gradient of one key: in bf16 each addition would round.
    wide = torch.promote_types(k.dtype, torch.float32)
    dk, dv = (torch.zeros_like(t, dtype=wide) for t in (k, v))
    dq = torch.empty_like(q)
    with torch.autocast(q.device.type, enabled=False):
        for number, block in enumerate(blocks):
            if weights:
                block_weights = weights[number]
            else:
                block_weights = _weights(q, k, bias, block, scores=scores, out=spare)
            room = scores[: block_weights.numel()].view(block_weights.shape)
            _block_gradients((dq, dk, dv), (g, q, k, v), block, weights=block_weights, scores=room)
    scale, count = query.shape[-1] ** -0.5, q.shape[1]
    return (
        _unpacked(dq.mul_(scale), query, valid),
        _unpacked(dk.mul_(scale)[:, :count, None], keys, valid),
        _unpacked(dv[:, :count, None], values, valid),
    )


def _weights(
    q: Tensor, k: Tensor, bias: Tensor, block: _Block, *, scores: Tensor, out: Tensor
) -> Tensor:
    """Return attention weights of one block [Hk, T * shared, U], in the memory ``out``."""
    rows = q[:, block.begin : block.end].flatten(1, 2)  # [Hk, T * shared, D]
    shape = (*rows.shape[:2], block.last - block.first)
    size = block.size(q)
    scores, out = scores[:size].view(shape), out[:size].view(shape)
    block_bias = bias[:, : shape[1], block.column : block.column + shape[2]]
    block_keys = k[:, block.first : block.last].transpose(1, 2)
    # Scores start at the bias: one call instead of a product and a sum.
    torch.baddbmm(block_bias, rows, block_keys, alpha=q.shape[-1] ** -0.5, out=scores)
    return torch.softmax(scores, -1, out=out)


def _block_gradients(
    grads: tuple[Tensor, Tensor, Tensor],
    operands: tuple[Tensor, Tensor, Tensor, Tensor],
    block: _Block,
    *,
    weights: Tensor,
    scores: Tensor,
) -> None:
    """Add what one block gives to the gradients; ``scores`` is memory to work in."""
    dq, dk, dv = grads
    g, q, k, v = operands
    query_slice, key_slice = slice(block.begin, block.end), slice(block.first, block.last)
    # [Hk, T * shared, D]: queries, and the gradient of their output.
    rows, row_grads = q[:, query_slice].flatten(1, 2), g[:, query_slice].flatten(1, 2)
    # dv = P^T g; dP = g v^T; dS = softmax backward, in place; dq = dS k; dk = dS^T q.
    dv[:, key_slice] += torch.bmm(weights.transpose(1, 2), row_grads)
    torch.bmm(row_grads, v[:, key_slice].transpose(1, 2), out=scores)
    torch.ops.aten._softmax_backward_data.out(  # noqa: SLF001  PyTorch has no public name for it
        scores, weights, -1, q.dtype, grad_input=scores
    )
    torch.bmm(scores, k[:, key_slice], out=dq[:, query_slice].flatten(1, 2))
    dk[:, key_slice] += torch.bmm(scores.transpose(1, 2), rows)


def _lengths(query: Tensor, valid: Tensor | None) -> list[int]:
    if valid is None:
        return [query.shape[1]] * query.shape[0]
    return valid.sum(dim=1).tolist()


def _rounded(keys: int) -> int:
    return -(-keys // _ALIGN) * _ALIGN


def _blocks(lengths: list[int], window: int) -> Iterator[_Block]:
    """Yield the blocks of packed sequences that do not see each other."""
    reach = _rounded(window - 1)
    start = 0  # of the sequence among the packed tokens
    for length in lengths:
        for begin in range(0, length, _BLOCK):
            first = max(0, begin - reach)
            end = min(length, begin + _BLOCK)
            last = first + _rounded(end - first)
            column = first - begin + reach
            yield _Block(start + begin, start + end, start + first, start + last, column)
        start += length


def _packed(operands: _Operands, valid: Tensor | None) -> _Operands:
    """Pack the N tokens that exist: query [Hk, N, shared, D], keys and values [Hk, N + 31, D]."""
    query, keys, values = operands
    groups = keys.shape[2]
    room = _ALIGN - 1
    k, v = (_heads_first(t, valid, groups, room=room).squeeze(2) for t in (keys, values))
    return _heads_first(query, valid, groups), k, v


def _heads_first(x: Tensor, valid: Tensor | None, groups: int, *, room: int = 0) -> Tensor:
    """Pack [B, T, H, D] as [Hk, N + room, H / Hk, D], so that a block's rows are one matrix."""
    tokens = x.flatten(0, 1) if valid is None else x[valid]
    tokens = tokens.unflatten(1, (groups, -1)).transpose(0, 1)
    count = tokens.shape[1]
    out = x.new_empty(groups, count + room, *tokens.shape[2:])
    out[:, :count] = tokens
    out[:, count:] = 0
    return out


def _unpacked(x: Tensor, like: Tensor, valid: Tensor | None) -> Tensor:
    """Unpack [Hk, N, H / Hk, D] to [B, T, H, D], zeros where no token exists."""
    tokens = x.transpose(0, 1)
    if valid is None:
        return tokens.to(like.dtype, memory_format=torch.contiguous_format).reshape(like.shape)
    out = like.new_zeros(like.shape)
    out[valid] = tokens.flatten(1, 2).to(like.dtype)
    return out


@lru_cache(maxsize=8)
def _bias(
    slopes: tuple[float, ...], groups: int, window: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return what is added to the scores of a whole block, [Hk, block * shared, band's keys]."""
    reach = _rounded(window - 1)
    wide = torch.promote_types(dtype, torch.float32)
    with torch.inference_mode(False):
        steep = torch.tensor(slopes, dtype=wide, device=device).view(groups, 1, -1, 1)
        query = torch.arange(_BLOCK, device=device)[:, None]
        # How far each key of the band is behind each query; negative ones are in its future.
        distance = query - torch.arange(-reach, _BLOCK, device=device)
        bias = -steep * distance[None, :, None]
        outside = (distance < 0) | (distance >= window)
        bias = bias.masked_fill(outside[None, :, None], float("-inf"))
        return bias.to(dtype).flatten(1, 2)
