"""Answer scores equal those of SQuAD 2.0's script on its known cases."""

from __future__ import annotations

import pytest

from drt_lab.evaluate.metrics.qa_f1 import (
    AnswerScore,
    exact_match,
    f1,
    is_right,
    normalize_answer,
    score_answer,
)
from tests.tables import each_row


@each_row(
    ("text", "expected"),
    [
        ("The  Cat", "cat"),
        ("an apple, a day!", "apple day"),
        ("theatre and banana", "theatre and banana"),
        ("U.S.A.", "usa"),
        ("ten-year", "tenyear"),
        ("the", ""),
        # Punctuation goes before articles, and only ASCII punctuation goes.
        ("a-b", "ab"),
        ("“the” end", "“ ” end"),
    ],
)
def test_normalisation(text: str, expected: str) -> None:
    assert normalize_answer(text) == expected


@each_row(
    ("prediction", "reference", "em", "overlap"),
    [
        ("the cat sat", "Cat sat.", 1.0, 1.0),
        ("a black cat", "black dog", 0.0, 0.5),
        ("b b c", "b c c", 0.0, 2 / 3),
        ("one", "one two three four", 0.0, 0.4),
        ("", "", 1.0, 1.0),
        ("the", "", 1.0, 1.0),
        ("", "cat", 0.0, 0.0),
        ("cat", "", 0.0, 0.0),
        ("cat", "dog", 0.0, 0.0),
    ],
)
def test_pairs(prediction: str, reference: str, em: float, overlap: float) -> None:
    assert exact_match(prediction, reference) == em
    assert f1(prediction, reference) == pytest.approx(overlap)


def test_best_reference_counts_for_each_measure() -> None:
    assert score_answer("black cat", ["dog", "the black cat", "black"]) == AnswerScore(1.0, 1.0)


def test_no_references_means_that_the_empty_answer_is_right() -> None:
    assert score_answer("", []) == AnswerScore(1.0, 1.0)
    assert score_answer("cat", []) == AnswerScore(0.0, 0.0)
    # References of articles alone are dropped, as in the script.
    assert score_answer("", ["the"]) == AnswerScore(1.0, 1.0)
    assert score_answer("", ["the", "cat"]) == AnswerScore(0.0, 0.0)


def test_marks_around_the_words_of_an_answer_do_not_make_it_wrong() -> None:
    quote = "If it is wrong, please [submit an issue](https://host.example/new)."
    assert is_right(quote, ["submit an issue"])
    assert is_right("mail [ann@host.example](mailto:ann@host.example)", ["ann@host.example"])
    assert not is_right(quote, ["submit a patch"])
    assert not is_right("the tissue is torn and thrown away, as is usual", ["issue"])
    assert not is_right(quote, [""])


@each_row(
    ("quote", "reference", "right"),
    [
        ("It is 3.5 metres long.", "3.5", True),
        ("It is 3.5 metres long.", "5", False),
        ("At 14:30 the gates open.", "30", False),
        ("They paid 1,200 pounds.", "200", False),
        ("They paid 1,200 pounds.", "1200", True),
        ("They came in 1901, 1902 and 1903.", "1902", True),
    ],
)
def test_a_part_of_a_number_is_no_answer(quote: str, reference: str, right: bool) -> None:
    assert is_right(quote, [reference]) is right
