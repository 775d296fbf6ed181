"""Parameters of which the default suite runs some, and ``-m thorough`` and ``-m slow`` others."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from typing import Any

import pytest


def sampled(
    cases: Iterable[Any],
    quick: Container[int],
    *,
    thorough: Container[int] = (),
    unpack: bool = False,
) -> list[Any]:
    """Return the cases as parameters, slow but for those at the positions ``quick``.

    Those at the positions ``thorough`` have that mark. ``unpack`` is for cases that are tuples of
    several arguments.
    """

    def marks(number: int) -> tuple[pytest.MarkDecorator, ...]:
        if number in quick:
            return ()
        return (pytest.mark.thorough if number in thorough else pytest.mark.slow,)

    return [
        pytest.param(*(case if unpack else (case,)), marks=marks(number))
        for number, case in enumerate(cases)
    ]


def crossed(*axes: Sequence[Any]) -> list[Any]:
    """Return all combinations of several values, slow but for a few that have every value.

    Those are the first values together, the second ones, and so on; a shorter axis begins again.
    """
    longest = max(len(axis) for axis in axes)
    quick = {tuple(number % len(axis) for axis in axes) for number in range(longest)}
    positions = list(itertools.product(*(range(len(axis)) for axis in axes)))
    cases = [tuple(axis[at] for axis, at in zip(axes, place, strict=True)) for place in positions]
    chosen = {number for number, place in enumerate(positions) if place in quick}
    return sampled(cases, chosen, unpack=True)


RARE = frozenset({"thorough", "slow", "stress", "gpu", "browser"})


def mark_beyond_few(items: Iterable[pytest.Item]) -> None:
    """Mark cases of a test with ``few(number)`` thorough, but for as many, evenly apart.

    Cases with another mark that keeps them out of the default suite are not counted.
    """
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        names = {mark.name for mark in item.iter_markers()}
        if "few" in names and not RARE & names:
            cases[item.nodeid.partition("[")[0]].append(item)
    for table in cases.values():
        mark = table[0].get_closest_marker("few")
        assert mark is not None
        number = min(mark.args[0], len(table))
        kept = {at * len(table) // number for at in range(number)}
        for at, item in enumerate(table):
            if at not in kept:
                item.add_marker(pytest.mark.thorough)
