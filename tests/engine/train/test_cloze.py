"""Cloze questions from plain text: what is asked, where the evidence stands, what is cut."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_engine.train.cloze import ClozeSource, make_clozes
from tests.engine.model.factories import small_like
from tests.fakes import byte_tokenizer

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


@pytest.mark.parametrize("recurring", [0.0, 0.5, 1.0])
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


@pytest.mark.parametrize("text", ["", "Too short.", "# Only a heading\n\n" * 5])
def test_a_text_without_sentences_asks_nothing(text: str) -> None:
    assert make_clozes(text, random.Random(0), count=4, recurring=0.5) == (text, [])


def source(folder: Path) -> ClozeSource:
    path = folder / "corpus.jsonl"
    rows = [{"id": str(i), "title": "t", "text": TEXT * 3} for i in range(3)]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return ClozeSource([path], tokenizer=byte_tokenizer(), config=small_like(chunk=64))


def test_a_batch_reads_for_some_and_only_retrieves_for_others(tmp_path: Path) -> None:
    batch = source(tmp_path).batch(
        random.Random(1), questions=4, more=6, windows=2, window=12, recurring=0.5
    )
    assert batch.readers == 4 < len(batch.questions)
    assert batch.gold.any(dim=1).all()
    assert (batch.answerable == 1).all()
    tokens = batch.ids.view(-1)
    tokenizer = byte_tokenizer()
    for question, answer, spans in zip(
        batch.questions, batch.answers, batch.spans.tolist(), strict=True
    ):
        wanted = tokenizer.decode(answer).lower()
        for first, last in spans:
            if first >= 0 and last >= 0 and len(question) + len(answer) < 62:
                assert tokenizer.decode(tokens[first : last + 1].tolist()).lower() == wanted


def test_a_batch_depends_on_the_seed_alone(tmp_path: Path) -> None:
    made = source(tmp_path)
    options = {"questions": 2, "more": 2, "windows": 1, "window": 12, "recurring": 0.5}
    one, two = (made.batch(random.Random(5), **options) for _ in range(2))  # type: ignore[arg-type]
    assert torch.equal(one.ids, two.ids)
    assert one.questions == two.questions


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(ConfigError, match=r"cloze\.corpus holds no documents"):
        ClozeSource([tmp_path / "none.jsonl"], tokenizer=byte_tokenizer(), config=small_like())
