"""Rows of tables that bars draw, as in Markdown: names, a rule of dashes, rows.

The text stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from drt_engine.documents.base import Block, Node, one_line

_RULE = re.compile(r"\|?(?: *:?-+:? *\|)+(?: *:?-+:?)?")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_ESCAPED = "\\|"
_LONGEST_ROW = 4000
_LONGEST_NAMES = 400


def with_drawn_rows(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks with a node for each row; those that have nodes stay as they are."""
    for block in blocks:
        nodes = () if block.nodes or "|" not in block.text else tuple(_rows(block.text))
        yield replace(block, nodes=nodes) if nodes else block


def _rows(text: str) -> Iterator[Node]:
    """Yield the rows of a text's tables; the row of names is one."""
    names = last = ""  # of the open table; the line above
    start = number = last_start = 0
    in_fence = False
    for line in text.splitlines(keepends=True):
        bare = line.rstrip()
        in_fence ^= _FENCE.match(line) is not None
        if in_fence or "|" not in bare or len(bare) > _LONGEST_ROW:
            names = ""
        elif names:
            number += 1
            yield _node(bare, start, number, names)
        elif "|" in last and _RULE.fullmatch(bare.strip()) and (names := _names(last)):
            number = 1
            yield _node(last, last_start, number, "")
        last, last_start = bare, start
        start += len(line)


def _node(line: str, start: int, number: int, names: str) -> Node:
    indent = len(line) - len(line.lstrip())
    # A bar within a cell would move the names.
    header = "" if _ESCAPED in line else names
    return Node("row", start + indent, start + len(line), row=number, header=header)


def _names(line: str) -> str:
    """Return the names of a table's columns as a row without outer bars."""
    cells = one_line(line).removeprefix("|").removesuffix("|").split("|")
    names = " | ".join(cell.strip() for cell in cells)
    return names if len(names) <= _LONGEST_NAMES and _ESCAPED not in line else ""
