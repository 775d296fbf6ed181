"""Which cases of a table run by default."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sampling import mark_beyond_few


class Item:
    """A collected test, as far as marks go."""

    def __init__(self, nodeid: str, *marks: pytest.MarkDecorator) -> None:
        self.nodeid = nodeid
        self.marks = [mark.mark for mark in marks]

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((mark for mark in self.marks if mark.name == name), None)

    def iter_markers(self) -> list[pytest.Mark]:
        return self.marks

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark.mark)


def default_cases(items: list[Any]) -> list[str]:
    mark_beyond_few(items)
    return [item.nodeid for item in items if item.get_closest_marker("thorough") is None]


def test_few_cases_of_each_table_stay_and_are_apart() -> None:
    few = pytest.mark.few(3)
    first = [Item(f"a.py::one[{number}]", few) for number in range(9)]
    second = [Item(f"a.py::two[{number}]", few) for number in range(2)]
    single = [Item("a.py::three")]
    assert default_cases([*first, *second, *single]) == [
        *(f"a.py::one[{number}]" for number in (0, 3, 6)),
        *("a.py::two[0]", "a.py::two[1]"),
        "a.py::three",
    ]


def test_cases_that_do_not_run_by_default_are_not_counted() -> None:
    few = pytest.mark.few(1)
    slow = Item("a.py::one[0]", few, pytest.mark.slow)
    assert default_cases([slow, Item("a.py::one[1]", few), Item("a.py::one[2]", few)]) == [
        "a.py::one[0]",
        "a.py::one[1]",
    ]
