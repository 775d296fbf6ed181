"""Outputs of code and settings of comments, which are below what is quoted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drt_engine.answer.below import output_of, setting_below, with_output, with_setting
from drt_engine.answer.citations import cite
from drt_engine.answer.documents import documents_to_ask
from drt_engine.answer.result import Draft
from tests.model_folder import library, read_text

NOTEBOOK = """\
Prose about the mean.

```python
mean = tide()
print("mean:", mean)
```

```
100%|####| 9/9 [00:01]
```

```
mean: 4.2 m
```

```python
store(mean)
```

Then:

```
not of a cell
```
"""

SETTINGS = """\
# Lanterns are described here.

# How many hours a lantern burns.
#
BURN_HOURS  9

# Ages of keepers:
#   MIN_AGE  youngest keeper
#   MAX_AGE  oldest keeper
MIN_AGE 18
MAX_AGE 70
# The wick of the lamp.
wick = cotton

# The door of the tower.
# Default: DOOR=shut
#DOOR=shut
#
# Its port
#Port 22
Prose follows here: nothing is set.
"""


@pytest.mark.parametrize(
    ("quote", "output"),
    [
        ('print("mean:"', "mean: 4.2 m"),
        ("store", None),
        ("about the mean", None),
        ("4.2 m", None),
        ("not of", None),
    ],
)
def test_the_output_of_code(quote: str, output: str | None) -> None:
    at = NOTEBOOK.index(quote)
    span = output_of(NOTEBOOK, (at, at + len(quote)))
    assert (span and NOTEBOOK[slice(*span)]) == output


def test_of_a_long_output_the_first_lines_are_shown() -> None:
    text = "```r\nx\n```\n\n```\n" + "a line of it\n" * 99 + "```\n"
    span = output_of(text, (5, 6))
    assert span is not None and 500 < span[1] - span[0] <= 600
    assert text[: span[1]].endswith("a line of it")


@pytest.mark.parametrize(
    ("quote", "setting"),
    [
        ("How many hours a lantern burns.", "BURN_HOURS  9"),
        ("MAX_AGE  oldest keeper", "MAX_AGE 70"),
        ("Ages of keepers", "MIN_AGE 18\nMAX_AGE 70"),
        ("The wick of the lamp", "wick = cotton"),
        ("The door of the tower.", "DOOR=shut"),
        ("# Its port", "Port 22"),
        ("Lanterns are described", None),
        ("BURN_HOURS", None),
        ("Prose follows", None),
    ],
)
def test_the_setting_below_a_comment(quote: str, setting: str | None) -> None:
    at = SETTINGS.index(quote)
    span = setting_below(SETTINGS, (at, at + len(quote)))
    assert (span and SETTINGS[slice(*span)]) == setting


@pytest.mark.parametrize(
    ("question", "quote", "answer"),
    [
        (
            "How many hours does it burn?",
            "How many hours a lantern burns.",
            "How many hours a lantern burns.\n#\nBURN_HOURS  9",
        ),
        ("How does it burn?", "How many hours a lantern burns.", None),
        ("Which three are set?", "How many hours a lantern burns.", None),
        ("What is of cotton?", "cotton", None),
        ("Which lamp is it?", "wick of", None),
    ],
)
def test_a_comment_goes_on_to_its_setting(
    tmp_path: Path, question: str, quote: str, answer: str | None
) -> None:
    at = SETTINGS.index(quote)
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="lantern.conf", text=SETTINGS)
        citation = cite(store, store.document("lantern.conf"), at, at + len(quote), 0.9)
        draft = Draft(quote, True, 0.9, (citation,))
        extended = with_setting(store, documents_to_ask(store, None), question, draft)
        assert extended.text == (answer or quote)
        unsure = Draft("", False, 0.9, (citation,))
        assert with_setting(store, documents_to_ask(store, None), question, unsure) == unsure


CELLS = {
    "cells": [
        {
            "cell_type": "code",
            "source": "print('mean:', tide())",
            "outputs": [{"output_type": "stream", "text": "mean: 4.2 m\n"}],
        }
    ],
    "metadata": {"language_info": {"name": "python"}},
    "nbformat": 4,
}


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("What is printed for the mean?", ["mean: 4.2 m", "print('mean:', tide())"]),
        ("Why is the mean printed?", ["print('mean:', tide())"]),
        ("Which function has the mean?", ["print('mean:', tide())"]),
    ],
)
def test_code_is_answered_by_its_output(tmp_path: Path, question: str, answers: list[str]) -> None:
    code = "print('mean:', tide())"
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="tides.ipynb", text=json.dumps(CELLS))
        row = store.document("tides.ipynb")
        at = store.text(row.id, 0, row.characters).index(code)
        citation = cite(store, row, at, at + len(code), 0.9)
        draft = Draft(code, True, 0.9, (citation,))
        extended = with_output(store, documents_to_ask(store, None), question, draft)
        assert [citation.quote for citation in extended.citations] == answers
        assert extended.text == answers[0]


def test_a_sentence_that_leads_to_code_is_answered_by_its_output(tmp_path: Path) -> None:
    lead = {"cell_type": "markdown", "source": "This is the mean of all tides:"}
    cells = CELLS | {"cells": [lead, *CELLS["cells"]]}
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="tides.ipynb", text=json.dumps(cells))
        row = store.document("tides.ipynb")
        at = store.text(row.id, 0, row.characters).index(lead["source"])
        for end, answer in ((len(lead["source"]), "mean: 4.2 m"), (len("This is"), "This is")):
            citation = cite(store, row, at, at + end, 0.9)
            draft = Draft(citation.quote, True, 0.9, (citation,))
            documents = documents_to_ask(store, None)
            assert with_output(store, documents, "What is the mean?", draft).text == answer
