"""Questions of two parts: told from others, and one answer from those of the parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drt_engine.answer.parts import Part, combined, question_parts
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
    assert draft.origin == "parts"
    looked_up = replace(found("1994", 9, 0.7), origin="table", quote_probability=None)
    mixed = combined(PARTS, [found("Ann", 0, 0.9), looked_up])
    assert mixed is not None and mixed.quote_probability is None
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
