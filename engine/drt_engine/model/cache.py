"""The window of a stream that is decoded, and attention over it; knows no layers' weights.

Keys and values of the last tokens are in ring buffers that are made once.
What depends only on positions, the slots that new tokens take and the bias of ALiBi, is the same in
every layer and made once for all. The token at position ``p`` lies in slot ``p % slots``, so the
bias of a new token is a slice of one table.
"""

from __future__ import annotations

import torch
from torch import Tensor

from drt_engine.model.saved import (
    expect_integer,
    expect_names,
    expect_numbers,
    expect_shape,
    expect_type,
)

_STATE = ("keys", "values", "positions", "head")


class WindowCache:
    """Window keys and values of ``layers`` layers, for one stream without padding.

    ``begin`` announces new tokens once; ``attend`` then stores one layer's keys and values and
    returns its attention. Slots are reused once the window has moved past them. ``slopes`` [H] are
    those of ALiBi.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        slopes: Tensor,
        *,
        window: int,
        room: int,
        dtype: torch.dtype,
    ) -> None:
        layers, kv_heads, size = shape
        self.slots = window + room
        self.keys = slopes.new_zeros(layers, kv_heads, self.slots, size, dtype=dtype)
        self.values = torch.zeros_like(self.keys)
        self.position = 0
        # The bias by distance; slots beyond the window are hidden by the least number of the type.
        distance = torch.arange(self.slots, device=slopes.device)
        table = (
            -slopes.to(torch.promote_types(slopes.dtype, dtype)).view(kv_heads, -1, 1) * distance
        )
        self._fill = torch.finfo(dtype).min / 2
        table = table.masked_fill(distance >= window, self._fill).to(dtype)
        self._table = table.flip(-1).repeat(1, 1, 2)  # [Hk, heads per group, 2 * slots]
        self._used = 0
        self._where = distance[:0]
        self._bias = self._table
        self._fixed: tuple[Tensor, Tensor] | None = None

    def begin(self, count: int) -> None:
        """Take slots for ``count`` new tokens, at most ``room``."""
        device, first = self._table.device, self.position
        self.position += count
        self._used = min(self.position, self.slots)
        if count == 1:
            self._where = torch.tensor([first % self.slots], device=device)
            self._bias = self._row(first)[..., : self._used]
            return
        # Among several new tokens a later one is hidden from an earlier one: in the table, its
        # slot is at a distance of nearly all slots.
        self._where = torch.arange(first, self.position, device=device) % self.slots
        columns = torch.arange(self._used, device=device) + (self.slots - 1 - self._where)[:, None]
        self._bias = self._table[..., columns].flatten(1, 2)  # [Hk, heads per group * T, slots]

    def begin_fixed(self) -> None:
        """Take a slot for one token, as a captured graph needs it.

        Tensors stay where they are in memory, and attention goes over all slots.
        """
        if self._fixed is None:
            bias = self._row(0).clone()
            self._fixed = (torch.zeros(1, dtype=torch.long, device=bias.device), bias)
        self._where, self._bias = self._fixed
        self._where.fill_(self.position % self.slots)
        self._bias.copy_(self._row(self.position))
        self.position += 1
        if self.position < self.slots:
            self._bias[..., self.position :] = self._fill
        self._used = self.slots

    def _row(self, position: int) -> Tensor:
        """Return the bias of one token for every slot, [Hk, heads per group, slots]."""
        start = self.slots - 1 - position % self.slots
        return self._table[..., start : start + self.slots]

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Store ``keys``, ``values`` [1, T, Hk, D] of the new tokens in one layer, and attend.

        Returns the attention of ``query`` [1, T, H, D] to the window, [1, T, H * D].
        """
        layer_keys, layer_values = self.keys[layer], self.values[layer]  # [Hk, slots, D]
        layer_keys.index_copy_(1, self._where, keys[0].transpose(0, 1).to(layer_keys.dtype))
        layer_values.index_copy_(1, self._where, values[0].transpose(0, 1).to(layer_values.dtype))
        rows = grouped_rows(query[0] * query.shape[-1] ** -0.5, keys.shape[2])
        window_keys = layer_keys[:, : self._used].to(rows.dtype)
        weights = torch.softmax(rows @ window_keys.transpose(1, 2) + self._bias, dim=-1)
        out = weights @ layer_values[:, : self._used].to(weights.dtype)
        return ungrouped_rows(out, query.shape[1])[None]

    def state(self, layers: slice) -> dict[str, Tensor]:
        """Return everything that is needed to continue ``layers``, as tensors."""
        return {
            "keys": _copied(self.keys[layers]),
            "values": _copied(self.values[layers]),
            "positions": self._newest(self.position).to(self.keys.device),
            "head": torch.tensor(self.position % self.slots),
        }

    def _newest(self, position: int) -> Tensor:
        """Return which token is in each slot after ``position`` tokens, -1 for none, [1, slots]."""
        slots = torch.arange(self.slots)
        newest = slots + (position - 1 - slots) // self.slots * self.slots
        return newest.clamp(min=-1)[None]

    def check(self, name: str, layers: slice, state: dict[str, Tensor], position: int) -> None:
        """Raise ``ValueError`` unless ``state`` may be that of ``layers`` at ``position``.

        ``name`` is the prefix of its tensors in messages.
        """
        expect_names((name + key for key in state), (name + key for key in _STATE))
        count, kv_heads, _, size = self.keys[layers].shape
        for key in ("keys", "values"):
            expect_numbers(name + key, state[key], (count, 1, self.slots, kv_heads, size))
        expect_shape(f"{name}positions", state["positions"], (1, self.slots))
        expect_type(f"{name}positions", state["positions"], torch.int64)
        if not torch.equal(state["positions"].cpu(), self._newest(position)):
            raise ValueError(f"{name}positions are not those after {position} tokens")
        head = expect_integer(f"{name}head", state["head"])
        if head != position % self.slots:
            raise ValueError(f"{name}head is {head}, expected {position % self.slots}")

    def load(self, layers: slice, state: dict[str, Tensor], position: int) -> None:
        """Continue ``layers`` from what ``state`` returned at ``position``, once it was checked."""
        self.position = position
        self.keys[layers] = state["keys"][:, 0].transpose(1, 2).to(self.keys)
        self.values[layers] = state["values"][:, 0].transpose(1, 2).to(self.values)


def _copied(cache: Tensor) -> Tensor:
    """Copy a cache [layers, Hk, slots, D] as [layers, 1, slots, Hk, D]."""
    return cache.transpose(1, 2)[:, None].clone(memory_format=torch.contiguous_format)


def grouped_rows(query: Tensor, groups: int) -> Tensor:
    """Make rows of heads that share keys: [T, H, D] -> [Hk, heads per group * T, D]."""
    tokens, heads, size = query.shape
    rows = query.view(tokens, groups, heads // groups, size).permute(1, 2, 0, 3)
    return rows.reshape(groups, -1, size)


def ungrouped_rows(rows: Tensor, tokens: int) -> Tensor:
    """Undo ``grouped_rows``: [Hk, heads per group * T, D] -> [T, H * D]."""
    groups, _, size = rows.shape
    return rows.view(groups, -1, tokens, size).permute(2, 0, 1, 3).reshape(tokens, -1)
