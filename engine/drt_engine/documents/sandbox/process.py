"""Reads documents of complex formats in a child process that a hostile file cannot get out of.

The parent's half: starts ``worker``, checks every frame it sends, and ends it when it takes too
long, sends too much, or is no longer needed. A crash, a hang or a memory blow-up of the child
becomes an error here. Frames are 8 hexadecimal digits of length and a line of JSON; nothing is
unpickled. The document goes in as an open descriptor, text comes out through a pipe; what
``confinement`` takes from the child, and where a system lacks it, is in docs/explanation.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from drt_engine import errors
from drt_engine.blocks.nodes import unpack_nodes
from drt_engine.documents.base import (
    BLOCK_CHARACTERS,
    TITLE_CHARACTERS,
    Block,
    Notes,
    OpenDocument,
    Source,
)
from drt_engine.documents.formats import PICTURE, Format
from drt_engine.documents.limits import Limits
from drt_engine.documents.sandbox.confinement import Confinement
from drt_engine.documents.sandbox.pieces import OUT_OF_TIME, pieces_of
from drt_engine.errors import DocumentError, ScannedPages, UnreadableDocument

FRAME_BYTES = 1 << 22
# Windows can pass on no descriptor by its number.
_PASSES_DESCRIPTORS = hasattr(os, "wait4")
_MAX_NOTES = 100
_MAX_PLACE = 1 << 60  # of lines and characters of a source
_PASSED_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "VIRTUAL_ENV")


class Child:
    """A running worker; ``frame`` returns its next frame, ``close`` ends it whatever it does."""

    def __init__(self, request: dict[str, Any], source: Source | None, limits: Limits) -> None:
        """Start a worker for a request; ``source`` is the document that it is given to read."""
        self._source, self._limits = source, limits
        self._name = "the document" if source is None else source.name
        self._buffer, self._began = bytearray(), time.monotonic()
        self._start: float | None = None  # seconds of computing before the document was read
        self.confinement = Confinement()
        descriptor = None if source is None else source.descriptor()
        descriptors: dict[str, Any]
        if _PASSES_DESCRIPTORS:
            # Standard input is never written to: the child ends itself when it closes.
            descriptors = {"stdin": subprocess.PIPE}
            descriptors["pass_fds"] = () if descriptor is None else (descriptor,)
        else:  # the document is the child's standard input, and nothing tells it of our end
            descriptors = {"stdin": subprocess.DEVNULL if descriptor is None else descriptor}
        request = request | {
            "limits": asdict(limits),
            "descriptor": descriptor if _PASSES_DESCRIPTORS else 0,
            "watched": _PASSES_DESCRIPTORS,
        }
        try:
            self._process = subprocess.Popen(
                # -P keeps the current folder, which may hold a json.py, off the child's path.
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "drt_engine.documents.sandbox.worker",
                    json.dumps(request),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                bufsize=0,
                **descriptors,
            )
        finally:
            if descriptor is not None:
                os.close(descriptor)
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self._pieces = pieces_of(self._output.fileno())

    def frame(self) -> dict[str, Any]:
        """Return the next frame; raises DocumentError for what the child reports or dies of."""
        value = self._frame()
        if self._start is None and "ready" in value:
            # Sent before the worker looked at the document, so that it can be trusted.
            self._start = float(value["ready"])
            limits = tuple(value["confinement"].pop("limits"))
            self.confinement = Confinement(limits, **value["confinement"])
            value = self._frame()
        if "error" in value:
            self.close()
            raise _error_of(value)
        return value

    def _frame(self) -> dict[str, Any]:
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
        return value

    def _take(self, count: int) -> bytes:
        deadline = time.monotonic() + self._limits.silence
        while len(self._buffer) < count:
            data = self._pieces.read(deadline - time.monotonic())
            if data is None:
                raise self.refuse(f"its reader said nothing for {self._limits.silence:.0f} s")
            if not data:
                raise self.refuse(self._cause_of_death())
            self._buffer += data
        message = bytes(self._buffer[:count])
        del self._buffer[:count]
        return message

    def _cause_of_death(self) -> str:
        deadline = time.monotonic() + 10
        while (code := self._ended(wait=False)) is None:
            if time.monotonic() > deadline:
                return "its reader stopped without an answer"
            time.sleep(0.002)
        if code in (-getattr(signal, "SIGXCPU", -OUT_OF_TIME), OUT_OF_TIME):
            return f"reading it took more than {self._limits.cpu_seconds} s of computing"
        if code < 0:
            return f"its reader crashed ({signal.Signals(-code).name})"
        return f"its reader ended without an answer (exit code {code})"

    def _ended(self, *, wait: bool = True) -> int | None:
        """Wait for the end of the process and count what it used; its exit code, None so far."""
        if self._process.returncode is None:
            computing = self._computing(wait=wait)
            if computing is None:
                return None
            if self._source is not None and self._source.budget is not None:
                computed = computing - (self._start or 0.0)
                self._source.budget.spend(self._name, cpu_seconds=max(0.0, computed))
        return int(self._process.returncode)

    def _computing(self, *, wait: bool) -> float | None:
        """Wait for the end of the process; its seconds of computing, None where it goes on."""
        if sys.platform == "win32" or not hasattr(os, "wait4"):  # at most the time that went by
            if wait:
                self._process.wait()
            elif self._process.poll() is None:
                return None
            return time.monotonic() - self._began
        pid, status, usage = os.wait4(self._process.pid, 0 if wait else os.WNOHANG)
        if not pid:
            return None
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return usage.ru_utime + usage.ru_stime

    def refuse(self, why: str) -> UnreadableDocument:
        """End the child; the error to raise."""
        self.close()
        return UnreadableDocument(self._sentence(why))

    def _sentence(self, why: str) -> str:
        return f"{self._name} cannot be read ({why}); it may be damaged, get or export it again."

    def close(self) -> None:
        """Kill the child and wait for it."""
        if self._ended(wait=False) is None:  # so that ``kill`` does not take its numbers away
            self._process.kill()
            self._ended()
        self._pieces.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _error_of(frame: dict[str, Any]) -> DocumentError:
    """Return the error a child reports, of the kind that it names when there is such a kind."""
    kind = getattr(errors, str(frame["error"]), None)
    if not (isinstance(kind, type) and issubclass(kind, DocumentError)):
        kind = UnreadableDocument
    return kind(str(frame.get("message")))


def _environment() -> dict[str, str]:
    """Return what the child needs to import the same modules; no keys or tokens of the parent's."""
    variables = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    return variables | {"PYTHONPATH": path, "PYTHONUTF8": "1"}


class _Blocks(Iterator[Block]):
    """The blocks a child sends; it ends with its last block, its consumer or this object."""

    def __init__(
        self,
        child: Child,
        source: Source,
        notes: Notes,
        limits: Limits,
        again: Callable[[], tuple[Child, Limits]],
    ) -> None:
        """``again`` starts a child that recognises text in pictures; the file is read anew."""
        self._child: Child | None = child
        self._source, self._notes, self._limits = source, notes, limits
        self._again: Callable[[], tuple[Child, Limits]] | None = again
        self._characters, self._count = 0, 0

    def __next__(self) -> Block:
        if self._child is None:
            raise StopIteration
        try:
            frame = self._child.frame()
        except ScannedPages:
            frame = self._behind_the_last()
        try:
            if "skipped" in frame:
                self._notes.take(skipped_of(frame))
                self.close()
                raise StopIteration
            block = block_of(frame)
        except ValueError as error:
            raise self._child.refuse(f"its reader sent {error}") from None
        self._count += 1
        self._characters += len(block.text)
        if self._characters > self._limits.characters:
            raise self._child.refuse("it holds far more text than a file of its size should")
        return block

    def _behind_the_last(self) -> dict[str, Any]:
        """Return the next frame of a child that recognises text, behind the blocks that came.

        They are the same in both: a page is sent once those that could change it were read.
        """
        if self._again is None:
            raise UnreadableDocument(f"{self._source.name} cannot be read; its pages are pictures.")
        (self._child, self._limits), self._again = self._again(), None
        for _ in range(1 + self._count):  # its title, and its blocks
            self._child.frame()
        return self._child.frame()

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None
            if self._source.budget is not None:
                self._source.budget.spend(self._source.name, characters=self._characters)

    def __del__(self) -> None:
        self.close()


def block_of(frame: dict[str, Any]) -> Block:
    """Return the block of a frame; raises ValueError for what is none."""
    text, page, section = frame.get("text"), frame.get("page"), frame.get("section")
    line, origin = frame.get("line"), frame.get("origin", [])
    sound = (
        isinstance(text, str)
        and 0 < len(text) <= BLOCK_CHARACTERS
        and (page is None or isinstance(page, int))
        and (section is None or isinstance(section, str))
        and (line is None or (isinstance(line, int) and 0 < line < _MAX_PLACE))
        and isinstance(origin, list)
        and all(map(_is_run, origin))
        and all(run[0] <= following[0] for run, following in pairwise(origin))
    )
    if not sound:
        raise ValueError("something that is no text")
    nodes = unpack_nodes(frame["nodes"]) if isinstance(frame.get("nodes"), str) else []
    if any(node.end > len(str(text)) for node in nodes):
        raise ValueError("a node outside of its text")
    return Block(str(text), page, section, line, tuple(map(tuple, origin)), tuple(nodes))


def _is_run(run: object) -> bool:
    if not isinstance(run, list) or len(run) not in (2, 3):
        return False
    counts = all(type(n) is int and 0 <= n < _MAX_PLACE for n in run)
    return counts and (len(run) == 2 or run[1] <= run[2])


def pages_of(frame: dict[str, Any]) -> int:
    """Return how many pages the first frame says there are; 0 for what it does not say."""
    pages = frame.get("pages")
    return pages if type(pages) is int and 0 < pages < _MAX_PLACE else 0


def skipped_of(frame: dict[str, Any]) -> list[str]:
    """Return what the last frame says was skipped; raises ValueError for what says nothing."""
    phrases = frame["skipped"]
    if not isinstance(phrases, list) or len(phrases) > _MAX_NOTES:
        raise ValueError("no list of what it skipped")
    return [str(phrase) for phrase in phrases]


def read_isolated(
    document_format: Format, source: Source, limits: Limits | None = None
) -> OpenDocument:
    """Open a document with ``document_format``'s reader in a child process.

    Raises DocumentError for what the reader says or dies of, OSError where no process can start.
    """
    request = _request(source, document_format.name)
    recognises = document_format.name == PICTURE

    def again() -> tuple[Child, Limits]:
        recognition = limits or _limits(source, recognition=True)
        return Child(request | {"recognise": True}, source, recognition), recognition

    first_limits = limits or _limits(source, recognition=recognises)
    child = Child(request, source, first_limits)
    try:
        try:
            opened = child.frame()
        except ScannedPages:
            child, first_limits = again()
            opened = child.frame()
        notes = Notes()
        blocks = _Blocks(child, source, notes, first_limits, again)
        title, media_type = str(opened.get("title")), str(opened.get("media_type"))
        author, date = (str(opened.get(key) or "")[:TITLE_CHARACTERS] for key in ("author", "date"))
        title = title[:TITLE_CHARACTERS]
        return OpenDocument(title, media_type, blocks, notes, author, date, pages_of(opened))
    except BaseException:
        child.close()
        raise


def _limits(source: Source, *, recognition: bool = False) -> Limits:
    """Return the limits of a document, within what is left to the archive that it is in."""
    limits = Limits.for_size(source.size)
    limits = limits.for_recognition(source.size) if recognition else limits
    return limits if source.budget is None else source.budget.limits(limits)


def _request(source: Source, format_name: str) -> dict[str, Any]:
    path = None if source.path is None else os.fspath(source.path)
    return {"path": path, "name": source.name, "format": format_name}


def confinement() -> Confinement:
    """Return what confines the reader processes on this system, by starting one."""
    request = {"path": None, "name": "nothing", "format": None}
    try:
        child = Child(request, None, Limits())
    except OSError:
        return Confinement()
    with suppress(DocumentError):
        child.frame()
    child.close()
    return child.confinement


@dataclass(frozen=True)
class Member:
    """A file in an archive; ``skipped`` is why it was passed over, else "".

    ``data`` gives its bytes once, and raises UnreadableDocument where they end too early.
    """

    name: str
    data: Iterator[bytes]
    skipped: str = ""


def archive_members(source: Source, limits: Limits | None = None) -> Iterator[Member]:
    """Yield the members of an archive in its order; the bytes of each must be read before the next.

    Raises DocumentError where the archive cannot be opened or read on.
    """
    child = Child(_request(source, "archive"), source, limits or _limits(source))
    try:
        child.frame()
        frame = child.frame()
        while "member" in frame:
            name, reason = str(frame["member"]), str(frame.get("why") or "")
            place = f"{source.name}!/{name}"
            yield Member(name, iter(()) if reason else _data(child, place), reason)
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
