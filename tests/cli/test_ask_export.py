"""`drt ask --export`: an answer for another program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drt._export import FORMATS
from drt_cli.commands.ask import EXPORTS
from tests.cli.conftest import Drt
from tests.tables import each_row


def test_the_formats_are_those_of_the_sdk() -> None:
    assert EXPORTS == FORMATS


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("markdown", "The notice **period** is"),
        ("html", "<mark>period</mark>"),
        ("obsidian", "[[handbook.txt|handbook.txt, page 3]]"),
        ("bibtex", "@misc{handbook"),
    ],
)
def test_an_answer_is_printed_for_another_program(
    drt: Drt, handbook: Path, name: Any, words: str
) -> None:
    result = drt("ask", "Which period?", handbook, "--export", name)
    assert result.code == 0 and words in result.out
    assert str(handbook.parent) not in result.out


def test_csl_json_is_json(drt: Drt, handbook: Path) -> None:
    (item,) = json.loads(drt("ask", "Which period?", handbook, "--export", "csl-json").out)
    assert item["title"] == "handbook.txt"


@each_row("other", ["--markdown", "--json", "--stream", "--all"])
def test_other_forms_exclude_it(drt: Drt, other: str) -> None:
    result = drt("ask", "Which period?", "--export", "html", other)
    assert result.code == 2 and "--export" in result.err
