"""Brackets of a span: whole where their other half is near, none where it is not.

Knows nothing of sentences, tokens or files.
"""

from __future__ import annotations

_PAIRS = {")": "(", "]": "[", "}": "{"}
_FARTHEST = 40  # characters from a span to the other half of a bracket in it
_SMILE = ":;=-"  # before a bracket that is a mouth


def with_whole_brackets(text: str, start: int, end: int) -> tuple[int, int]:
    """Grow ``start:end`` to the near other halves of its brackets, then drop lone ones at its ends.

    "0.1] seconds" becomes "[0, 0.1] seconds", and "open(" becomes "open()"; "(at night" loses its
    bracket, and so does "at night)".
    """
    opened, closed = _lone_brackets(text, start, end)
    if closed and closed[0] < end - 1:
        start = _partner_before(text, start, closed[0])
    if opened and opened[-1] > start:
        end = _partner_behind(text, end, opened[-1])
    return strip_lone_brackets(text, start, end)


def strip_lone_brackets(text: str, start: int, end: int) -> tuple[int, int]:
    """Shrink ``start:end`` by brackets at its ends whose other halves are outside."""
    opened, closed = _lone_brackets(text, start, end)
    for at in opened:
        if at != start or start == end - 1:
            break
        start += 1
    for at in reversed(closed):
        if not at == end - 1 > start or text[end - 2] in _SMILE:
            break
        end -= 1
    while start < end - 1 and text[start].isspace():
        start += 1
    while end - 1 > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _lone_brackets(text: str, start: int, end: int) -> tuple[list[int], list[int]]:
    """Return where brackets of a span open without closing in it, and close without opening."""
    opened: list[int] = []
    closed: list[int] = []
    for at in range(start, end):
        sign = text[at]
        if sign in "([{":
            opened.append(at)
        elif sign in _PAIRS:
            if opened and text[opened[-1]] == _PAIRS[sign]:
                opened.pop()
            else:
                closed.append(at)
    return opened, closed


def _partner_before(text: str, start: int, closing: int) -> int:
    """Return where the bracket opens that closes at ``closing``; ``start`` where it is far."""
    depth = 0
    for at in range(start - 1, max(-1, start - 1 - _FARTHEST), -1):
        if text[at] == "\n":
            break
        if text[at] == text[closing]:
            depth += 1
        elif text[at] == _PAIRS[text[closing]]:
            if not depth:
                return at
            depth -= 1
    return start


def _partner_behind(text: str, end: int, opening: int) -> int:
    """Return the end of the bracket that opens at ``opening``; ``end`` where it is far."""
    depth = 0
    for at in range(end, min(len(text), end + _FARTHEST)):
        if text[at] == "\n":
            break
        if text[at] == text[opening]:
            depth += 1
        elif _PAIRS.get(text[at]) == text[opening]:
            if not depth:
                return at + 1
            depth -= 1
    return end
