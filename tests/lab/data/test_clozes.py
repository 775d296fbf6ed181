"""Cloze questions from plain text: what is asked, where the evidence stands, what is cut."""

from __future__ import annotations

import random

from drt_lab.data.clozes import make_clozes
from tests.tables import each_row

TEXT = """# The lighthouse

The Harbour Board built the first tower at Skerry Point in 1842, after two ships were lost.
Its lamp burnt whale oil, and the keeper Josiah Penrose carried forty litres up the stairs.
In later years the Harbour Board sold the old tower to a company of wool merchants.
Josiah Penrose kept a diary, which the museum bought from his granddaughter in 1931.
Visitors may climb the stairs on Sundays, when a guide reads from the diary aloud.
The wool merchants never paid the second half of the price, and went to court over it.
"""


def clozes(seed: int, recurring: float) -> tuple[str, list[tuple[str, str, list[tuple[int, int]]]]]:
    text, made = make_clozes(TEXT, random.Random(seed), count=4, recurring=recurring)
    return text, [(c.question, c.answer, c.evidence) for c in made]


@each_row("recurring", [0.0, 0.5, 1.0])
def test_the_evidence_is_the_answer_wherever_it_stands(recurring: float) -> None:
    count = 0
    for seed in range(30):
        text, made = clozes(seed, recurring)
        for question, answer, evidence in made:
            assert question.endswith("?")
            assert evidence
            for start, end in evidence:
                assert text[start:end].lower() == answer.lower()
            count += 1
    assert count > 30


def test_a_recurring_question_leaves_the_text_and_its_span_stays() -> None:
    answers = set()
    for seed in range(30):
        text, [made] = make_clozes(TEXT, random.Random(seed), count=1, recurring=1.0)
        [cut] = [line for line in TEXT.splitlines() if line and line not in text]
        answers.add(made.answer)
        assert made.answer in cut
        assert made.answer not in made.question
        assert all(text[a:b] == made.answer for a, b in made.evidence)
    # Never a part of a name that stands in the text only as a whole; and the sentences around the
    # wool merchants share no other word.
    assert answers == {"Harbour Board", "Josiah Penrose"}


def test_an_echo_question_keeps_its_sentence_and_drops_words() -> None:
    shorter = 0
    for seed in range(30):
        text, made = clozes(seed, 0.0)
        assert text == TEXT
        for question, answer, [(start, end)] in made:
            line = next(x for x in TEXT.splitlines() if answer in x and TEXT.find(x) <= start < end)
            shorter += len(question.split()) < len(line.split()) - 3
    assert shorter > 20


def test_the_same_seed_asks_the_same() -> None:
    assert clozes(3, 0.5) == clozes(3, 0.5)
    assert any(clozes(seed, 0.5) != clozes(3, 0.5) for seed in range(4, 8))


@each_row("text", ["", "Too short.", "# Only a heading\n\n" * 5])
def test_a_text_without_sentences_asks_nothing(text: str) -> None:
    assert make_clozes(text, random.Random(0), count=4, recurring=0.5) == (text, [])
