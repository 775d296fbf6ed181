"""Parameters of which the default suite runs some, and ``-m thorough`` and ``-m slow`` others."""

from __future__ import annotations

import itertools
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
