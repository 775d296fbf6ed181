"""Items by their number, where what stands above tells what they are."""

from __future__ import annotations

import pytest

from drt_engine.answer.lists.numbered_lists import (
    numbered_item,
    numbered_section,
    paragraph_number,
)

CYLINDERS = """\
The cylinders hold:

     1. A greeting.

     2, 3. An old tale of how
     a child was stolen.

     4. "Snake Dance."

     5. War song.

Steps of the recipe

1. Mix.
2. Knead.
3. Bake
4. Eat.

Fees: see section 2.

1. One
2. Two
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is on cylinder 4?", '"Snake Dance."'),
        ("What is cylinder no. 3?", "An old tale of how\n     a child was stolen."),
        ("What is step 3 of the recipe?", "Bake"),
        ("What does the recipe say at step 2?", "Knead."),
        ("What is on cylinder 9?", None),
        ("What is on record 4?", None),
        ("What colour is cylinder 4?", None),
        ("What is item 2?", None),  # of which list?
        ("Who won in 4 days?", None),
        ("What is on cylinder 4.5?", None),
        ("What is on it?", None),
        ("What is the third step of the recipe?", "Bake"),
        ("What is the last step of the recipe?", "Eat."),
        ("What is the third step?", "Bake"),
        ("What is the last name of the cook?", None),
        ("What is the last line?", None),
        ("Who came in the second place?", None),
    ],
)
def test_items(question: str, expected: str | None) -> None:
    span = numbered_item(question, CYLINDERS)
    assert (span and CYLINDERS[slice(*span)]) == expected


TERMS = """\
Contents

1. Scope ........ 1
4.3 Access ...... 2

1. Scope

Of the harbour alone.

4. PERSONNEL

4.3 Access. Only keepers may enter the tower, and only by day.
They sign the book.

4.4 Questions

Write to the harbour master.

Article 7

The light is never left.
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (
            "What does section 4.3 say?",
            "4.3 Access. Only keepers may enter the tower, and only by day.\nThey sign the book.",
        ),
        ("What is section 1 about?", "1. Scope\n\nOf the harbour alone."),
        ("what is the title of clause 4.4", "4.4 Questions\n\nWrite to the harbour master."),
        ("What does article 7 require?", "Article 7\n\nThe light is never left."),
        ("What is section 9 about?", None),
        ("Which article 7 keeper may enter?", None),
        ("What fee does section 4.3 set?", None),
    ],
)
def test_sections_by_their_number(question: str, expected: str | None) -> None:
    span = numbered_section(question, TERMS)
    assert (span and TERMS[slice(*span)]) == expected


def test_a_number_that_two_lines_begin_with_is_left() -> None:
    assert (
        numbered_section("What is section 2 about?", "2. One\n\nText\n\n2. Two\n\nText\n") is None
    )


def test_items_may_be_named_far_above_in_the_plural() -> None:
    text = f"All is on cylinders.\n\n{'Prose. ' * 120}\n\n1. Song\n2. Tale\n3. Rhyme of page 7\n"
    span = numbered_item("What is on cylinder 2?", text)
    assert span is not None and text[slice(*span)] == "Tale"
    assert numbered_item("What is on page 2?", text) is None


LETTERS = """\
XII. Old

1. Doors

(a) are shut
by night;

(b) are green.

2. Bells

(a) are rung.

XIII. New

They are painted.
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What does clause 1(a) say?", "(a) are shut\nby night;"),
        ("What does clause 1 (b) say?", "(b) are green."),
        ("What does clause 2(a) say?", "(a) are rung."),
        ("What does clause 2(b) say?", None),
        ("What does clause 3(a) say?", None),
        ("What does chapter XIII say?", "XIII. New\n\nThey are painted."),
        ("What does chapter XIV say?", None),
    ],
)
def test_letters_and_roman_numbers(question: str, expected: str | None) -> None:
    span = numbered_section(question, LETTERS)
    assert (span and LETTERS[slice(*span)]) == expected


def test_of_contents_and_a_heading_the_heading_is_taken() -> None:
    text = "Contents\n\n1. Lamps\n2. Bells\n\n2. Bells\n\nThey ring.\n"
    span = numbered_section("What is chapter 2 about?", text)
    assert span is not None and text[slice(*span)] == "2. Bells\n\nThey ring."


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("pay", "7.1"),
        ("tell", "7.2 **Notice.**"),
        ("letter", "7.2 **Notice.**"),
        ("phone", "7.2 **Notice.**"),
        ("Stars", "8. Signs."),
        ("prose", None),  # below, and not of the paragraph
        ("counts", None),  # alone, as no other line has the number before or after
        ("Pay ", None),
    ],
)
def test_the_number_of_the_paragraph_around(word: str, expected: str | None) -> None:
    text = (
        "Pay \n\n7.1 The tenant shall pay.\n\n7.2 **Notice.** The tenant shall tell us.\n\n"
        "    a letter; or\n\n(b) by phone.\n\nOther prose.\n\n"
        "8. Signs. Stars are signs.\n\n9. Wonders are none.\n\n1999 counts as a year.\n"
    )
    span = paragraph_number(text, text.index(word))
    assert (span and text[slice(*span)]) == expected
