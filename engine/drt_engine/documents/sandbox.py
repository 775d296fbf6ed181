"""Reads documents of complex formats in a child process that a hostile file cannot get out of.

The parent's half: starts `worker`, checks every frame it sends, and ends it when it takes too
long, says too much, or is no longer wanted. A crash, a hang or a memory blow-up of the child is a
sentence here. Frames are 8 hexadecimal digits of length and a line of JSON; nothing is unpickled.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from drt_engine import errors
from drt_engine.documents.base import (
    BLOCK_CHARACTERS,
    TITLE_CHARACTERS,
    Block,
    Notes,
    OpenDocument,
    Source,
)
from drt_engine.documents.formats import Format
from drt_engine.errors import DocumentError, UnreadableDocument

FRAME_BYTES = 1 << 22
_MEGABYTE = 1 << 20
_MOST_NOTES = 100
_MOST = 1 << 60  # of lines and characters of a source
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Limits:
    """What one child may use; `silence` is the longest wait for its next word, in seconds."""

    cpu_seconds: int = 60
    memory_bytes: int = 1 << 30
    characters: int = 1 << 25
    silence: float = 300.0

    @classmethod
    def for_size(cls, size: int) -> Limits:
        """Limits for a file of `size` bytes that honest documents keep."""
        megabytes = size // _MEGABYTE + 1
        cpu = min(60 + 10 * megabytes, 7200)
        return cls(
            cpu_seconds=cpu,
            characters=(1 << 25) + 50 * size,
            silence=300.0 + 2 * cpu,
        )


class Child:
    """A running worker; `frame` gives what it says, `close` ends it whatever it does."""

    def __init__(self, request: dict[str, Any], *, name: str, limits: Limits) -> None:
        self._name, self._limits = name, limits
        self._buffer = bytearray()
        request = request | {"limits": asdict(limits)}
        self._process = subprocess.Popen(
            # -P keeps the current folder, which may hold a json.py, off the child's path.
            [sys.executable, "-P", "-m", "drt_engine.documents.worker", json.dumps(request)],
            # Never written to: the child ends itself when the parent's end of this pipe closes.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            bufsize=0,
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self._poll = select.poll()
        self._poll.register(self._output, select.POLLIN)

    def frame(self) -> dict[str, Any]:
        """The next frame; raises DocumentError for what the child reports or dies of."""
        size = self._take(8)
        try:
            length = int(size, 16)
            if not 2 <= length <= FRAME_BYTES:
                raise ValueError(length)
            value = json.loads(self._take(length))
            if not isinstance(value, dict):
                raise ValueError(value)
        except (ValueError, RecursionError):
            raise self.refuse("its reader sent something that is no answer") from None
        if "error" in value:
            self.close()
            raise _error_of(value)
        return value

    def _take(self, count: int) -> bytes:
        deadline = time.monotonic() + self._limits.silence
        while len(self._buffer) < count:
            wait = deadline - time.monotonic()
            if wait <= 0 or not self._poll.poll(wait * 1000):
                raise self.refuse(f"its reader said nothing for {self._limits.silence:.0f} s")
            data = os.read(self._output.fileno(), 1 << 16)
            if not data:
                raise self.refuse(self._cause_of_death())
            self._buffer += data
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def _cause_of_death(self) -> str:
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return "its reader stopped without an answer"
        if code == -signal.SIGXCPU:
            return f"reading it took more than {self._limits.cpu_seconds} s of computing"
        if code < 0:
            return f"its reader crashed ({signal.Signals(-code).name})"
        return f"its reader ended without an answer (exit code {code})"

    def refuse(self, why: str) -> UnreadableDocument:
        """End the child; the error to raise."""
        self.close()
        return UnreadableDocument(self._sentence(why))

    def _sentence(self, why: str) -> str:
        return f"{self._name} cannot be read ({why}); it may be damaged, get or export it again."

    def close(self) -> None:
        """Kill the child and wait for it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _error_of(frame: dict[str, Any]) -> DocumentError:
    """The error a child reports, of the kind that it names when there is such a kind."""
    kind = getattr(errors, str(frame["error"]), None)
    if not (isinstance(kind, type) and issubclass(kind, DocumentError)):
        kind = UnreadableDocument
    return kind(str(frame.get("message")))


def _environment() -> dict[str, str]:
    """What the child needs to import the same modules; no keys or tokens of the parent's."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    return kept | {"PYTHONPATH": path, "PYTHONUTF8": "1"}


class _Blocks(Iterator[Block]):
    """The blocks a child sends; it ends with its last block, its consumer or this object."""

    def __init__(self, child: Child, notes: Notes, limits: Limits) -> None:
        self._child: Child | None = child
        self._notes, self._left = notes, limits.characters

    def __next__(self) -> Block:
        if self._child is None:
            raise StopIteration
        frame = self._child.frame()
        try:
            if "skipped" in frame:
                self._notes.take(skipped_of(frame))
                self.close()
                raise StopIteration
            block = block_of(frame)
        except ValueError as error:
            raise self._child.refuse(f"its reader sent {error}") from None
        self._left -= len(block.text)
        if self._left < 0:
            raise self._child.refuse("it holds far more text than a file of its size should")
        return block

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def __del__(self) -> None:
        self.close()


def block_of(frame: dict[str, Any]) -> Block:
    """The block of a frame; raises ValueError for what is none."""
    text, page, section = frame.get("text"), frame.get("page"), frame.get("section")
    line, origin = frame.get("line"), frame.get("origin", [])
    sound = (
        isinstance(text, str)
        and 0 < len(text) <= BLOCK_CHARACTERS
        and (page is None or isinstance(page, int))
        and (section is None or isinstance(section, str))
        and (line is None or (isinstance(line, int) and 0 < line < _MOST))
        and isinstance(origin, list)
        and all(map(_is_run, origin))
        and all(one[0] <= two[0] for one, two in pairwise(origin))
    )
    if not sound:
        raise ValueError("something that is no text")
    return Block(str(text), page, section, line, tuple(tuple(run) for run in origin))


def _is_run(run: object) -> bool:
    if not isinstance(run, list) or len(run) not in (2, 3):
        return False
    counts = all(type(n) is int and 0 <= n < _MOST for n in run)
    return counts and (len(run) == 2 or run[1] <= run[2])


def skipped_of(frame: dict[str, Any]) -> list[str]:
    """What the last frame says was skipped; raises ValueError for what says nothing."""
    said = frame["skipped"]
    if not isinstance(said, list) or len(said) > _MOST_NOTES:
        raise ValueError("no list of what it skipped")
    return [str(one) for one in said]


def read_isolated(chosen: Format, source: Source, limits: Limits | None = None) -> OpenDocument:
    """Open a document with `chosen`'s reader in a child process.

    Raises DocumentError for what the reader says or dies of, OSError where no process can start.
    """
    limits = limits or Limits.for_size(source.file.stat().st_size)
    child = Child(_request(source) | {"format": chosen.name}, name=source.name, limits=limits)
    try:
        opened = child.frame()
        notes = Notes()
        blocks = _Blocks(child, notes, limits)
        title, media_type = str(opened.get("title")), str(opened.get("media_type"))
        author, date = (str(opened.get(key) or "")[:TITLE_CHARACTERS] for key in ("author", "date"))
        return OpenDocument(title[:TITLE_CHARACTERS], media_type, blocks, notes, author, date)
    except BaseException:
        child.close()
        raise


def _request(source: Source) -> dict[str, Any]:
    return {
        "path": None if source.path is None else os.fspath(source.path),
        "file": os.fspath(source.file.absolute()),
        "name": source.name,
    }


@dataclass(frozen=True)
class Member:
    """A file in an archive; `skipped` is why it was passed over, else "".

    `data` gives its bytes once, and raises UnreadableDocument where they end too early.
    """

    name: str
    data: Iterator[bytes]
    skipped: str = ""


def archive_members(source: Source, limits: Limits | None = None) -> Iterator[Member]:
    """The members of an archive in its order; the bytes of each must be read before the next.

    Raises DocumentError where the archive cannot be opened or read on.
    """
    limits = limits or Limits.for_size(source.file.stat().st_size)
    child = Child(_request(source) | {"format": "archive"}, name=source.name, limits=limits)
    try:
        child.frame()
        frame = child.frame()
        while "member" in frame:
            name, why = str(frame["member"]), str(frame.get("why") or "")
            place = f"{source.name}!/{name}"
            yield Member(name, iter(()) if why else _data(child, place), why)
            frame = child.frame()
    finally:
        child.close()


def _data(child: Child, place: str) -> Iterator[bytes]:
    while piece := (frame := child.frame()).get("data"):
        try:
            yield base64.b64decode(str(piece), validate=True)
        except ValueError:
            raise child.refuse("its reader sent something that is no data") from None
    if frame.get("why"):
        raise UnreadableDocument(f"{place} cannot be read ({frame['why']}); pack it again.")
