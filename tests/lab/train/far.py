"""A device that is only pretended, to find tensors that were left on the CPU where no GPU is.

A far tensor computes on the CPU and says that it is on ``meta``. An operation that mixes it with a
tensor of the CPU raises, as it would on a GPU, where only numbers (no dimensions) may mix.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

FAR = torch.device("meta")
_REAL_TENSOR = torch.tensor
_MOVES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class Far(Tensor):
    """A tensor of the CPU that says it is elsewhere."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Far:
        far: Far = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=FAR,
        )
        far.inner = inner
        return far

    def tolist(self) -> Any:
        """Its numbers, which PyTorch refuses to look up in other classes than its own."""
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _compute(func, args, kwargs or {})


class FarMode(TorchDispatchMode):
    """Lets tensors be made on the far device, and moved to it."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or its import would take longer than all tests here

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _compute(func, args, kwargs or {})


@contextlib.contextmanager
def far_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Computing on ``FAR`` without autocast, which does not know it."""
    with monkeypatch.context() as patch, FarMode():
        patch.setattr(torch, "is_autocast_enabled", lambda kind=None: False)
        patch.setattr(torch, "autocast", lambda *args, **options: contextlib.nullcontext())
        patch.setattr(torch, "tensor", _tensor)  # whose numbers get lost on the way to meta
        yield


def sent(module: torch.nn.Module) -> torch.nn.Module:
    """A module with its parameters and buffers on the far device."""
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                part._parameters[name] = torch.nn.Parameter(Far(parameter.detach()))
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = Far(buffer)
    return module


def _tensor(data: Any, *, device: torch.device | None = None, **options: Any) -> Tensor:
    made = _REAL_TENSOR(data, **options)
    return made if device is None or device.type != FAR.type else Far(made)


def _compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
    far = any(isinstance(x, Far) for x in tensors)
    near = [x for x in tensors if not isinstance(x, Far) and x.dim() > 0]
    if far and near and func not in _MOVES:
        raise RuntimeError(f"{func} mixes devices: {[tuple(x.shape) for x in near]} on the CPU")
    where = kwargs.get("device")
    if where is not None and where.type == FAR.type:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    out = func(
        *tree_map(lambda x: x.inner if isinstance(x, Far) else x, args),
        **tree_map(lambda x: x.inner if isinstance(x, Far) else x, kwargs),
    )
    if (where.type == FAR.type) if where is not None else far:
        same = {id(x.inner): x for x in tensors if isinstance(x, Far)}  # of operations in place
        return tree_map(lambda x: same.get(id(x), Far(x)) if isinstance(x, Tensor) else x, out)
    return out
