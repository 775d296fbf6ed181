"""Questions with evidence from a pair of files to batches over windows of chunks."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from drt_engine.config.model import ModelConfig
from drt_engine.errors import ConfigError
from drt_lab.config.train import QuestionsConfig, TrainConfig
from drt_lab.train.answering.batch import QuestionBatch, chunk_texts, token_span
from drt_lab.train.tasks.base import TaskSetup
from drt_lab.train.tasks.questions import QuestionsTask
from tests.engine.model.factories import small_like
from tests.fakes import byte_tokenizer
from tests.lab.train.corpora import ARTICLE, QUESTIONS, SHORT, write_questions
from tests.tables import each_row

TOKENIZER = byte_tokenizer()
CONFIG: ModelConfig = small_like(chunk=32)


def make_task(qa: Path, docs: Path, model: ModelConfig = CONFIG, **changes: Any) -> QuestionsTask:
    options = {"share": 1.0, "questions": 4, "window": 3, "pool": 8, **changes}
    config = TrainConfig(questions=QuestionsConfig(qa=(qa,), docs=(docs,), **options))
    return QuestionsTask(TaskSetup(config, model, TOKENIZER))


def task(folder: Path, **changes: Any) -> QuestionsTask:
    return make_task(*write_questions(folder), **changes)


def batches(questions: QuestionsTask, count: int = 20) -> list[QuestionBatch]:
    return [questions.draw(random.Random(seed)) for seed in range(count)]


def text_of(batch: QuestionBatch, first: int, last: int) -> str:
    return TOKENIZER.decode(batch.ids.view(-1)[first : last + 1].tolist())


def test_spans_of_a_batch_are_the_evidence(tmp_path: Path) -> None:
    seen = set()
    for batch in batches(task(tmp_path)):
        for question, spans, kind in zip(
            batch.questions, batch.spans, batch.answerable, strict=True
        ):
            known = next(
                q for q in QUESTIONS if q["question"].startswith(TOKENIZER.decode(question))
            )
            kept = [s for s in spans.tolist() if s[0] >= 0]
            assert bool(kept) == (kind != 0)
            for first, last in kept:
                # Of evidence that runs over the end of its window only the start is taught.
                found = text_of(batch, first, first if last < 0 else last)
                assert any(
                    a == found or (last < 0 and a.startswith(found)) for a in known["answers"]
                )
            seen.add(known["question"])
    assert seen == {q["question"] for q in QUESTIONS}


def test_gold_chunks_hold_the_evidence(tmp_path: Path) -> None:
    for batch in batches(task(tmp_path)):
        size = batch.ids.shape[1]
        for gold, spans in zip(batch.gold, batch.spans, strict=True):
            kept = [(a // size, max(a, b) // size) for a, b in spans.tolist() if a >= 0]
            known = {chunk for first, last in kept for chunk in range(first, last + 1)}
            assert set(gold.nonzero().flatten().tolist()) == known


def test_windows_are_consecutive_chunks_of_one_document(tmp_path: Path) -> None:
    whole = torch.tensor(TOKENIZER.encode(ARTICLE).ids)
    for batch in batches(task(tmp_path)):
        assert sum(n for _, n in batch.windows) == len(batch.ids)
        for number, (at, count) in enumerate(batch.windows):
            rows = slice(at, at + count)
            assert (batch.window_of[rows] == number).all()
            tokens = batch.ids[rows][batch.valid[rows]]
            starts = range(0, len(whole), CONFIG.chunk)
            inside = any(torch.equal(tokens, whole[i : i + len(tokens)]) for i in starts)
            assert inside or TOKENIZER.decode(tokens.tolist()) == SHORT


def test_lexical_scores_are_shares(tmp_path: Path) -> None:
    for batch in batches(task(tmp_path)):
        assert batch.lexical.shape == batch.gold.shape
        assert batch.lexical.min() >= 0
        assert set(batch.lexical.amax(1).tolist()) <= {0.0, 1.0}


def test_within_its_own_window_a_question_retrieves_and_finds_words(tmp_path: Path) -> None:
    anywhere, within = task(tmp_path), task(tmp_path, within=True)
    others = 0
    for one, two in zip(batches(anywhere), batches(within), strict=True):
        assert one.allowed is None and two.allowed is not None
        for allowed, gold, lexical in zip(two.allowed, two.gold, two.lexical, strict=True):
            window = two.window_of[allowed].unique()
            assert len(window) == 1
            assert torch.equal(allowed, two.window_of == window)
            assert not (gold & ~allowed).any() and not lexical[~allowed].any()
            others += int((~allowed).sum())
        # A question on the first window scores its chunks as it does among all windows, relatively.
        own = two.lexical[two.allowed].bool()
        assert torch.equal(own, one.lexical[two.allowed].bool())
    assert others


def test_no_evidence_is_hidden_where_nothing_else_is_left(tmp_path: Path) -> None:
    made = task(tmp_path, within=True, hidden=1.0, window=1)
    for batch in batches(made):
        assert batch.allowed is not None and batch.allowed.any(dim=1).all()
        short = [n for n, q in enumerate(batch.questions) if "short" in TOKENIZER.decode(q)]
        assert all(batch.gold[n].any() for n in short)


def test_at_most_so_many_questions_of_a_batch_are_on_the_same_document(tmp_path: Path) -> None:
    for batch in batches(task(tmp_path, of_each=1, pool=30)):
        assert len(batch.questions) == len(batch.windows) == 4


def test_questions_come_from_several_files(tmp_path: Path) -> None:
    qa, docs = write_questions(tmp_path)
    lines = qa.read_text().splitlines(keepends=True)
    parts = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for part, rows in zip(parts, (lines[:2], lines[2:]), strict=True):
        part.write_text("".join(rows))
    config = TrainConfig(questions=QuestionsConfig(1.0, qa=tuple(parts), docs=(docs, docs)))
    several = QuestionsTask(TaskSetup(config, CONFIG, TOKENIZER)).documents
    one = make_task(qa, docs).documents
    assert [d.items for d in several] == [d.items for d in one]


def test_a_question_and_its_answer_fit_one_chunk(tmp_path: Path) -> None:
    for batch in batches(task(tmp_path)):
        for question, answer in zip(batch.questions, batch.answers, strict=True):
            assert 1 <= len(question) <= CONFIG.chunk - 2
            assert len(question) + 1 + len(answer) < CONFIG.chunk


def test_a_batch_depends_only_on_its_seed(tmp_path: Path) -> None:
    questions = task(tmp_path)
    first, second = (questions.draw(random.Random("7/3")) for _ in range(2))
    assert first.questions == second.questions
    assert torch.equal(first.ids, second.ids) and torch.equal(first.spans, second.spans)


def test_sources_are_weighted(tmp_path: Path) -> None:
    only = task(tmp_path, weights={"short": 0.0})
    texts = {TOKENIZER.decode(q) for b in batches(only, 30) for q in b.questions}
    assert not any("short" in t for t in texts)


@pytest.mark.parametrize("kept", ["none", "unknown document"])
def test_questions_without_a_document_or_evidence_are_left_out(tmp_path: Path, kept: str) -> None:
    qa, docs = write_questions(tmp_path)
    rows = [json.loads(line) for line in qa.read_text().splitlines()][:2]
    rows[1] |= {"evidence": []} if kept == "none" else {"doc_id": "lost"}
    qa.write_text("".join(json.dumps(r) + "\n" for r in rows))
    questions = make_task(qa, docs)
    assert [len(d.items) for d in questions.documents] == [1]


def test_token_spans_touch_all_characters() -> None:
    encoding = byte_tokenizer([("t", "h"), ("th", "e")]).encode("the theé log")
    assert token_span(encoding, 0, 3) == (0, 0)
    assert token_span(encoding, 1, 5) == (0, 2)
    assert token_span(encoding, 7, 8) == (3, 4)  # both bytes of é
    assert token_span(encoding, 3, 3) is None
    assert token_span(encoding, 90, 95) is None


def test_chunk_texts_partition_the_text() -> None:
    text = "  the log é of days "
    for size in (1, 3, 7, 100):
        assert "".join(chunk_texts(TOKENIZER.encode(text), text, size)) == text


def test_a_neighbour_of_a_chunk_with_the_words_gets_a_part_of_its_share(tmp_path: Path) -> None:
    with_part = task(tmp_path)
    without = task(tmp_path, model=small_like(chunk=32, lexical_neighbours=0.0))
    moved = 0
    for one, two in zip(batches(with_part), batches(without), strict=True):
        for at, count in one.windows:
            own = two.lexical[:, at : at + count]
            wanted = own.clone()
            for chunk in range(count):
                near = [own[:, c] for c in (chunk - 1, chunk + 1) if 0 <= c < count]
                if near:
                    wanted[:, chunk] += 0.3 * torch.stack(near).amax(dim=0)
            torch.testing.assert_close(one.lexical[:, at : at + count], wanted)
            moved += int((wanted != own).sum())
    assert moved


def test_questions_that_only_retrieve_come_after_the_others(tmp_path: Path) -> None:
    made = task(tmp_path, questions=1, pool=3, more=2)
    seen = 0
    for seed in range(10):
        batch = made.draw(random.Random(seed))
        assert batch.readers == 1
        rest = batch.rows(1, len(batch.questions))
        assert len(rest.questions) <= 2
        assert rest.gold.any(dim=1).all()
        assert batch.questions[0] not in rest.questions
        seen += len(rest.questions)
    assert seen


@each_row(
    ("change", "message"),
    [
        ({"evidence": None}, "the field 'evidence' is null, expected a list"),
        ({"evidence": [[3, 1]]}, "the field 'evidence' holds the list .*start before end"),
        ({"evidence": ["a"]}, "the field 'evidence' holds a string"),
        ({"answers": "yes"}, "the field 'answers' is a string, expected a list"),
        ({"doc_id": 3}, "the field 'doc_id' holds the number 3, expected a string"),
        ({"kind": None}, "the field 'kind' holds null"),
        ({"kind": "odd"}, "the kind is 'odd', expected one of"),
        ({"answers": []}, "the list 'answers' is empty"),
    ],
)
def test_a_question_that_is_none_is_named_by_its_line(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    qa, docs = write_questions(tmp_path)
    lines = qa.read_text().splitlines()
    lines[2] = json.dumps({**json.loads(lines[2]), **change})
    qa.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=rf"qa\.jsonl, line 3: {message}"):
        make_task(qa, docs)


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    qa, docs = write_questions(tmp_path)
    docs.write_text(docs.read_text() + '{"doc_id": \n')
    with pytest.raises(ConfigError, match=r"docs\.jsonl, line 4: is not JSON"):
        make_task(qa, docs)
