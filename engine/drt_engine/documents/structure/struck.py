"""Tells text that was struck out, which readers write between ``~~`` as Markdown does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from drt_engine.documents.base import Block, Node

_STRUCK = re.compile(r"(?<![~\w])~~(?=\S)[^~\n]{1,2000}?(?<=\S)~~(?!~)[ \t]?")


def struck_nodes(text: str) -> Iterator[Node]:
    """Yield a node for each part of a text between marks, with the marks and the space behind."""
    if "~~" not in text:
        return
    for match in _STRUCK.finditer(text):
        yield Node("struck", match.start(), match.start() + len(match[0].rstrip()))


def with_struck(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks with nodes for what is struck out, within those that they have."""
    for block in blocks:
        struck = list(struck_nodes(block.text))
        nodes = sorted((*block.nodes, *struck), key=lambda node: (node.start, -node.end))
        yield replace(block, nodes=tuple(nodes)) if struck else block
