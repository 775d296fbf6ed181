"""All rows of a table are checked, each as if it were a test, and those that fail are named."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.tables import each_row


def test_all_rows_that_fail_are_named() -> None:
    seen = []

    @each_row("number", [1, 2, 3, 4])
    def check(number: int) -> None:
        seen.append(number)
        if number == 4:
            pytest.fail("four")
        assert number != 2

    with pytest.raises(BaseExceptionGroup, match="2 of 4 rows fail") as caught:
        check()
    assert seen == [1, 2, 3, 4]
    assert [error.__notes__ for error in caught.value.exceptions] == [["Row 1: 2"], ["Row 3: 4"]]


def test_a_row_that_raises_nothing_where_it_should_fails() -> None:
    @each_row(("text", "base"), [("x", 10), ("12", 10)], ids=["letter", "digits"])
    def check(text: str, base: int) -> None:
        with pytest.raises(ValueError):
            int(text, base)

    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows") as caught:
        check()
    assert caught.value.exceptions[0].__notes__ == ["Row 1: digits"]


@each_row("name", ["a", "a"])
@each_row("content", ["1", "2"])
def test_rows_of_two_tables_share_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str
) -> None:
    assert list(tmp_path.iterdir()) == []
    (tmp_path / name).write_text(content)
    assert "A_ROW" not in os.environ
    monkeypatch.setenv("A_ROW", content)
    assert random.random() == random.Random(0).random()


def test_the_rows_after_a_skipped_one_are_checked() -> None:
    @each_row("number", [1, 2])
    def check(number: int) -> None:
        if number == 1:
            pytest.skip("not here")
        raise ValueError(number)

    with pytest.raises(ExceptionGroup, match="1 of 2 rows fail"):
        check()


def test_a_table_without_any_other_row_is_skipped() -> None:
    @each_row("number", [1, 2])
    def check(number: int) -> None:
        pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception):
        check()


def test_rows_that_could_not_be_checked_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="no row"):
        each_row("number", [])
    with pytest.raises(AssertionError, match="a mark"):
        each_row("number", [pytest.param(1, marks=pytest.mark.slow)])
