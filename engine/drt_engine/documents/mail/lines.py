"""Finds the source lines of a message's headers and bodies.

The parser keeps no positions, so its parts are looked for again by their boundaries, and what is
found is compared with what it read. Knows nothing of text beyond line ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import Message

_AS_WRITTEN = ("", "7bit", "8bit", "binary")
_MAX_DEPTH = 50


@dataclass(frozen=True)
class PartPlace:
    """Lines of a part, from 0: of its first header and of its body; None where not found."""

    headers: int
    body: int | None


def newlines(data: bytes) -> int:
    """Return how many line ends there are, of whichever system."""
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


class PartLines:
    """The places of the parts of one message; ``first`` is the source line of its first byte."""

    def __init__(self, data: bytes, message: Message, first: int) -> None:
        self._lines, self._first = data.splitlines(keepends=True), first
        self._places: dict[int, PartPlace] = {}
        self._walk(message, 0, len(self._lines), depth=0)

    def header(self, part: Message, name: str) -> int | None:
        """Return the line of a part's first header of a name; None where it is not found."""
        place = self._places.get(id(part))
        if place is None:
            return None
        prefix = name.lower().encode() + b":"
        for number in range(place.headers, self._header_end(place.headers)):
            if self._lines[number][: len(prefix)].lower() == prefix:
                return self._first + number
        return None

    def top(self, part: Message) -> int | None:
        """Return the line of a part's first header."""
        place = self._places.get(id(part))
        return None if place is None else self._first + place.headers

    def body(self, part: Message) -> int | None:
        """Return the line where a part's body begins."""
        place = self._places.get(id(part))
        return None if place is None or place.body is None else self._first + place.body

    def of_text(self, part: Message, text: str) -> list[int] | None:
        """Return the source line of each line of a body's ``text``; None where it is not found.

        A body whose lines are not the source's own (base64) has its first line for all.
        """
        first = self.body(part)
        if first is None:
            return None
        count = text.count("\n") + 1
        starts = _line_starts(part)
        if len(starts) != count:
            starts = [0] * count
        return [first + start for start in starts]

    def _header_end(self, number: int) -> int:
        """Return the empty line after the headers from line ``number`` on, or the end."""
        while number < len(self._lines) and self._lines[number].strip(b"\r\n"):
            number += 1
        return number

    def _walk(self, part: Message, start: int, end: int, *, depth: int) -> None:
        body = self._header_end(start) + 1
        if depth > _MAX_DEPTH or body > end:
            return
        payload: object = part.get_payload()
        if not isinstance(payload, list):
            self._places[id(part)] = PartPlace(
                start, body if self._is_written_at(_raw(part), body) else None
            )
            return
        self._places[id(part)] = PartPlace(start, None)
        children = [child for child in payload if isinstance(child, Message)]
        if part.get_content_maintype() == "multipart":
            for child, (begin, stop) in zip(children, self._between(part, body, end), strict=False):
                self._walk(child, begin, stop, depth=depth + 1)
        elif children:
            self._walk(children[0], body, end, depth=depth + 1)

    def _between(self, part: Message, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Return the lines between the boundaries of a part."""
        mark = b"--" + (part.get_boundary() or "").encode("utf-8", "surrogateescape")
        marked = [
            number
            for number in range(start, end)
            if self._lines[number].rstrip() in (mark, mark + b"--")
        ]
        return ((begin + 1, stop) for begin, stop in zip(marked, [*marked[1:], end], strict=True))

    def _is_written_at(self, raw: bytes, start: int) -> bool:
        """Return whether a body is what stands there."""
        lines = self._lines[start : start + newlines(raw) + 1]
        return b"".join(lines).startswith(raw)


def _encoding(part: Message) -> str:
    return str(part.get("content-transfer-encoding", "")).strip().lower()


def _raw(part: Message) -> bytes:
    """Return a body as it is written.

    The parser returns bytes beyond ASCII as they are only when it is asked to decode.
    """
    if _encoding(part) in _AS_WRITTEN:
        data: object = part.get_payload(decode=True)
        return data if isinstance(data, bytes) else b""
    payload: object = part.get_payload()
    return payload.encode("utf-8", "surrogateescape") if isinstance(payload, str) else b""


def _line_starts(part: Message) -> Sequence[int]:
    """Return the lines of a body, from 0, where lines of its text begin; none for base64.

    In quoted-printable a line that ends in ``=`` goes on in the next one.
    """
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
