"""Items by their number, where what stands above tells what they are."""

from __future__ import annotations

import pytest

from drt_engine.answer.lists.numbered_lists import numbered_item

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
