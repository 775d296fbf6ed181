"""Keys and values of the tokens in the window, per layer, in preallocated ring buffers; knows no
layers.
"""

from __future__ import annotations

import torch
from torch import Tensor


class WindowCache:
    """Window keys and values of ``layers`` layers, for a batch of one stream.

    ``begin`` announces the positions of new tokens once; ``extend`` then stores one layer's keys
    and values and returns all that this layer may look at. Slots are reused once the window has
    moved past them.
    """

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        size: int,
        *,
        window: int,
        room: int,
        dtype: torch.dtype,
        device: torch.device | None = None,
    ) -> None:
        self.slots = window + room
        shape = (layers, 1, self.slots, kv_heads, size)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.positions = torch.full((1, self.slots), -1, dtype=torch.long, device=device)
        self._head = 0
        self._where = torch.zeros(0, dtype=torch.long, device=device)

    def begin(self, positions: Tensor, valid: Tensor) -> None:
        """Take slots for new tokens, [1, T]; padding takes a slot that nothing ever sees."""
        count = positions.shape[1]
        self._where = (self._head + torch.arange(count, device=positions.device)) % self.slots
        self._head = (self._head + count) % self.slots
        self.positions[:, self._where] = torch.where(
            valid, positions, torch.full_like(positions, -1)
        )

    def extend(
        self, layer: int, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Store [1, T, Hk, D] of one layer; return its keys, values, their positions and which
        exist.
        """
        self.keys[layer][:, self._where] = keys.to(self.keys.dtype)
        self.values[layer][:, self._where] = values.to(self.values.dtype)
        return self.keys[layer], self.values[layer], self.positions, self.positions >= 0

    def state(self) -> dict[str, Tensor]:
        """Return everything needed to continue, as tensors."""
        return {
            "keys": self.keys.clone(),
            "values": self.values.clone(),
            "positions": self.positions.clone(),
            "head": torch.tensor(self._head),
        }

    def load(self, state: dict[str, Tensor]) -> None:
        """Continue from what ``state`` returned."""
        device = self.positions.device
        self.keys = state["keys"].to(device, copy=True)
        self.values = state["values"].to(device, copy=True)
        self.positions = state["positions"].to(device, copy=True)
        self._head = int(state["head"])
