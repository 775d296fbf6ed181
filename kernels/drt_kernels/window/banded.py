"""Sliding-window attention as plain matrix products over blocks of a band: the path for a CPU.

Each block of queries meets only the keys of its band. Scores and weights of one block stay in the
processor's cache, the bias is made once per model shape, and padding is left out before anything
is multiplied. Autograd and ``torch.compile`` see one step, not its loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

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
        """How many scores it has, for packed queries."""
        return q.shape[0] * q.shape[2] * (self.end - self.begin) * (self.last - self.first)


def window_banded(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    valid: Tensor | None,
    window: int,
    slopes: Tensor,
) -> Tensor:
    """Compute what ``window_reference`` computes, with the same arguments, in the query's type.

    ``valid`` of ``None`` says that every token exists.
    """
    k, v = keys.to(query.dtype), values.to(query.dtype)
    if torch.compiler.is_compiling():
        return _window_op(query, k, v, valid, slopes, window)  # type: ignore[no-any-return]
    return _Banded.apply(query, k, v, valid, slopes, window)  # type: ignore[no-any-return]


class _Banded(torch.autograd.Function):
    """Keeps the attention weights: computing them again costs a quarter of both passes."""

    @staticmethod
    def forward(ctx, query, keys, values, valid, slopes, window):  # type: ignore[no-untyped-def]
        keep = any(ctx.needs_input_grad)
        out, kept = _forward((query, keys, values), valid, slopes, window, keep=keep)
        ctx.save_for_backward(query, keys, values, valid, slopes, *kept)
        ctx.window = window
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        operands, (valid, slopes, *kept) = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        grads = _gradients(grad, operands, valid, slopes, ctx.window, kept=kept)
        return *grads, None, None, None


@torch.library.custom_op("drt_kernels::window_banded", mutates_args=())
def _window_op(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    valid: Tensor | None,
    slopes: Tensor,
    window: int,
) -> Tensor:
    """The same as one operator for ``torch.compile``; its backward pass computes weights again."""
    return _forward((query, keys, values), valid, slopes, window, keep=False)[0]


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
    return _gradients(grad, (query, keys, values), valid, slopes, window, kept=[])


@_window_op.register_fake
def _(query, keys, values, valid, slopes, window):  # type: ignore[no-untyped-def]
    return query.new_empty(query.shape)


@_window_backward_op.register_fake
def _(grad, query, keys, values, valid, slopes, window):  # type: ignore[no-untyped-def]
    return tuple(t.new_empty(t.shape) for t in (query, keys, values))


def _setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    ctx.save_for_backward(*inputs[:5])
    ctx.window = inputs[5]


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    return *_window_backward_op(grad, *ctx.saved_tensors, ctx.window), None, None, None


_window_op.register_autograd(_backward, setup_context=_setup_context)


def _forward(
    operands: _Operands, valid: Tensor | None, slopes: Tensor, window: int, *, keep: bool
) -> tuple[Tensor, list[Tensor]]:
    """Output [B, T, H, D] and, where ``keep``, the attention weights of every block."""
    q, k, v = _packed(operands, valid)
    bias = _bias(tuple(slopes.tolist()), k.shape[0], window, q.dtype, q.device)
    blocks = list(_blocks(_lengths(operands[0], valid), window))
    scores, spare = q.new_empty(2, max((block.size(q) for block in blocks), default=0))
    out = torch.empty_like(q)
    kept = []
    for block in blocks:
        # One large piece of memory for all blocks was slower than small ones, used again and again.
        weights = q.new_empty(block.size(q)) if keep else spare
        weights = _weights(q, k, bias, block, scores=scores, out=weights)
        here, seen = slice(block.begin, block.end), slice(block.first, block.last)
        torch.bmm(weights, v[:, seen], out=out[:, here].flatten(1, 2))
        if keep:
            kept.append(weights)
    return _unpacked(out, operands[0], valid), kept


def _gradients(
    grad: Tensor,
    operands: Sequence[Tensor],
    valid: Tensor | None,
    slopes: Tensor,
    window: int,
    *,
    kept: Sequence[Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, keys and values; the weights of every block are ``kept`` or made
    again.
    """
    query, keys, values = operands
    q, k, v = _packed((query, keys, values), valid)
    g = _heads_first(grad, valid, k.shape[0])
    bias = _bias(tuple(slopes.tolist()), k.shape[0], window, q.dtype, q.device)
    blocks = list(_blocks(_lengths(query, valid), window))
    scores, spare = q.new_empty(2, max((block.size(q) for block in blocks), default=0))
    # Up to six blocks add to the gradient of one key: in bf16 each addition would round.
    wide = torch.promote_types(k.dtype, torch.float32)
    dk, dv = (torch.zeros_like(t, dtype=wide) for t in (k, v))
    dq = torch.empty_like(q)
    with torch.autocast(q.device.type, enabled=False):
        for number, block in enumerate(blocks):
            if kept:
                weights = kept[number]
            else:
                weights = _weights(q, k, bias, block, scores=scores, out=spare)
            down = scores[: weights.numel()].view(weights.shape)
            _block_gradients((dq, dk, dv), (g, q, k, v), block, weights=weights, scores=down)
    scale, count = query.shape[-1] ** -0.5, q.shape[1]
    return (
        _unpacked(dq.mul_(scale), query, valid),
        _unpacked(dk.mul_(scale)[:, :count, None], keys, valid),
        _unpacked(dv[:, :count, None], values, valid),
    )


def _weights(
    q: Tensor, k: Tensor, bias: Tensor, block: _Block, *, scores: Tensor, out: Tensor
) -> Tensor:
    """Attention weights of one block [Hk, T * shared, U], in the memory ``out``."""
    rows = q[:, block.begin : block.end].flatten(1, 2)  # [Hk, T * shared, D]
    shape = (*rows.shape[:2], block.last - block.first)
    size = block.size(q)
    scores, out = scores[:size].view(shape), out[:size].view(shape)
    near = bias[:, : shape[1], block.column : block.column + shape[2]]
    seen = k[:, block.first : block.last].transpose(1, 2)
    torch.baddbmm(near, rows, seen, alpha=q.shape[-1] ** -0.5, out=scores)
    return torch.softmax(scores, -1, out=out)


def _block_gradients(
    grads: tuple[Tensor, Tensor, Tensor],
    operands: tuple[Tensor, Tensor, Tensor, Tensor],
    block: _Block,
    *,
    weights: Tensor,
    scores: Tensor,
) -> None:
    dq, dk, dv = grads
    g, q, k, v = operands
    here, seen = slice(block.begin, block.end), slice(block.first, block.last)
    rows, down = q[:, here].flatten(1, 2), g[:, here].flatten(1, 2)
    dv[:, seen] += torch.bmm(weights.transpose(1, 2), down)
    torch.bmm(down, v[:, seen].transpose(1, 2), out=scores)
    torch.ops.aten._softmax_backward_data.out(scores, weights, -1, q.dtype, grad_input=scores)
    torch.bmm(scores, k[:, seen], out=dq[:, here].flatten(1, 2))
    dk[:, seen] += torch.bmm(scores.transpose(1, 2), rows)


def _lengths(query: Tensor, valid: Tensor | None) -> list[int]:
    if valid is None:
        return [query.shape[1]] * query.shape[0]
    return valid.sum(dim=1).tolist()


def _rounded(keys: int) -> int:
    return -(-keys // _ALIGN) * _ALIGN


def _blocks(lengths: list[int], window: int) -> Iterator[_Block]:
    """Blocks of packed sequences that do not see each other."""
    reach = _rounded(window - 1)
    start = 0
    for length in lengths:
        for at in range(0, length, _BLOCK):
            first = max(0, at - reach)
            end = min(length, at + _BLOCK)
            last = first + _rounded(end - first)
            column = first - at + reach
            yield _Block(start + at, start + end, start + first, start + last, column)
        start += length


def _packed(operands: _Operands, valid: Tensor | None) -> _Operands:
    """Tokens that exist, heads first: query [Hk, N, shared, D], keys and values [Hk, N + 31, D]."""
    query, keys, values = operands
    groups = keys.shape[2]
    room = _ALIGN - 1
    k, v = (_heads_first(t, valid, groups, room=room).squeeze(2) for t in (keys, values))
    return _heads_first(query, valid, groups), k, v


def _heads_first(x: Tensor, valid: Tensor | None, groups: int, *, room: int = 0) -> Tensor:
    """[B, T, H, D] -> [Hk, N + room, H / Hk, D], so that a block's rows are one matrix."""
    tokens = x.flatten(0, 1) if valid is None else x[valid]
    tokens = tokens.unflatten(1, (groups, -1)).transpose(0, 1)
    count = tokens.shape[1]
    out = x.new_empty(groups, count + room, *tokens.shape[2:])
    out[:, :count] = tokens
    out[:, count:] = 0
    return out


def _unpacked(x: Tensor, like: Tensor, valid: Tensor | None) -> Tensor:
    """[Hk, N, H / Hk, D] -> [B, T, H, D], zeros where no token exists."""
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
    """What is added to the scores of a whole block, [Hk, block * shared, keys of its band]."""
    reach = _rounded(window - 1)
    wide = torch.promote_types(dtype, torch.float32)
    with torch.inference_mode(False):
        steep = torch.tensor(slopes, dtype=wide, device=device).view(groups, 1, -1, 1)
        query = torch.arange(_BLOCK, device=device)[:, None]
        distance = query - torch.arange(-reach, _BLOCK, device=device)
        bias = -steep * distance[None, :, None]
        outside = (distance < 0) | (distance >= window)
        bias = bias.masked_fill(outside[None, :, None], float("-inf"))
        return bias.to(dtype).flatten(1, 2)
