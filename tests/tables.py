"""Tables of cases that one test checks, which names all rows that fail.

What pytest does around a test, and to hand its report from one process to another, takes longer
than most rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import pytest

from tests.seeds import seed


def each_row(
    names: str | Sequence[str],
    rows: Iterable[Any],
    *,
    ids: Callable[[Any], object] | Sequence[str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Check every row in one test, where ``pytest.mark.parametrize`` makes a test of each.

    Each row has a folder ``tmp_path``, patches ``monkeypatch`` and random numbers of its own; it
    shares other fixtures with the rows before it.
    """
    alone = isinstance(names, str) and "," not in names
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    rows = list(rows)
    assert rows, "no row would be checked"
    assert not any(hasattr(row, "marks") for row in rows), "a row cannot have a mark"
    table = [(row,) if alone else tuple(row) for row in rows]

    def named(number: int) -> str:
        if callable(ids):
            return str(ids(table[number][0]))
        return ids[number] if ids else ", ".join(repr(value)[:200] for value in table[number])

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        parameters = inspect.signature(test).parameters
        assert set(columns) <= set(parameters)

        @wraps(test)
        def check(**fixtures: Any) -> None:
            failures, skipped = [], []
            for number, row in enumerate(table):
                seed()
                try:
                    with own(fixtures, number) as others:
                        test(**others, **dict(zip(columns, row, strict=True)))
                except pytest.skip.Exception as skip:
                    skipped.append(skip)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"Row {number}: {named(number)}")
                    failures.append(error)
            if failures:
                count = f"{len(failures)} of {len(table)} rows fail"
                raise BaseExceptionGroup(count, failures)
            if len(skipped) == len(table):
                raise skipped[0]

        rest = [one for name, one in parameters.items() if name not in columns]
        check.__signature__ = inspect.Signature(rest)  # type: ignore[attr-defined]
        return check

    return decorate


@contextmanager
def own(fixtures: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """Give a row a folder and patches that no other row has."""
    others = dict(fixtures)
    with ExitStack() as stack:
        if "tmp_path" in fixtures:
            others["tmp_path"] = fixtures["tmp_path"] / f"row{number}"
            others["tmp_path"].mkdir()
        if "monkeypatch" in fixtures:
            others["monkeypatch"] = stack.enter_context(fixtures["monkeypatch"].context())
        yield others
