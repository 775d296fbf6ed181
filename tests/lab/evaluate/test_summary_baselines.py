"""Baselines return exact sentences within their budget."""

from __future__ import annotations

import time

import pytest

from drt_engine.text.sentences import split_sentences
from drt_lab.evaluate.metrics.summary_baselines import (
    SentenceIndex,
    joined,
    lead_summary,
    textrank_summary,
)
from tests.tables import each_row

_TEXT = """# Handbook

The north depot stores fuel for the winter. Its keeper checks the fuel every morning.

Bread is baked on Mondays. The keeper of the north depot writes the fuel log each morning.
Penguins sleep. In winter the fuel of the depot freezes unless the keeper heats it.
"""


@each_row("make", [lead_summary, textrank_summary])
@each_row("budget", [1, 10, 20, 1000])
def test_summaries_are_slices_in_order_within_the_budget(make: object, budget: int) -> None:
    assert callable(make)
    chosen = make(_TEXT, word_budget=budget)
    assert chosen and all(_TEXT[s.start : s.end] == s.text for s in chosen)
    assert chosen == sorted(chosen) and len(set(chosen)) == len(chosen)
    assert len(chosen) == 1 or len(joined(chosen).split()) <= budget
    assert not any(s.text.startswith("#") for s in chosen)


def test_lead_takes_the_first_sentences() -> None:
    chosen = lead_summary(_TEXT, word_budget=16)
    assert [s.text[:9] for s in chosen] == ["The north", "Its keepe"]


def test_textrank_takes_what_shares_most() -> None:
    chosen = joined(textrank_summary(_TEXT, word_budget=25))
    assert "keeper of the north depot" in chosen
    assert "Penguins" not in chosen and "Bread" not in chosen


def test_summaries_of_nothing_and_of_headings() -> None:
    for make in (lead_summary, textrank_summary):
        assert make("", word_budget=10) == []
        assert joined(make("# Only a heading", word_budget=10)) == "# Only a heading"


@pytest.mark.thorough
def test_textrank_of_a_long_text_stays_quick() -> None:
    text = "".join(
        f"Item {i % 37} is held by keeper {i % 11} of depot {i % 5}.\n" for i in range(2000)
    )
    started = time.process_time()
    assert textrank_summary(text, word_budget=100)
    # A similarity of every pair of 2,000 sentences would take far longer.
    assert time.process_time() - started < 5


def test_bm25_scores_by_hand() -> None:
    index = SentenceIndex(split_sentences("Fuel log. Fuel fuel depot keeper."))
    ranked = index.ranked("fuel", limit=5)
    # df 2 of 2: idf = ln(1 + 0.5 / 2.5); lengths 2 and 4, mean 3.
    idf = 0.1823215568
    expected = {
        "Fuel log.": idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 3)),
        "Fuel fuel depot keeper.": idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 3)),
    }
    assert {s.text: score for s, score in ranked} == pytest.approx(expected)
    assert [s.text for s, _ in ranked] == sorted(expected, key=lambda text: -expected[text])


def test_ties_go_to_the_first_sentence() -> None:
    sentences = split_sentences("Red fox. Red fox. Red fox.")
    assert SentenceIndex(sentences).ranked("fox")[0][0] == sentences[0]
