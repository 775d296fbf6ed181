"""Parameters of which the default suite runs some, and ``-m slow`` the others."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], quick: Container[int], *, unpack: bool = False) -> list[Any]:
    """Return the cases as parameters, slow but for those at the positions ``quick``.

    ``unpack`` is for cases that are tuples of several arguments.
    """
    return [
        pytest.param(
            *(case if unpack else (case,)), marks=() if number in quick else (pytest.mark.slow,)
        )
        for number, case in enumerate(cases)
    ]
