"""Parts of a stored document that are read alone, or not at all, by its block tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from drt_engine.blocks.nodes import Node, nodes_of

# What one of these says is never said of its neighbours.
UNITS = frozenset(("record", "row", "note"))
STRUCK = "struck"  # what no longer holds
_PAGE = "page"  # whose number in the file is not what is printed on it


class TreeView(Protocol):
    """What following a block tree needs of a library; ``store.view.LibraryView`` has it."""

    def blocks(self, document_id: str, start: int, end: int, /) -> list[tuple[int, str]]:
        """Return the groups of nodes for a part of a document's text."""


def tree_between(view: TreeView, document_id: str, start: int, end: int) -> list[Node]:
    """Return the nodes with a character of ``start:end``, in order; none of a damaged tree.

    A damaged tree costs the borders of records, not the answer; ``check`` reports it.
    """
    groups = view.blocks(document_id, start, end)
    try:
        return list(nodes_of(groups, start, end))
    except ValueError:
        return []


def units_between(view: TreeView, document_id: str, start: int, end: int) -> list[Node]:
    """Return the records, rows and notes with a character of ``start:end``, in order."""
    return [node for node in tree_between(view, document_id, start, end) if node.kind in UNITS]


def page_label(view: TreeView, document_id: str, start: int) -> str | None:
    """Return what is printed on the page of a character, where that is not the page's number."""
    nodes = tree_between(view, document_id, start, start + 1)
    return next((node.place for node in nodes if node.kind == _PAGE), None)


def headers_of(text: str, node: Node) -> tuple[tuple[int, str], ...]:
    """Return what is read in front of parts of a unit, from which character on.

    In front of a note that is the sentence that refers to it, in front of each cell of a row the
    name of its column.
    """
    if node.kind == "row":
        return tuple((at, f"{name}:") for at, name in _named_cells(text, node))
    return ((node.start, node.header),) if node.header and node.kind == "note" else ()


def _named_cells(text: str, row: Node) -> Iterator[tuple[int, str]]:
    """Yield where the cells of a row begin, each with the name of its column.

    ``text`` is the row's, as its reader wrote it: values between bars, with outer ones where the
    first or last cell is blank in some formats. Blank cells are passed over: with a name of their
    own the reader takes the next value for theirs. Nothing is yielded where the cells do not fit
    the names.
    """
    names = row.header.split(" | ")
    first, last = 0, len(text)
    surplus = text.count("|") - len(names) + 1
    if surplus > 0 and text.startswith("|"):
        first, surplus = 1, surplus - 1
    if surplus > 0 and text.endswith("|"):
        last, surplus = last - 1, surplus - 1
    if surplus > 0 or len(names) < 2:
        return
    at = first
    for name, value in zip(names, text[first:last].split("|"), strict=False):
        if name.strip() and value.strip():
            yield row.start + at + len(value) - len(value.lstrip()), name.strip()
        at += len(value) + 1
