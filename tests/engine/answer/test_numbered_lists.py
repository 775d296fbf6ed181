"""Items by their number, where what stands above tells what they are."""

from __future__ import annotations

import pytest

from drt_engine.answer.lists.numbered_lists import numbered_item, numbered_section

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
