"""A model that is in memory before it is asked for: in the forks of the command line's helper."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from drt_engine.model.folder import model_folder
from drt_engine.runtime import Runtime

_Stamp = tuple[tuple[str, int, int, int], ...]  # name, time, size and number of each file


@dataclass(frozen=True)
class _Preloaded:
    runtime: Runtime
    key: tuple[str, str, str]
    stamp: _Stamp


_preloaded: _Preloaded | None = None
_missed = False


def preload(model: str | Path, *, device: str, dtype: str) -> None:
    """Load a model with one thread, unless it is loaded: a process may fork that has no other."""
    global _preloaded
    stamp = _stamp(model)
    if _is_preloaded(model, device=device, dtype=dtype):
        return
    runtime = Runtime.load(model, device=device, threads=1, dtype=dtype)
    _preloaded = _Preloaded(runtime, (model_path(model), device, dtype), stamp)


def take(model: str | Path, *, device: str, dtype: str) -> Runtime | None:
    """Return the model if it is in memory and its files are as they were; else note a miss."""
    global _missed
    is_same = _is_preloaded(model, device=device, dtype=dtype)
    _missed |= not is_same
    return _preloaded.runtime if _preloaded is not None and is_same else None


def _is_preloaded(model: str | Path, *, device: str, dtype: str) -> bool:
    return (
        _preloaded is not None
        and _preloaded.key == (model_path(model), device, dtype)
        and _preloaded.stamp == _stamp(model)
    )


def was_missed() -> bool:
    """Return whether a model was asked for that is not in memory."""
    return _missed


def model_path(model: str | Path) -> str:
    """Return the absolute folder of a model, by name or folder."""
    return os.path.abspath(model_folder(model))


def _stamp(model: str | Path) -> _Stamp:
    files = sorted(os.scandir(model_path(model)), key=lambda entry: entry.name)
    statuses = ((entry.name, entry.stat()) for entry in files)
    return tuple((name, s.st_mtime_ns, s.st_size, s.st_ino) for name, s in statuses)
