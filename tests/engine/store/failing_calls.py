"""An operating system whose n-th call on a folder's files fails, whoever makes it.

Below the store's file layer: locks, listings and looks at files count too. SQLite makes its calls
itself; those stay as they are.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BY_PATH = ("open", "stat", "scandir", "listdir", "mkdir", "rename", "link", "unlink", "statvfs")
BY_DESCRIPTOR = ("write", "pread", "pwrite", "fsync", "ftruncate")


class FailingCalls:
    """Counts calls; the `at`-th one raises `error`."""

    def __init__(self, folder: Path, at: int, error: int) -> None:
        self.left, self._folder, self._error = at, str(folder), error
        self._descriptors: set[int] = set()
        self.failed = ""

    @contextlib.contextmanager
    def running(self) -> Iterator[FailingCalls]:
        with pytest.MonkeyPatch.context() as patch:
            for name in BY_PATH:
                patch.setattr(os, name, self._path_call(name, getattr(os, name)))
            for name in BY_DESCRIPTOR:
                patch.setattr(os, name, self._descriptor_call(name, getattr(os, name)))
            patch.setattr(os, "close", self._close(os.close))
            patch.setattr(fcntl, "flock", self._descriptor_call("flock", fcntl.flock))
            patch.setattr(mmap, "mmap", _Mapping(self, mmap.mmap))
            yield self

    def count(self, name: str, what: Any) -> None:
        self.left -= 1
        if self.left == 0:
            self.failed = f"{name} {what}"
            raise OSError(self._error, os.strerror(self._error), str(what))

    def of_ours(self, descriptor: object) -> bool:
        return descriptor in self._descriptors

    def _path_call(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *rest: Any, **named: Any) -> Any:
            ours = isinstance(path, str | Path) and str(path).startswith(self._folder)
            if ours:
                self.count(name, path)
            result = real(path, *rest, **named)
            if ours and name == "open":
                self._descriptors.add(result)
            return result

        return call

    def _descriptor_call(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(descriptor: int, *rest: Any, **named: Any) -> Any:
            if descriptor in self._descriptors:
                self.count(name, descriptor)
            return real(descriptor, *rest, **named)

        return call

    def _close(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def call(descriptor: int) -> None:
            self._descriptors.discard(descriptor)
            real(descriptor)

        return call


class _Mapping:
    """Stands for the class `mmap.mmap`, which is called to make one."""

    def __init__(self, calls: FailingCalls, real: Any) -> None:
        self._calls, self._real = calls, real

    def __call__(self, descriptor: int, *rest: Any, **named: Any) -> Any:
        if self._calls.of_ours(descriptor):
            self._calls.count("mmap", descriptor)
        return self._real(descriptor, *rest, **named)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._real)
