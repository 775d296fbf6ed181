"""Names and numbers of a question that a document never has."""

from __future__ import annotations

import time

import pytest

from drt_engine.answer.absent_words import lacks_word, names_in

TEXT = (
    "A heap is a tree. In 1,995 and '87, 2000 were sold. Café Müller was founded in India."
    " Fibonnaci wrote of rabbits. So says the WHO, not the U.S.A."
)


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("How does it compare with a Dijkstra heap?", ["Dijkstra"]),
        ("Dijkstra: how fast is it?", []),  # what begins a question is no name for sure
        ("What did Ann say in July? Why did Tom leave on Monday?", []),  # short, or dates
        ("Is the Indian or the French one older?", []),
        ("Who is Anne-Marie O'Brien?", ["Anne", "Marie", "Brien"]),
        ("The Main Gate Syndrome: A New Format", []),
        ("what is it", []),
        ("What does the UNESCO do?", []),  # which may be spelt out
        ("", []),
    ],
)
def test_names_of_a_question(question: str, names: list[str]) -> None:
    assert names_in(question) == names


@pytest.mark.parametrize(
    ("question", "lacks"),
    [
        ("How does it compare with a Dijkstra heap?", True),
        ("What did Fibonacci write of?", False),  # the first letters are enough
        ("Who founded the Cafe Muller?", False),
        ("What did Filbonacci write of?", True),
        ("What did Fibunaci write of?", False),  # misspelt
        ("Who founded the Cafés in Kenya?", True),
        ("What is a heap?", False),
        ("What does the World Health Organization say?", False),
        ("Does World Health Organization say so?", False),
        ("What do the United States of America say?", False),
        ("What does the World Trade Organization say?", True),
        ("How many were sold in 1995?", False),
        ("How many were sold in 1987?", False),  # as '87
        ("How many were sold in 1996?", True),
        ("Is port 8443 open?", True),
        ("Is port 2000 open?", False),
        ("Did it cost $500 or 30% less in 12 years?", False),  # amounts, which are estimates
    ],
)
def test_a_text_without_a_name_or_number(question: str, lacks: bool) -> None:
    assert lacks_word(question, TEXT) is lacks


@pytest.mark.thorough
def test_long_texts_and_questions_take_no_time() -> None:
    started = time.monotonic()
    assert not lacks_word("What of Dijkstra?", "x" * 2_000_001)  # which is not searched
    assert lacks_word("What of Dijkstra?", "é" * 500_000)
    assert lacks_word("What of 12345?", "1,234," * 200_000)
    for filler in ("A'", "A-", "Ab ", ". ", "a-a'", "123 ", "1,", "Ab Ab of "):
        lacks_word("x " + filler * 20_000, TEXT)
    assert time.monotonic() - started < 5
