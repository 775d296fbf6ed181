"""Finds the lines of its source on which a message's headers and bodies stand.

The parser keeps no positions, so its parts are looked for again by their boundaries, and what is
found is compared with what it read. Knows nothing of text beyond line ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import Message

_AS_WRITTEN = ("", "7bit", "8bit", "binary")
_DEEPEST = 50


@dataclass(frozen=True)
class Standing:
    """Lines of a part, from 0: of its first header and of its body; None where not found."""

    headers: int
    body: int | None


def newlines(data: bytes) -> int:
    """How many line ends there are, of whichever system."""
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


class PartLines:
    """Where the parts of one message stand; `first` is the source's line of its first byte."""

    def __init__(self, data: bytes, message: Message, first: int) -> None:
        self._lines, self._first = data.splitlines(keepends=True), first
        self._found: dict[int, Standing] = {}
        self._walk(message, 0, len(self._lines), depth=0)

    def header(self, part: Message, name: str) -> int | None:
        """The line of a part's first header of a name; None where it is not found."""
        standing = self._found.get(id(part))
        if standing is None:
            return None
        wanted = name.lower().encode() + b":"
        for at in range(standing.headers, self._header_end(standing.headers)):
            if self._lines[at][: len(wanted)].lower() == wanted:
                return self._first + at
        return None

    def top(self, part: Message) -> int | None:
        """The line of a part's first header."""
        standing = self._found.get(id(part))
        return None if standing is None else self._first + standing.headers

    def body(self, part: Message) -> int | None:
        """The line where a part's body begins."""
        standing = self._found.get(id(part))
        return None if standing is None or standing.body is None else self._first + standing.body

    def of_text(self, part: Message, text: str) -> list[int] | None:
        """The line of each line of a body's `text`; its first for all where they are not its own.

        None where the body is not found.
        """
        first = self.body(part)
        if first is None:
            return None
        count = text.count("\n") + 1
        starts = _line_starts(part)
        if len(starts) != count:
            starts = [0] * count
        return [first + start for start in starts]

    def _header_end(self, at: int) -> int:
        """The empty line after the headers that begin at `at`, or the end."""
        while at < len(self._lines) and self._lines[at].strip(b"\r\n"):
            at += 1
        return at

    def _walk(self, part: Message, at: int, end: int, *, depth: int) -> None:
        body = self._header_end(at) + 1
        if depth > _DEEPEST or body > end:
            return
        payload: object = part.get_payload()
        if not isinstance(payload, list):
            self._found[id(part)] = Standing(at, body if self._stands(_raw(part), body) else None)
            return
        self._found[id(part)] = Standing(at, None)
        inner = [one for one in payload if isinstance(one, Message)]
        if part.get_content_maintype() == "multipart":
            for one, (begin, stop) in zip(inner, self._between(part, body, end), strict=False):
                self._walk(one, begin, stop, depth=depth + 1)
        elif inner:
            self._walk(inner[0], body, end, depth=depth + 1)

    def _between(self, part: Message, at: int, end: int) -> Iterator[tuple[int, int]]:
        """The lines between the boundaries of a part."""
        mark = b"--" + (part.get_boundary() or "").encode("utf-8", "surrogateescape")
        marked = [i for i in range(at, end) if self._lines[i].rstrip() in (mark, mark + b"--")]
        return ((begin + 1, stop) for begin, stop in zip(marked, [*marked[1:], end], strict=True))

    def _stands(self, raw: bytes, at: int) -> bool:
        """Whether a body is what stands there."""
        lines = self._lines[at : at + newlines(raw) + 1]
        return b"".join(lines).startswith(raw)


def _encoding(part: Message) -> str:
    return str(part.get("content-transfer-encoding", "")).strip().lower()


def _raw(part: Message) -> bytes:
    """A body as it is written; the parser gives bytes of text beyond ASCII only when it decodes."""
    if _encoding(part) in _AS_WRITTEN:
        data: object = part.get_payload(decode=True)
        return data if isinstance(data, bytes) else b""
    payload: object = part.get_payload()
    return payload.encode("utf-8", "surrogateescape") if isinstance(payload, str) else b""


def _line_starts(part: Message) -> Sequence[int]:
    """The lines of a body, from 0, at which lines of its text begin; none where it is encoded."""
    raw, encoding = _raw(part), _encoding(part)
    if encoding in _AS_WRITTEN:
        return range(newlines(raw) + 1)
    if encoding != "quoted-printable":
        return ()
    lines = raw.splitlines(keepends=True)
    starts = [0]
    for number, line in enumerate(lines, 1):
        ended = line.endswith((b"\n", b"\r"))
        if ended and not line.rstrip(b" \t\r\n").endswith(b"="):
            starts.append(number)
    return starts
