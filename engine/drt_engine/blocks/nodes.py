"""Nodes of a document's block tree, and their packed form in the library.

The spans of nodes nest or are apart, so that the parent of a node is the smallest one around it.
The packed form is described in ``store/FORMAT.md`` (``blocks``). Knows nothing of formats, of how
nodes are found, or of what asks for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

GROUP_NODES = 256  # of one group, and more where a node has more descendants
MAX_NODES = 65_536  # of any group that is read
MAX_DEPTH = 32
_MAX_NUMBER = 1 << 62


class Node(NamedTuple):
    """A part of a text, characters ``start:end``.

    ``kind`` is "heading", "paragraph", "item", "row", "record", "field", "caption", "code" or
    "struck"; a program must take others, too. ``level`` is a heading's or an item's depth, ``row``
    a row's number in its table from 1, ``header`` the names above a row or the section path of a
    record, ``place`` a time stamp or the number of a slide.
    """

    kind: str
    start: int
    end: int
    level: int = 0
    row: int = 0
    header: str = ""
    place: str = ""

    def moved(self, by: int) -> Node:
        """Return the node ``by`` characters further on."""
        return self._replace(start=self.start + by, end=self.end + by)


def nodes_between(nodes: Iterable[Node], start: int, end: int, *, by: int = 0) -> tuple[Node, ...]:
    """Return the nodes with a character of ``start:end``, cut to it and moved ``by`` characters."""
    return tuple(
        node._replace(start=max(start, node.start) + by, end=min(end, node.end) + by)
        for node in nodes
        if node.start < end and start < node.end
    )


class BlockTree:
    """Collects the nodes of a document as its text passes, packed in groups."""

    def __init__(self) -> None:
        self._position = 0
        self._pending: list[Node] = []
        self._packed: list[tuple[int, str]] = []

    def see(self, text: str, nodes: Sequence[Node]) -> None:
        """Take the next piece of the text with its nodes, whose spans are counted in the piece."""
        for node in nodes:
            placed = node.moved(self._position)
            if len(self._pending) >= GROUP_NODES and self._is_apart(placed):
                self._pack()
            self._pending.append(placed)
        self._position += len(text)

    def _is_apart(self, node: Node) -> bool:
        """Return whether a node is in none of those that wait."""
        return all(waiting.end <= node.start for waiting in self._pending)

    def _pack(self) -> None:
        if self._pending:
            self._packed.append((self._pending[0].start, pack_nodes(self._pending)))
        self._pending = []

    @property
    def groups(self) -> list[tuple[int, str]]:
        """Return the nodes as the library keeps them, once the whole text has passed."""
        self._pack()
        return self._packed


def pack_nodes(nodes: Iterable[Node]) -> str:
    """Return nodes as JSON: rows of kind, start, length, level, row, header, place.

    The start is counted from that of the row before, the first from zero; zeros and empty texts at
    the end of a row are left out.
    """
    rows, last = [], 0
    for node in nodes:
        row: list[Any] = [node.kind, node.start - last, node.end - node.start, *node[3:]]
        while len(row) > 3 and not row[-1]:
            row.pop()
        rows.append(row)
        last = node.start
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=False)


def unpack_nodes(text: str) -> list[Node]:
    """Return the nodes of one group; raise ValueError for what no library writes."""
    try:
        rows = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(rows, list) or len(rows) > MAX_NODES:
        raise ValueError(f"it is not a list of at most {MAX_NODES} nodes")
    nodes: list[Node] = []
    start = 0
    for row in rows:
        if not isinstance(row, list) or not 3 <= len(row) <= 7:
            raise ValueError(f"{row!r:.40} is not a node")
        kind, step, length, *fields = row
        values = [*fields, *(0, 0, "", "")[len(fields) :]]
        is_node = (
            all(type(value) is str for value in (kind, *values[2:]))
            and all(type(value) is int for value in (step, length, *values[:2]))
            and all(0 <= number < _MAX_NUMBER for number in (step, length, *values[:2]))
        )
        if not is_node:
            raise ValueError(f"{row!r:.40} is not a node")
        start += step
        nodes.append(Node(kind, start, start + length, *values))
    expect_tree(nodes)
    return nodes


def expect_tree(nodes: Sequence[Node]) -> None:
    """Raise ValueError unless nodes are in order and nest or are apart."""
    ends: list[int] = []  # of the nodes around the next one
    last = 0
    for node in nodes:
        while ends and ends[-1] <= node.start:
            ends.pop()
        if node.start < last or node.end <= node.start or (ends and node.end > ends[-1]):
            raise ValueError(f"the node at {node.start} crosses another one")
        ends.append(node.end)
        last = node.start
        if len(ends) > MAX_DEPTH:
            raise ValueError(f"the nodes at {node.start} are nested too deeply")


def expect_groups(groups: Sequence[tuple[int, str]], characters: int) -> None:
    """Raise ValueError unless these are the groups of nodes of a text of so many characters."""
    last_end = 0
    for start, text in groups:
        nodes = unpack_nodes(text)
        if not nodes or nodes[0].start != start or start < last_end:
            raise ValueError(f"the nodes from {start} on are not in their place")
        last_end = max(node.end for node in nodes)
    if last_end > characters:
        raise ValueError(f"a node ends at {last_end}, the text has {characters} characters")


def nodes_of(groups: Iterable[tuple[int, str]], start: int, end: int) -> Iterator[Node]:
    """Yield the nodes of packed groups that have a character of ``start:end``."""
    for _, text in groups:
        for node in unpack_nodes(text):
            if node.start < end and start < node.end:
                yield node
