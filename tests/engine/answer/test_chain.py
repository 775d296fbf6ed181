"""Questions about somebody whom they describe: who that is, and the question with the name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drt_engine.answer.chain import joined, link_of, name_in
from drt_engine.answer.result import Draft
from drt_engine.results import Citation

TEXTS = [
    "For years Ida Pemton has been the keeper of the Dunmore mill.",
    "The board of the bank meets in May.",
]


def place(quote: str, sentence: str = "") -> Citation:
    return Citation(
        "d", "title", "d.txt", 0, len(quote), quote, None, None, probability=1.0, context=sentence
    )


def draft(text: str, *, found: bool = True, probability: float = 0.9, sentence: str = "") -> Draft:
    citations = (place(text or "near", sentence),)
    return Draft(text, found, probability, citations, quote_probability=probability)


@pytest.mark.parametrize(
    ("question", "inner", "with_name"),
    [
        (
            "What is the code of the keeper of the Dunmore mill?",
            "Who is the keeper of the Dunmore mill?",
            "What is the code of Ida Pemton?",
        ),
        (
            "Where are the keys of the keeper of the Dunmore mill kept?",
            "Who is the keeper of the Dunmore mill?",
            "Where are the keys of Ida Pemton kept?",
        ),
        (
            "When was the keeper of the dunmore  mill born",
            "Who is the keeper of the dunmore  mill?",
            "When was Ida Pemton born?",
        ),
        (
            "Who is the patroness of the cousin who inherits?",
            "Who is the cousin who inherits?",
            "Who is the patroness of Ida Pemton?",
        ),
    ],
)
def test_who_is_described_is_asked_first(question: str, inner: str, with_name: str) -> None:
    link = link_of(question, TEXTS, None)
    assert link is not None
    assert link.question == inner
    assert link.with_name("Ida Pemton") == with_name


@pytest.mark.parametrize(
    "question",
    [
        "Who is the keeper of the Dunmore mill?",  # nothing else is asked
        "What is the code of Ida Pemton?",
        "What is the code of the keeper of the Ashford mill?",  # not in the passages
        "",
        "the",
        "the keeper of",
        "the code of " * 5_000 + "the Dunmore mill",  # longer than anybody describes somebody
    ],
)
def test_other_questions_describe_nobody(question: str) -> None:
    assert link_of(question, TEXTS, None) is None


def test_what_says_who_it_is_needs_no_second_question() -> None:
    question = "What is the code of the keeper of the Dunmore mill?"
    assert link_of(question, TEXTS, "The code of the keeper of the Dunmore mill is 7.") is None
    # The sentence that only says who it is does not answer, and neither does one about another.
    assert link_of(question, TEXTS, TEXTS[0]) is not None
    assert link_of(question, TEXTS, "The code of Otto Fenrick is 9.") is not None
    # A clause is not looked for where something was found.
    clause = "Who is the patroness of the cousin who inherits?"
    assert link_of(clause, TEXTS, "Lady Catherine is his patroness.") is None


def test_what_a_border_cuts_may_stand_in_the_sentence() -> None:
    question = "What is the code of the keeper of the Ashford mill?"
    assert link_of(question, TEXTS, "Ada Low keeps the Ashford mill.") is not None


@pytest.mark.parametrize(
    ("text", "found", "name"),
    [
        ("Ida Pemton", True, "Ida Pemton"),
        ("Ludwig van der Rohe.", True, "Ludwig van der Rohe"),
        ("Fitzwilliam, Earl of Derby", True, "Fitzwilliam, Earl of Derby"),
        ("Ida Pemton", False, None),
        ("the keeper", True, None),
        ("", True, None),
        ("Dunmore", True, None),  # of the question
        ("DV-89636", True, None),
        ("For Years Ida Pemton Has Been The Keeper", True, None),
    ],
)
def test_only_a_name_is_put_into_the_question(text: str, found: bool, name: str | None) -> None:
    inner = draft(text, found=found)
    assert name_in(inner, "What is the code of the keeper of the Dunmore mill?") == name


def test_the_answer_is_about_that_name() -> None:
    first, inner = draft("9"), draft("Ida Pemton", probability=0.7)
    outer = draft("7", sentence="The code of Ida\nPemton is 7.")
    question = "What is the code of the keeper of the Dunmore mill?"
    answer = joined(question, first, inner, outer, name="Ida Pemton")
    assert answer.text == "7" and answer.found
    assert [citation.quote for citation in answer.citations] == ["7", "Ida Pemton"]
    assert answer.quote_probability == answer.confidence == 0.7
    other = draft("7", sentence="Otto Fenrick's code is 7.")
    nothing = draft("", found=False)
    # What the question says itself is no answer: the name was.
    echo = draft("the Dunmore  mill", sentence="The keeper of the Dunmore mill is Ida Pemton.")
    said = "The keeper of the Dunmore mill is Ida Pemton."
    whole = draft(said, sentence=said)  # shown for the words of the question in it
    whole = replace(whole, citations=(replace(place(said, said), span_start=0, span_end=30),))
    assert whole.citations[0].span == "The keeper of the Dunmore mill"
    for rejected in (other, nothing, echo, whole):
        assert joined(question, first, inner, rejected, name="Ida Pemton") is first
