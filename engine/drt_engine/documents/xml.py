"""XML that may be hostile: elements and text in order, no entities, no endless nesting.

Knows expat; knows no document format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.parsers import expat

from drt_engine.errors import UnreadableDocument

_MAX_DEPTH = 256


class Handler:
    """Is called for each element, by its name without a namespace, and for each text."""

    def start(self, name: str, attributes: dict[str, str], namespace: str, /) -> None:
        """Handle the start of an element."""

    def end(self, name: str, /) -> None:
        """Handle the end of an element."""

    def text(self, data: str, /) -> None:
        """Handle text, which may come in several pieces."""


class _Refused(Exception):
    """The XML does what no document needs."""


class SafeXml:
    """A parser to be fed; raises UnreadableDocument for what is no XML or made to do harm.

    Entities are refused, since those that refer to each other unfold without end ("billion laughs")
    and external ones read files. Deep nesting is refused before it can exhaust a stack.
    """

    def __init__(self, handler: Handler, name: str) -> None:
        self._handler, self._name, self._depth = handler, name, 0
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = handler.text
        parser.EntityDeclHandler = self._entity
        self._parser = parser

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Parse a piece of the file; ``final`` with the last one."""
        try:
            self._parser.Parse(data, final)
        except (expat.ExpatError, _Refused) as error:
            raise UnreadableDocument(
                f"{self._name} holds broken XML ({error}); get or export it again."
            ) from error

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _Refused(f"elements nested more than {_MAX_DEPTH} deep")
        namespace, _, local = name.rpartition(" ")
        plain = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
        self._handler.start(local, plain, namespace)

    def _end(self, name: str) -> None:
        self._depth -= 1
        self._handler.end(name.rpartition(" ")[2])

    def _entity(self, *_: object) -> None:
        raise _Refused("it declares entities")


def parse(pieces: Iterable[bytes], handler: Handler, name: str) -> Iterator[None]:
    """Parse all pieces, pausing after each so that the caller can take the handler's results."""
    parser = SafeXml(handler, name)
    for piece in pieces:
        parser.feed(piece)
        yield
    parser.feed(b"", final=True)
    yield
