"""Terms of glossaries by their definitions, and none where several or other entries fit."""

from __future__ import annotations

import time

import pytest

from drt_engine.answer.lists.terms import asks_term, term_of

SHIPS = (
    ("Ketch", "a sailing vessel with two masts, of which the second is lower"),
    ("Sloop", "a sailing vessel with one mast"),
    ("Galley", "a vessel that is mainly rowed"),
    ("Bow wave", "water that the front of a ship pushes up"),
)
FORMS = {
    "colons": "".join(f"{term}: {text}\n" for term, text in SHIPS),
    "bold items": "".join(f"- **{term}**: {text}\n" for term, text in SHIPS),
    "dashes": "".join(f"{term} \u2013 {text}\n" for term, text in SHIPS),
    "table": "".join(f"| {term} | {text} |\n" for term, text in SHIPS),
    "below": "".join(f"{term}\n    {text}\n\n" for term, text in SHIPS),
    "apart": "Words\n\n" + "".join(f"{term}\n\n{text.capitalize()}.\n\n" for term, text in SHIPS),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the name for a vessel with two masts?", "Ketch"),
        ("What is a vessel with one mast called?", "Sloop"),
        ("What do you call a ship that is mainly rowed?", None),  # "ship" is in another one
        ("What do you call a vessel that is mainly rowed?", "Galley"),
        ("Which term means water that is pushed up by a ship?", "Bow wave"),
        ("What is the term for a sailing vessel?", None),  # two of them
        ("What is the name for a vessel with three masts?", None),
        ("What is the name for a vessel with no sails?", None),
        ("What is the name of the vessel with two masts?", None),
        ("What is a sloop called?", None),
        ("What is a vessel with two masts?", None),
    ],
)
def test_the_term_is_the_answer(form: str, question: str, expected: str | None) -> None:
    text = f"A glossary of ships.\n\n{FORMS[form]}\nThe end."
    span = term_of(question, text)
    assert (span and text[slice(*span)]) == expected


def test_two_lines_are_no_glossary() -> None:
    text = "Ketch: a vessel with two masts\nSloop: a vessel with one mast\n"
    assert term_of("What is the name for a vessel with two masts?", text) is None
    assert asks_term("What is the word for it all?") or not asks_term("Who keeps the bell?")
    assert not asks_term("What is the name of the keeper?")


def test_long_texts_take_no_time() -> None:
    question = "What is the name for a vessel with two masts?"
    for text in (
        "a: b\n" * 50_000,
        "a" * 300_000,
        "a\n\n" * 100_000,
        "- " * 100_000,
        "a | b" * 50_000,
    ):
        began = time.perf_counter()
        term_of(question, text)
        term_of("What is a " + "lamp " * 20_000 + "called?", "")
        assert time.perf_counter() - began < 5
