"""XML that may be hostile: elements and text in order, no entities, no endless nesting.

Knows expat; knows no document format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol
from xml.parsers import expat

from drt_engine.errors import UnreadableDocument

_DEEPEST = 256


class Handler(Protocol):
    """What is told of each element, by its name without a namespace, and of each text."""

    def start(self, name: str, attributes: dict[str, str], namespace: str) -> None: ...
    def end(self, name: str) -> None: ...
    def text(self, data: str) -> None: ...


class _Refused(Exception):
    """The XML does what no document needs."""


class SafeXml:
    """A parser to be fed; raises UnreadableDocument for what is no XML or made to do harm."""

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
        try:
            self._parser.Parse(data, final)
        except (expat.ExpatError, _Refused) as error:
            raise UnreadableDocument(
                f"{self._name} holds broken XML ({error}); get or export it again."
            ) from error

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Refused(f"elements nested more than {_DEEPEST} deep")
        namespace, _, local = name.rpartition(" ")
        plain = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
        self._handler.start(local, plain, namespace)

    def _end(self, name: str) -> None:
        self._depth -= 1
        self._handler.end(name.rpartition(" ")[2])

    def _entity(self, *_: object) -> None:
        raise _Refused("it declares entities")


def parse(pieces: Iterable[bytes], handler: Handler, name: str) -> Iterator[None]:
    """Feed all pieces, pausing after each so that what was found can be taken away."""
    parser = SafeXml(handler, name)
    for piece in pieces:
        parser.feed(piece)
        yield
    parser.feed(b"", final=True)
    yield
