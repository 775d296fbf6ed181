"""Names of a question that a document never has."""

from __future__ import annotations

import time

import pytest

from drt_engine.answer.absent_names import lacks_name, names_in

TEXT = "A heap is a tree. Café Müller was founded in India. Fibonnaci wrote of rabbits."


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
        ("Who founded the Cafés in Kenya?", True),
        ("What is a heap?", False),
    ],
)
def test_a_text_without_a_name(question: str, lacks: bool) -> None:
    assert lacks_name(question, TEXT) is lacks


def test_long_texts_and_questions_take_no_time() -> None:
    started = time.monotonic()
    assert not lacks_name("What of Dijkstra?", "x" * 2_000_001)  # which is not searched
    assert lacks_name("What of Dijkstra?", "é" * 500_000)
    for filler in ("A'", "A-", "Ab ", ". ", "a-a'"):
        lacks_name("x " + filler * 20_000, TEXT)
    assert time.monotonic() - started < 5
