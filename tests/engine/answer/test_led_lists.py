"""Whole lists, and how many items they have, by the line that leads to them."""

from __future__ import annotations

import pytest

from drt_engine.answer.lists.led_lists import asked_list, led_list, list_behind

GUIDE = """\
# Guide

## Principles

There are rules.

1. Be kind.
   Always.
2. Be short.

3. Be done.

The following people are members of the board:

* Ann
  - since May
* Ben

Fees
====

- one
- two

## Tools

Prose.

More prose.

Even more.

- a lamp
- a bell
"""
RULES = "There are rules.\n\n1. Be kind.\n   Always.\n2. Be short.\n\n3. Be done."


@pytest.mark.parametrize(
    ("question", "expected", "count"),
    [
        ("What are the principles?", RULES, 3),
        ("What are the three principles?", RULES, 3),
        ("List all 3 principles", RULES, 3),
        ("How many principles are there?", RULES, 3),
        ("How many principles does the guide list?", RULES, 3),
        (
            "Name the members of the board",
            "The following people are members of the board:\n\n* Ann\n  - since May\n* Ben",
            2,
        ),
        ("What are the fees?", "Fees\n====\n\n- one\n- two", 2),
        ("What are the four principles?", None, 0),  # another number
        ("What are the tools?", None, 0),  # too far above
        ("What are the costs?", None, 0),
        ("What are the principles of the lamp?", None, 0),
        ("How many people live here?", None, 0),
        ("What is the principle?", None, 0),
        ("What are they?", None, 0),
        ("What are the people?", None, 0),  # of the board
        ("", None, 0),
    ],
)
def test_lists_by_their_lead(question: str, expected: str | None, count: int) -> None:
    block = led_list(question, GUIDE)
    assert (block and GUIDE[block.start : block.end]) == expected
    if block is not None:
        assert asked_list(question)
        assert (block.count, block.asks_count) == (count, question.startswith("How many"))


def test_two_lists_that_fit_are_none() -> None:
    assert (
        led_list("What are the fees?", "Fees\n\n- one\n- two\n\nOther fees:\n\n- six\n- ten\n")
        is None
    )


def test_words_of_the_title_alone_name_no_list() -> None:
    assert led_list("What are the lamps?", "For all:\n\n- one\n- two\n", ["lamps"]) is None


CHARTER = """\
3) Board
a) The voting members of the board will consist of:
i) one keeper of each lamp;
ii) the members of the council (each, a
"Councillor").
iii) a guest.
b) Only one keeper may be of a house.
i) Please note the day.
4) Votes
"""


def test_a_list_within_an_item() -> None:
    block = led_list("Who are the voting members of the board?", CHARTER)
    assert block is not None and block.count == 3
    text = CHARTER[block.start : block.end]
    assert text.startswith("a) The voting") and text.endswith("iii) a guest.")
    assert led_list("Who are the three keepers?", CHARTER) is None


def test_long_texts_are_looked_through_in_time() -> None:
    text = "Lamps:\n" + "- lamp\n" * 20_000 + "a) b:\n" * 20_000
    assert led_list("What are the bells?", text) is None
    assert led_list("What are the bells?", "Lamps:\n" + " " * 200_000) is None


@pytest.mark.parametrize(
    ("quote", "text", "expected"),
    [
        ("care of lamps", "It takes care of lamps, including:\n\n- oil\n- gas\n\nMore.", "- gas"),
        (
            "care of lamps",
            "b) It takes care of lamps such as:\ni) oil\nii) gas\nc) More.",
            "ii) gas",
        ),
        ("care", "It takes care of lamps, including:\n\n- oil\n- gas\n", None),
        ("care of lamps", "It takes care of lamps, including oil.\n\n- oil\n- gas\n", None),
        ("care of lamps", "It takes care of lamps, including:\n\nOil.\n", None),
        ("care of lamps", "It takes care of lamps:\n\n- oil\n- gas\n", None),
    ],
)
def test_the_list_that_goes_on_with_a_quote(quote: str, text: str, expected: str | None) -> None:
    end = list_behind(text, text.index(quote) + len(quote))
    assert (end and text[:end].rpartition("\n")[2]) == expected


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        (
            "What are the preset layouts?",
            "M-1\nArrange panes in one of the\nseven preset layouts:\neven-wide, even-high,\n"
            "main, or tiled.\n",
            "preset layouts:\neven-wide, even-high,\nmain, or tiled",
        ),
        ("What are the preset layouts?", "Two preset layouts: main and tiled.\n", None),  # no list
        ("What are the layouts?", "Two preset layouts: a, b, c.\n\nOther layouts: d, e, f.", None),
        ("What are the preset layouts?", "The layouts of windows: a, b, c.\n", None),
        ("What are the three layouts?", "Layouts: a, b, c, d.\n", None),
        (
            "What are the layouts?",
            "Layouts: a, that is what was asked for once, b, c, d.\n",
            None,
        ),
        (
            "What must a registration request contain?",
            "A request for registration consists of at least this information:\n\n"
            "o  Name:\n   of the lamp\no  Oil:\n   its kind\n\nMore.\n",
            "A request for registration consists of at least this information:\n\n"
            "o  Name:\n   of the lamp\no  Oil:\n   its kind",
        ),
        (
            "Who were the official participants?",
            "It was held in Hull, by Ann.  The following were the official participants.\n\n"
            "- Tom\n- Eve\n\nMore participants came.\n\n- Bo\n- Al\n",
            "The following were the official participants.\n\n- Tom\n- Eve",
        ),
        (
            "What are the installation steps?",
            "Installation\n------------\n\n#. Clone it.\n#. Run it::\n\n      run\n\nMore.\n",
            "Installation\n------------\n\n#. Clone it.\n#. Run it::\n\n      run",
        ),
        (
            "What are the two registries?",
            "This memo establishes two registries:\n\n* lamps\n* keepers\n",
            "This memo establishes two registries:\n\n* lamps\n* keepers",
        ),
        (
            "What are the three registries?",
            "This memo establishes two registries:\n\n* lamps\n* keepers\n",
            None,
        ),
    ],
)
def test_lists_within_sentences_and_what_something_contains(
    question: str, text: str, expected: str | None
) -> None:
    block = led_list(question, text)
    assert (block and text[block.start : block.end]) == expected


@pytest.mark.parametrize(
    "text", ["a: " * 60_000, "lamps: " + "b, " * 60_000, ":\n" * 100_000, "lamps: b, c, d" * 20_000]
)
def test_hostile_lists_within_sentences_take_no_time(text: str) -> None:
    led_list("What are the lamps?", text)
