"""How much memory an object holds, counted tensor by tensor; knows nothing of models' states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor, nn


def held_bytes(holder: object, *, without: Iterable[object] = ()) -> int:
    """Return the bytes of all tensors that an object refers to, each storage once.

    Views count with all that they keep in memory, and models not. ``without``: parts of the object
    that do not count either.
    """
    storages: dict[int, int] = {}
    seen = {id(part) for part in without}
    parts = [holder]
    while parts:
        part = parts.pop()
        if id(part) in seen or isinstance(part, (nn.Module, type)):
            continue
        seen.add(id(part))
        if isinstance(part, Tensor):
            storage = part.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
        elif isinstance(part, Mapping):
            parts.extend(part.values())
        elif isinstance(part, (list, tuple, set, frozenset)):
            parts.extend(part)
        else:
            parts.extend(getattr(part, "__dict__", {}).values())
    return sum(storages.values())
