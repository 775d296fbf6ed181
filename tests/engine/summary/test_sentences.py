"""Which sentences a summary may quote, how they are scored, and what a table is about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drt_engine.summary.candidates import Candidate
from drt_engine.summary.options import SummaryOptions
from drt_engine.summary.selection import pick_sentences
from drt_engine.summary.sentences.features import FEATURES, described_sentences
from drt_engine.summary.sentences.prose import PROSE, PlacedSentence
from drt_engine.summary.sentences.tables import describe_table
from drt_engine.summary.sentences.weights import WEIGHTS, WORD_WEIGHTS, sentence_score
from drt_engine.summary.sentences.word_worth import WORD_FEATURES, word_worths, worth_features
from drt_engine.summary.sentences.wording import (
    is_code,
    is_dangling,
    is_notice,
    is_whole,
    item_mark_length,
    opening_mark_length,
    refers_back,
)
from drt_engine.summary.summarize import summarize
from tests.model_folder import library, read_text, runtime, text_of
from tests.tables import each_row

GUIDE = """---
title: Bees
date: 2021-03-11
---

# Keeping bees

This guide tells new keepers how to look after a hive through its first year. It needs no tools
that a farm does not have.

## Contents

1. Spring work in the garden .......... 3

## Spring

Open the hive on the first warm day and look for the queen. However, a cold wind chills the brood.

- 2 frames of honey
- Feed the colony with sugar water until the willow is in bloom.

| month | work |
| ----- | ---- |
| April | feeding the bees on every warm day of the month |

```python
hive = Hive(frames=10)  # The hive has ten frames of wax and honey.
```

> Somebody else once wrote that bees like the smell of mint.

## License

Permission is hereby granted to use this guide without any warranty of any kind.
"""


def test_a_summary_has_prose_only(tmp_path: Path) -> None:
    with library(tmp_path / "library") as store:
        row = read_text(store, tmp_path, name="bees.md", text=GUIDE)
        summary = summarize(runtime(), store, row.id, SummaryOptions(length="long"))
        quotes = {" ".join(sentence.quote.split()) for sentence in summary.sentences}
        assert quotes == {
            "This guide tells new keepers how to look after a hive through its first year.",
            "It needs no tools that a farm does not have.",
            "Open the hive on the first warm day and look for the queen.",
            "However, a cold wind chills the brood.",
            # without its bullet
            "Feed the colony with sugar water until the willow is in bloom.",
        }
        text = text_of(store, row)
        assert all(text[s.start : s.end] == s.quote for s in summary.sentences)
        short = summarize(runtime(), store, row.id, SummaryOptions(words=16))
        assert short.text.startswith("This guide tells")


def test_a_licence_alone_is_summarised_by_its_text(tmp_path: Path) -> None:
    text = "This software is in the public domain. Anyone is free to copy it for any purpose."
    with library(tmp_path / "library") as store:
        row = read_text(store, tmp_path, name="LICENSE", text=text)
        assert summarize(runtime(), store, row.id, SummaryOptions(words=30)).text == text


@pytest.mark.thorough
def test_scraps_are_summarised_without_headings_and_fields(tmp_path: Path) -> None:
    mail = "From: Ada <ada@a.example>\nTo: Tom <tom@b.example>\nSubject: Bees\n\nHi,\nBees sleep.\n"
    names = "# Keepers of the hives\n\n## First keepers\n\n- Ann Lee\n- Tom Day\n"
    with library(tmp_path / "library") as store:
        for name, text, expected in (
            ("bees.eml", mail, "Hi, Bees sleep."),
            ("keepers.md", names, "Ann Lee Tom Day"),
        ):
            row = read_text(store, tmp_path, name=name, text=text)
            assert summarize(runtime(), store, row.id, SummaryOptions(words=40)).text == expected


def test_a_table_is_told_by_its_columns(tmp_path: Path) -> None:
    rows = "".join(f"Line {n},{n * 7},Oslo\n" for n in range(12))
    with library(tmp_path / "library") as store:
        row = read_text(store, tmp_path, name="lines.csv", text=f"name,seats,seat of firm\n{rows}")
        summary = summarize(runtime(), store, row.id, SummaryOptions(words=60))
        assert summary.mode == "table"
        assert summary.text == "A table of 12 rows with 3 columns: name, seats, seat of firm."
        assert "Line 0" in summary.sentences[0].quote
        short = summarize(runtime(), store, row.id, SummaryOptions(words=10))
        assert short.text == "A table of 12 rows with 3 columns: name, seats, ..."
        # No room for a column: the rows themselves are cut.
        assert summarize(runtime(), store, row.id, SummaryOptions(words=8)).mode == "extractive"
    assert describe_table("Prose has no rows. It has sentences.", 60) is None


@each_row(
    ("sentence", "dangling"),
    [
        ("However, this is slow.", True),
        ("This is slow.", True),
        ("This guide is short.", False),
        ("This proposed standard is short.", False),
        ("They open at nine.", True),
        ("“They open at nine,” she said.", True),
        ("It is known that bees sleep.", False),
        ("It opens at nine.", True),
        ("In this case nobody pays.", True),
        ("In this paper we count bees.", False),
        ("For example, bees sleep.", True),
        ("Thereafter bees sleep.", False),
        ("Secondly, bees sleep.", True),
        ("Bees sleep.", False),
    ],
)
def test_what_needs_the_sentence_before_it(sentence: str, dangling: bool) -> None:
    assert is_dangling(sentence) == dangling


@each_row(
    ("sentence", "refers"),
    [
        ("In that system, bees sleep.", True),
        ("To solve these problems, bees sleep.", True),
        ("If you make such a hive, bees sleep.", True),
        ("All hives of this guide are small.", False),
        ("The keeper knows that bees sleep.", False),
        ("Bees are made in such a way that they sleep.", False),
    ],
)
def test_what_names_something_before_it(sentence: str, refers: bool) -> None:
    assert refers_back(sentence) == refers


def test_fragments_code_and_notices() -> None:
    assert all(map(is_whole, ("Bees sleep (at night).", "_Bees_ sleep.[1]", "蜜蜂。")))
    assert not any(map(is_whole, ("bees sleep.", "Bees sleep", "Bees sleep:", "...", "")))
    others = ("BLACK CAT AND THE SABLE.", "Subject: Bees again?", "[Footnote 2: Bees sleep.]")
    assert not any(map(is_whole, (*others, "The offset is computed as follows.")))
    assert is_code("for (i = 0; i < n; i++) { sum(i); }") and is_code("a | b")
    assert not is_code("Bees (of every kind) sleep at night; wasps do not.")
    assert is_notice("Copyright (c) 2020 Ann Lee.") and is_notice("All rights reserved.")
    assert is_notice("You can redistribute it under the terms of the GNU licence.")
    assert is_notice("Licensed under the terms of the hive.") and is_notice("ISBN 0-14-3")
    assert is_notice("The software is provided AS IS', bees included.")
    assert not is_notice("Tenants need the permission of the owner.")


def test_marks_before_a_sentence() -> None:
    assert opening_mark_length('1.0.1. "Hive" means a box.') == 7
    marks = ("7.1 ", '"""', "/* ", "// ")
    assert [opening_mark_length(f"{mark}Bees sleep.") for mark in marks] == [4, 3, 3, 3]
    assert item_mark_length("- [ ] Bees sleep.") == 6 and item_mark_length("(iv) Bees sleep.") == 5
    for text in ("7.1 million bees sleep.", "2.4 GHz radios wake bees.", "Bees sleep."):
        assert opening_mark_length(text) == item_mark_length(text) == 0


def placed(text: str, start: int, *, previous: int | None = None) -> PlacedSentence:
    return PlacedSentence(start, start + len(text), text, "Overview", PROSE, previous=previous)


def test_every_feature_has_a_weight() -> None:
    assert WEIGHTS.keys() == set(FEATURES)
    sentences = [placed('"Who are you?" we ask 3 bees, in short (see `a`).', 0), placed("Go.", 60)]
    described = described_sentences(sentences, "Bees")
    assert {name for entry in described for name in entry.features} <= set(FEATURES)
    assert all(-1 <= value <= 3 for entry in described for value in entry.features.values())
    assert sentence_score(described[0].features) != sentence_score(described[1].features)


def test_words_of_many_sentences_and_headings_are_worth_most() -> None:
    assert WORD_WEIGHTS.keys() == set(WORD_FEATURES)
    texts = ("Honey is made by bees.", "Bees sleep at night.", "Wasps of the roof hunt bees.")
    sentences = [placed(text, 50 * number) for number, text in enumerate(texts)]
    worth = [entry.features["worth"] for entry in described_sentences(sentences, "")]
    assert worth[0] > worth[2] and worth[1] > worth[2]
    assert worth_features(["the"], {"bees": 1.0})["worth"] == 0
    size = len(WORD_FEATURES)
    worths = word_worths({"bees": [1.0] * size, "wasps": [0.0] * size}, WORD_WEIGHTS)
    assert worths == {"bees": pytest.approx(1), "wasps": pytest.approx(-1)}


def candidate(text: str, start: int, *, score: float, previous: int | None = None) -> Candidate:
    described = described_sentences([placed(text, start, previous=previous)], "")[0]
    return Candidate.of(described, score, retrieved=0.1)


def test_a_dangling_sentence_follows_its_own_or_is_left_out() -> None:
    first = candidate("The hive stands in the garden of the abbey.", 0, score=0.1)
    second = candidate("It holds nine frames of wax.", 50, score=0.9, previous=first.end)
    third = candidate("Wasps nest below the old roof.", 90, score=0.5, previous=second.end)
    assert pick_sentences([first, second, third], 6) == [third]
    assert pick_sentences([first, second, third], 15) == [first, third]
    assert pick_sentences([first, second, third], 21) == [first, second, third]
    # Items of a list do not fill what prose leaves.
    item = replace(third, is_item=True, score=0.05)
    assert pick_sentences([first, item], 20) == [first]
    # A text that has nothing else still has a summary.
    assert pick_sentences([second], 20) == [second]


def test_the_last_sentence_may_be_the_one_that_fills_the_length() -> None:
    first = candidate("The hive stands in the garden of the abbey.", 0, score=1.0)
    short = candidate("Wasps hunt here.", 50, score=0.45)
    long = candidate("Bees make honey from the nectar of white clover.", 90, score=0.4)
    assert pick_sentences([first, short, long], 18) == [first, long]
    assert pick_sentences([first, short, long], 13) == [first, short]


def test_repetition_costs() -> None:
    first = candidate("Bees make honey from the nectar of clover.", 0, score=1.0)
    again = candidate("Bees make honey from nectar of white clover.", 50, score=0.9)
    other = candidate("Wasps hunt caterpillars for their young.", 100, score=0.5)
    assert pick_sentences([first, again, other], 14) == [first, other]
