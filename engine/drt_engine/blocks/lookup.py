"""Parts of a stored document that are read alone, or not at all, by its block tree."""

from __future__ import annotations

from typing import Protocol

from drt_engine.blocks.nodes import Node, nodes_of

# What one of these says is never said of its neighbours.
UNITS = frozenset(("record",))
STRUCK = "struck"  # what no longer holds


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
    """Return the records with a character of ``start:end``, in order."""
    return [node for node in tree_between(view, document_id, start, end) if node.kind in UNITS]
