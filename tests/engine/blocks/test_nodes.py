"""Nodes of a block tree: packed and read again, refused where they are not a tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drt_engine.blocks.nodes import (
    GROUP_NODES,
    BlockTree,
    Node,
    expect_groups,
    nodes_between,
    nodes_of,
    pack_nodes,
    unpack_nodes,
)
from tests.tables import each_row

ROW = Node("row", 10, 30, row=2, header="Item | Price")
TREE = [ROW, Node("cell", 10, 14, header="Item"), Node("record", 30, 44, place="07:15")]


def test_nodes_are_read_as_they_were_packed() -> None:
    assert unpack_nodes(pack_nodes(TREE)) == TREE


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.text(max_size=3)), max_size=9))
def test_any_nodes_that_are_apart(steps: list[tuple[int, int, str]]) -> None:
    nodes, at = [], 0
    for gap, length, place in steps:
        nodes.append(Node("record", at + gap, at + gap + length, place=place))
        at += gap + length
    assert unpack_nodes(pack_nodes(nodes)) == nodes


@each_row(
    "packed",
    [
        "{}",
        "[[]]",
        '[["row", -1, 2]]',
        '[["row", 1, 0]]',
        "[[1, 1, 2]]",
        '[["row", 1, 2, "x"]]',
        '[["row", 0, 5], ["row", 3, 9]]',
        "[" * 9999,
    ],
)
def test_what_no_library_writes_is_refused(packed: str) -> None:
    with pytest.raises(ValueError, match="node|nested|Expecting"):
        unpack_nodes(packed)


def test_groups_are_of_whole_trees_and_counted_in_the_document() -> None:
    tree = BlockTree()
    for _ in range(GROUP_NODES):
        tree.see("x" * 50, [Node("row", 0, 40), Node("cell", 1, 2), Node("cell", 3, 4)])
    groups = tree.groups
    assert len(groups) == 3
    expect_groups(groups, 50 * GROUP_NODES)
    assert [node.start for node in nodes_of(groups, 50, 60)] == [50, 51, 53]
    with pytest.raises(ValueError, match="ends at"):
        expect_groups(groups, 50 * GROUP_NODES - 30)


def test_a_part_has_its_nodes_cut_and_moved() -> None:
    assert nodes_between(TREE, 12, 40, by=-12) == (
        ROW._replace(start=0, end=18),
        Node("cell", 0, 2, header="Item"),
        Node("record", 18, 28, place="07:15"),
    )
