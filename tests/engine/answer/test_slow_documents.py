"""A document of one long line that was made to be slow: reading and asking grow with its length."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from drt_engine.answer.ask import ask
from tests.engine.answer.asking import ANY
from tests.model_folder import library, read_text, runtime

UNITS = (
    "_",
    ".",
    "1.1.",
    "\t",
    ", ",
    "(",
    "[",
    "|",
    '"',
    "`",
    "**",
    "a-",
    "a and ",
    "a = ",
    "--a ",
)
QUESTIONS = ("When was version 1.1 released?", "How many rows have a?", "What does a print?")
SIZES = (20_000, 80_000)  # characters


def seconds(folder: Path, unit: str, size: int) -> float:
    """The processor's time for reading and asking."""
    text = "# Doc\n\nThe releases:\n\n" + unit * (size // len(unit)) + "\n\nThe end of a is b.\n"
    began = time.process_time()
    with library(folder / f"{size}.library") as store:
        read_text(store, folder, name="a.md", text=text)
        for question in QUESTIONS:
            ask(runtime(), store, question, ANY)
    return time.process_time() - began


@pytest.mark.thorough
@pytest.mark.parametrize("unit", UNITS)
def test_a_long_line_takes_time_in_proportion(tmp_path: Path, unit: str) -> None:
    seconds(tmp_path, unit, 100)  # what is done once
    short, long = (seconds(tmp_path, unit, size) for size in SIZES)
    assert long < 8 * short or long < 2, f"{short:.1f} s, then {long:.1f} s for four times as much"
