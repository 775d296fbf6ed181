"""Questions of two parts: told from others, and one answer from those of the parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drt_engine.answer.parts import (
    Part,
    combined,
    missing_side,
    question_parts,
    with_side,
    without_a_side,
)
from drt_engine.answer.result import Draft
from drt_engine.results import Citation


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "Who wrote the report, and when was it published?",
            ["Who wrote the report?", "when was it published? (wrote report)"],
        ),
        (
            "Into what is it turned, and which tool is needed?",
            ["Into what is it turned?", "which tool is needed?"],
        ),
        ("When and where was Ann born?", ["When was Ann born?", "Where was Ann born?"]),
        (
            "Who pays the fee? What is included?",
            ["Who pays the fee?", "What is included? (pays fee)"],
        ),
        (
            "Who founded the society and in what year?",
            ["Who founded the society?", "in what year? (founded society)"],
        ),
        (
            "What is the fee and which members pay nothing?",
            ["What is the fee?", "which members pay nothing?"],
        ),
        ("What happens when it fails and when is it tried again?", []),
        ("Who pays and who signs what is left?", []),
        ("What are the terms and conditions?", []),
        ("Does it say who pays and who signs?", []),
    ],
)
def test_the_parts_of_a_question(question: str, parts: list[str]) -> None:
    assert [part.in_context for part in question_parts(question)] == parts


def cited(quote: str, start: int) -> Citation:
    return Citation(
        "d", "Report", "report.txt", start, start + len(quote), quote, None, None, probability=0.5
    )


def found(quote: str, start: int, probability: float) -> Draft:
    return Draft(quote, True, 0.9, (cited(quote, start),), True, probability)


PARTS = (Part("Who?", "Who?"), Part("When?", "When?"))
ABSENT = Draft("", False, 0.1, (cited("closest", 40),))
LIKELY = Draft("", False, 0.5, (cited("probably", 50),), likely=True)


def test_both_parts_are_one_answer_as_sure_as_the_less_sure_one() -> None:
    draft = combined(PARTS, [found("Ann", 0, 0.9), found("1994", 9, 0.7)])
    assert draft is not None and (draft.text, draft.quote_probability) == ("Ann; 1994", 0.7)
    assert [citation.quote for citation in draft.citations] == ["Ann", "1994"]
    same = combined(PARTS, [found("Ann in 1994", 0, 0.9), found("Ann in 1994", 0, 0.8)])
    assert same is not None and same.text == "Ann in 1994" and len(same.citations) == 1


def test_what_is_left_open_is_said_and_a_likely_place_marked() -> None:
    draft = combined(PARTS, [ABSENT, found("1994", 9, 0.7)])
    assert draft is not None and draft.text == "1994" and draft.unanswered == ("Who?",)
    assert len(draft.citations) == 1
    draft = combined(PARTS, [LIKELY, found("1994", 9, 0.7)])
    assert draft is not None and draft.unanswered == ()
    marks = [(citation.quote, citation.likely) for citation in draft.citations]
    assert marks == [("1994", False), ("probably", True)]
    assert combined(PARTS, [LIKELY, ABSENT]) is None


def test_a_likely_place_in_another_document_answers_no_part_of_the_question() -> None:
    elsewhere = replace(LIKELY, citations=(replace(LIKELY.citations[0], document="e"),))
    draft = combined(PARTS, [elsewhere, found("1994", 9, 0.7)])
    assert draft is not None and draft.unanswered == ("Who?",)
    assert [citation.quote for citation in draft.citations] == ["1994"]


QUESTION = "What is the difference between the long coat and the short coat?"


@pytest.mark.parametrize(
    ("question", "quotes", "side"),
    [
        (QUESTION, ["The long coat is warm."], "What is the short coat?"),
        (QUESTION, ["A short one is cheap."], "What is the long coat?"),
        (QUESTION, ["The long coat is warm, the short one cheap."], None),
        (QUESTION, ["Coats are sold here."], None),
        ("How do /lib and /usr/lib differ?", ["It is /usr/lib<qual>, or /usr/lib."], None),
        ("What is the difference between /lib and /usr/lib?", ["See /usr/lib."], "What is /lib?"),
        ("Compare --all and --all-files", ["With --all-files it does."], "What is --all?"),
        ("How do ferries differ from barges?", ["Ferries sail."], "What is barges?"),
        ("Which coat is warm and short?", ["The long coat"], None),
    ],
)
def test_the_side_that_nothing_speaks_of(
    question: str, quotes: list[str], side: str | None
) -> None:
    part = missing_side(question, [cited(quote, 0) for quote in quotes])
    assert (part and part.question) == side


def test_the_other_side_of_a_comparison_is_quoted_beside_the_first() -> None:
    first = found("The long coat is warm.", 0, 0.9)
    both = with_side(QUESTION, first, found("The short coat is cheap.", 90, 0.9))
    assert both.text == "The long coat is warm.; The short coat is cheap."
    assert [citation.start for citation in both.citations] == [0, 90]
    assert with_side(QUESTION, first, found("Hats are sold.", 90, 0.9)) is first
    assert with_side(QUESTION, first, ABSENT) is first


def test_an_answer_to_a_comparison_speaks_of_both_sides() -> None:
    first = found("The long coat is warm.", 0, 0.9)
    draft = without_a_side(QUESTION, first)
    assert (draft.found, draft.likely, draft.text) == (False, True, "")
    assert draft.citations == first.citations
    both = found("The long coat is warm, the short one cheap.", 0, 0.9)
    assert without_a_side(QUESTION, both) is both
    assert without_a_side("Which coat is warm?", first) is first
