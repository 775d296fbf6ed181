"""Disks that count, die, fail or remember: doubles of the store's one file layer."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from drt_engine.store.filesystem.disk import Bytes, Disk

T = TypeVar("T")
READS = ("open", "read", "map")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.ENOMEM, errno.EDQUOT, errno.ESTALE)


class Killed(BaseException):
    """The process is dead from here on."""


class CountingDisk(Disk):
    """Names of the steps that were taken, without those that only read."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def call(self, step: str, path: Path, action: Callable[[], T]) -> T:
        if step not in READS:
            self.steps.append(step)
        return action()


class DyingDisk(Disk):
    """Dies at the `at`-th changing step, before or after it; a dead disk does nothing any more.

    A write may also stop in the middle. `die` may be the real thing: SIGKILL to this process.
    """

    def __init__(self, at: int, when: str, die: Callable[[], None] = lambda: None) -> None:
        self._left, self._when, self._die = at, when, die
        self._dead = False

    def call(self, step: str, path: Path, action: Callable[[], T]) -> T:
        if step in READS and not self._dead:
            return action()
        self._left -= 1
        if self._dead or (self._left == 0 and self._when == "before"):
            self._kill()
        try:
            return action()
        finally:  # also after a step that fails, such as deleting what is not there
            if self._left == 0:
                self._kill()

    def write(self, descriptor: int, path: Path, data: Bytes) -> None:
        if self._left == 1 and self._when == "within":
            os.write(descriptor, memoryview(data)[: len(data) // 2])
            self._left = 0
            self._kill()
        super().write(descriptor, path, data)

    def _kill(self) -> None:
        self._die()
        self._dead = True
        raise Killed


class FailingDisk(Disk):
    """Fails the `at`-th step with an error of the operating system, and only that one."""

    def __init__(self, at: int, error: int) -> None:
        self.left, self._error = at, error

    def call(self, step: str, path: Path, action: Callable[[], T]) -> T:
        self.left -= 1
        if self.left == 0:
            raise OSError(self._error, os.strerror(self._error), str(path))
        return action()


@dataclass
class Step:
    """One step as a power cut sees it; `before` and `after` are catalogue files by name."""

    name: str
    path: Path
    data: bytes = b""
    old: Path | None = None
    before: dict[str, bytes] = field(default_factory=dict)
    after: dict[str, bytes] = field(default_factory=dict)


class RecordingDisk(Disk):
    """Keeps every changing step with what it wrote."""

    def __init__(self) -> None:
        self.log: list[Step] = []

    def call(self, step: str, path: Path, action: Callable[[], T]) -> T:
        result = action()
        if step in ("create", "fsync", "fsync folder", "unlink"):
            self.log.append(Step(step, path))
        return result

    def write(self, descriptor: int, path: Path, data: Bytes) -> None:
        super().write(descriptor, path, data)
        self.log.append(Step("write", path, data=bytes(data)))

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        self.log.append(Step("rename", new, old=old))

    def link(self, old: Path, new: Path) -> None:
        super().link(old, new)
        self.log.append(Step("link", new, data=old.read_bytes()))

    def commit(self, connection: sqlite3.Connection, path: Path) -> None:
        self._catalogue("commit", path, lambda: super(RecordingDisk, self).commit(connection, path))

    def maintain(self, connection: sqlite3.Connection, path: Path, statement: str) -> None:
        act = super().maintain
        self._catalogue("maintain", path, lambda: act(connection, path, statement))

    def _catalogue(self, name: str, path: Path, action: Callable[[], Any]) -> None:
        before = catalogue_files(path)
        action()
        self.log.append(Step(name, path, before=before, after=catalogue_files(path)))


def catalogue_files(path: Path) -> dict[str, bytes]:
    """The database and its log as they are on the disk."""
    found = {}
    for name in (path.name, path.name + "-wal"):
        file = path.with_name(name)
        found[name] = file.read_bytes() if file.exists() else b""
    return found
