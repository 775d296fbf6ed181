"""Question and passage pairs: targets are the evidence, negatives do not hold it."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from drt_engine.config.model import ANSWER_TYPES, ModelConfig, ReaderConfig
from drt_engine.errors import ConfigError
from drt_engine.ingest.temporary import library_of
from drt_engine.model.drt import DRT
from drt_engine.model.reader import PairLogits
from drt_engine.model.weights import load_model, save_model
from drt_engine.runtime import Runtime
from drt_engine.search.search import SearchRequest, search
from drt_lab.config.train import OptimConfig, PassagesConfig, RunConfig, StartConfig, TrainConfig
from drt_lab.train.answering.contexts import section_starts
from drt_lab.train.answering.passage_loss import passage_loss
from drt_lab.train.answering.passages import PassageBatch
from drt_lab.train.loop import Loop
from drt_lab.train.run import start
from drt_lab.train.tasks.base import TaskSetup
from drt_lab.train.tasks.passages import PassagesTask
from tests.engine.model.factories import fresh_model, small_like
from tests.fakes import byte_tokenizer
from tests.lab.train.corpora import QUESTIONS, write_questions
from tests.tables import each_row

TOKENIZER = byte_tokenizer()
READER = ReaderConfig(layers=2, heads=4, mlp=64, positions=256, margin=8, longest_question=40)
MODEL = small_like(
    chunk=16,
    vocab=TOKENIZER.vocab_size,
    reread=False,
    reread_relevance=False,
    reread_layers=0,
    reader=READER,
)
ANSWERS = {q["question"]: q["answers"] for q in QUESTIONS}


def config(folder: Path, **changes: Any) -> PassagesConfig:
    qa, docs = write_questions(folder)
    values: dict[str, Any] = {
        "share": 1.0,
        "qa": (qa,),
        "docs": (docs,),
        "questions": 4,
        "passages": (2,),
        "margins": (0, 8),
        "collection": 4,
        "hidden": 0.0,
        "by_end": 0.0,
        "keywords": 0.0,
    }
    return PassagesConfig(**{**values, **changes})


def task(settings: PassagesConfig, model: ModelConfig = MODEL) -> PassagesTask:
    return PassagesTask(TaskSetup(TrainConfig(passages=settings), model, TOKENIZER))


def batches(folder: Path, count: int = 12, **changes: Any) -> list[PassageBatch]:
    made = task(config(folder, **changes))
    return [made.draw(random.Random(seed)) for seed in range(count)]


def question_of(batch: PassageBatch, row: int) -> str:
    ids = batch.pairs.ids[row][~batch.pairs.passage[row] & (batch.pairs.segments[row] == 0)]
    return TOKENIZER.decode(ids[1:-1].tolist()).split(chr(102))[0]


def passage_of(batch: PassageBatch, row: int) -> str:
    return TOKENIZER.decode(batch.pairs.ids[row][batch.pairs.passage[row]].tolist())


def test_targets_are_the_evidence_and_negatives_do_not_hold_it(tmp_path: Path) -> None:
    seen = set()
    for batch in batches(tmp_path, margins=(16,)):
        for row in range(len(batch.question)):
            text = next(q for q in ANSWERS if question_of(batch, row).startswith(q))
            firsts, lasts = (t[row].nonzero()[:, 0].tolist() for t in (batch.starts, batch.ends))
            if firsts == lasts:  # a window that cuts the evidence
                continue
            for first, last in zip(firsts, lasts, strict=True):
                quote = TOKENIZER.decode(batch.pairs.ids[row, first : last + 1].tolist())
                assert quote in ANSWERS[text]
                seen.add(text)
            if any(answer in passage_of(batch, row) for answer in ANSWERS[text]):
                assert batch.starts[row].any() and batch.ends[row].any()
    assert seen == {question for question, answers in ANSWERS.items() if answers}


def test_every_question_has_a_passage_and_is_answered_unless_hidden(tmp_path: Path) -> None:
    unanswerable = {q["question"] for q in QUESTIONS if not q["answers"]}
    for batch in batches(tmp_path):
        assert set(batch.question.tolist()) == set(range(4))
        for number, answered in enumerate(batch.answered.tolist()):
            row = batch.question.tolist().index(number)
            text = next(q for q in ANSWERS if question_of(batch, row).startswith(q))
            if text in unanswerable:
                assert not answered
    for batch in batches(tmp_path, hidden=1.0, margins=(0,)):
        for row, number in enumerate(batch.question.tolist()):
            if "note" not in question_of(batch, row):  # whose document is one chunk
                assert not batch.answered[number]


def test_short_documents_are_searched_together(tmp_path: Path) -> None:
    apart, joined = (task(config(tmp_path, collection=size)) for size in (1, 100))
    assert len(apart.data.collections) == 2 and len(joined.data.collections) == 1
    texts = [
        " ".join(passage_of(b, r) for r in range(len(b.question)))
        for b in [joined.draw(random.Random(s)) for s in range(8)]
    ]
    assert any("short note" in text and "notice" in text for text in texts)


def test_longer_documents_are_searched_by_themselves(tmp_path: Path) -> None:
    data = task(config(tmp_path, collection=100, short=2)).data
    lengths = [len(document.chunks) for document in data.documents]
    joined = [[lengths[number] for number in c.documents] for c in data.collections]
    assert sorted(len(group) for group in joined) == [1, 1] and max(lengths) >= 2
    shorter = task(config(tmp_path, collection=100, short=max(lengths) + 1)).data
    assert [len(c.documents) for c in shorter.collections] == [2]


@pytest.mark.thorough
def test_ranks_are_what_asking_retrieves(tmp_path: Path) -> None:
    """Negatives and their log-probabilities are those of the search of the starting model."""
    folder = tmp_path / "model"
    save_model(fresh_model(MODEL), TOKENIZER, folder)
    path = tmp_path / "ranks.jsonl"
    settings = TrainConfig(
        start=StartConfig(model=folder), passages=config(tmp_path, ranks=path, collection=100)
    )
    setup = TaskSetup(settings, MODEL, TOKENIZER)
    data = PassagesTask(setup).data
    runtime = Runtime.load(folder)
    texts = ["".join(document.chunks) for document in data.documents]
    with library_of(runtime, texts, name="articles") as (store, rows):
        ids = [row.id for row in rows]
        for question in data.questions:
            hits = search(runtime, store, question.text, SearchRequest(top_k=1))
            best = question.ranked[0]
            assert ids[best.document] == hits[0].document
            log_probabilities = [ranked.log_probability for ranked in question.ranked]
            assert log_probabilities == sorted(log_probabilities, reverse=True)
            retrieved = torch.tensor(log_probabilities[: MODEL.retrieved])
            assert float(retrieved.exp().sum()) == pytest.approx(1, abs=0.01)
    whole = path.read_bytes()
    # An interruption cuts a line: the rest is searched again, and the file is as it was.
    path.write_bytes(whole[:-9])
    assert PassagesTask(setup).data.questions == data.questions
    assert path.read_bytes() == whole
    batch = PassagesTask(setup).draw(random.Random(1))
    assert batch.log_probability.shape == batch.question.shape and batch.log_probability.min() < 0
    # A question that is added is searched with its document's others, and none of other documents.
    added = {**QUESTIONS[0], "id": "added", "question": "Something else?"}
    more = config(tmp_path, ranks=path, collection=100)
    with more.qa[0].open("a") as file:
        file.write(json.dumps(added) + "\n")
    grown = PassagesTask(TaskSetup(replace(settings, passages=more), MODEL, TOKENIZER)).data
    assert all(question.ranked for question in grown.questions)
    assert path.read_bytes().startswith(whole)
    # Collections that are too long for a search, and other sources, are left to BM25.
    source = QUESTIONS[0]["source"]
    for changes, some in (({"ranks_longest": 1}, False), ({"ranks_of": (source,)}, True)):
        settings_left = replace(settings, passages=replace(more, **changes))
        left = PassagesTask(TaskSetup(settings_left, MODEL, TOKENIZER)).data
        for question in left.questions:
            assert bool(question.ranked) == (some and question.source == source)
    path.write_text('{"searched": "another"}\n')
    with pytest.raises(ConfigError, match="holds the ranks of another model"):
        PassagesTask(setup)
    with pytest.raises(ConfigError, match=r"passages\.ranks needs start\.model"):
        PassagesTask(TaskSetup(replace(settings, start=StartConfig()), MODEL, TOKENIZER))


def test_a_long_or_free_answer_is_a_region(tmp_path: Path) -> None:
    rows = [
        pair for b in batches(tmp_path, longest=6) for pair in zip(b.starts, b.ends, strict=True)
    ]
    regions = [(starts, ends) for starts, ends in rows if starts.sum() > 3]
    assert regions and all(torch.equal(starts, ends) for starts, ends in regions)


def test_loss_is_the_likelihood_of_right_tokens_over_all_passages() -> None:
    inf = float("-inf")
    start = torch.tensor([[inf, 1.0, 2.0], [inf, 0.5, inf], [inf, 3.0, inf]])
    null = torch.tensor([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]])
    right = torch.zeros(3, 3, dtype=torch.bool)
    right[0, 2] = True
    logits = PairLogits(start, start, null, torch.zeros(3, len(ANSWER_TYPES)), torch.zeros(3, 2))

    class Fake:
        embedding = None
        config = replace(MODEL, reader=replace(READER, prior=0.5))

        @staticmethod
        def span_reader(words: object, pairs: object, *, dropout: float) -> PairLogits:
            return logits

    batch = PassageBatch(
        None,  # type: ignore[arg-type]
        torch.tensor([0, 0, 1]),
        torch.tensor([0.0, -2.0, -1.0]),  # half of which is added to the logits of each passage
        right,
        right,
        torch.tensor([True, False]),
        torch.tensor([-100, -100]),
        torch.tensor([-100, -100]),
    )
    loss, values = passage_loss(Fake, batch, PassagesConfig())  # type: ignore[arg-type]
    total = sum(math.exp(x) for x in (1.0, 2.0, 0.1, 0.5 - 1, 0.2 - 1))
    expected = (math.log(total) - 2.0 + math.log(math.exp(3.0) + math.exp(0.3)) - 0.3) / 2
    assert float(loss) == pytest.approx(expected, abs=1e-5)
    assert values["type"] == values["verdict"] == 0.0


def train_config(folder: Path, **optim: Any) -> TrainConfig:
    settings = {"steps": 60, "lr": 3e-3, "only": ("span_reader.",), **optim}
    return TrainConfig(
        optim=OptimConfig(**settings),
        passages=config(folder, passages=(2, 3)),
        run=RunConfig(out=folder / "run", bf16=False, log_every=10),
    )


@pytest.mark.thorough
def test_the_reader_learns_and_nothing_else_moves(tmp_path: Path) -> None:
    model = fresh_model(MODEL)
    before = {name: t.clone() for name, t in model.state_dict().items()}
    losses = Loop(train_config(tmp_path), model, TOKENIZER).run()
    assert sum(losses[-10:]) < 0.6 * sum(losses[:10])
    moved = {n for n, t in model.state_dict().items() if not torch.equal(t, before[n])}
    assert moved and all(name.startswith("span_reader.") for name in moved)


@pytest.mark.thorough
def test_a_resumed_run_draws_the_same_pairs(tmp_path: Path) -> None:
    whole = Loop(train_config(tmp_path, steps=6), fresh_model(MODEL), TOKENIZER).run()
    other = tmp_path / "other"
    other.mkdir()
    settings = train_config(other, steps=6)
    first = Loop(settings, fresh_model(MODEL), TOKENIZER).run(until=3)
    assert first + Loop(settings, fresh_model(MODEL), TOKENIZER).run() == whole


def test_the_reader_of_a_finished_model_is_packed(tmp_path: Path) -> None:
    settings = train_config(tmp_path, steps=2)
    settings = replace(settings, run=replace(settings.run, reader_bits=4))
    model, folder = fresh_model(MODEL), tmp_path / "run" / "model"
    Loop(settings, model, TOKENIZER).run(until=1)
    assert not (folder / "packed.safetensors").exists()
    Loop(settings, model, TOKENIZER).run()
    packed = load_file(folder / "packed.safetensors")
    assert packed and all(name.startswith("span_reader.") for name in packed)
    again = load_model(folder)[0].state_dict()
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(again[name], tensor, rtol=0.01, atol=1e-3)
    with pytest.raises(ConfigError, match="run.reader_bits is 5, expected 0 or 4"):
        RunConfig(reader_bits=5)


@pytest.mark.thorough
def test_pairs_made_by_other_processes_are_the_same(tmp_path: Path) -> None:
    settings = train_config(tmp_path, steps=3)
    losses = Loop(settings, fresh_model(MODEL), TOKENIZER).run()
    ahead = replace(settings, run=replace(settings.run, out=tmp_path / "ahead", workers=1))
    assert Loop(ahead, fresh_model(MODEL), TOKENIZER).run() == losses


def test_what_cannot_be_taught_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a model with"):
        task(config(tmp_path), replace(MODEL, reader=None))
    with pytest.raises(ConfigError, match=r"passages\.passages"):
        PassagesConfig(passages=())
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    with pytest.raises(ConfigError, match=r"passages\.qa holds no question"):
        task(config(tmp_path, qa=(empty,)))


@each_row(
    ("change", "message"),
    [
        ({"evidence": [[5, 2]]}, "line 7: the field 'evidence' holds"),
        ({"question": None}, "line 7: the field 'question' holds null"),
        ({"doc_id": 3}, "line 7: the field 'doc_id' holds the number 3"),
    ],
)
def test_a_bad_question_is_named_by_its_line(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    settings = config(tmp_path)
    with settings.qa[0].open("a") as file:
        file.write(json.dumps({**QUESTIONS[0], **change}) + "\n")
    with pytest.raises(ConfigError, match=message):
        task(settings)


def changes_of(model: ModelConfig) -> dict[str, Any]:
    """Return the section ``[model]`` of a stage that makes ``model``."""
    left_out = ("encoder", "reader", "vocab", "pad_id", "landmark_id", "answer_id", "end_id")
    changes = {k: v for k, v in vars(model).items() if k not in left_out}
    reader = {} if model.reader is None else {"reader": vars(model.reader)}
    return {"preset": "drt-tiny", **changes, "encoder": vars(model.encoder), **reader}


def test_a_stage_starts_from_a_model_without_some_of_its_parts(tmp_path: Path) -> None:
    from drt_engine.model.weights import save_model
    from drt_lab.config.train import StartConfig

    older = fresh_model(small_like(chunk=16, vocab=TOKENIZER.vocab_size))
    save_model(older, TOKENIZER, tmp_path / "older", dtype=torch.float32)
    stage = replace(
        train_config(tmp_path),
        model=changes_of(MODEL),
        start=StartConfig(
            model=tmp_path / "older",
            without=("reader.", "quote_head.reread"),
        ),
    )
    model, _ = start(stage)
    assert model.span_reader is not None and model.reader is None
    assert torch.equal(model.embedding.weight, older.embedding.weight)


def test_passages_stand_below_title_and_section_unless_they_are_bare(tmp_path: Path) -> None:
    model = replace(MODEL, reader=replace(READER, context=30))
    settings = config(tmp_path, margins=(16,))
    text = "# Station\n\nThe keeper signs.\n\n## Harbour\n\nThe pilot counts boats.\n"
    document = {"doc_id": "article", "title": "Rules", "text": text}
    start = text.index("The pilot")
    question = {**QUESTIONS[2], "answers": ["The pilot"], "evidence": [[start, start + 9]]}
    settings.docs[0].write_text(json.dumps(document), encoding="utf-8")
    settings.qa[0].write_text(json.dumps(question), encoding="utf-8")

    def fronts(bare: float) -> set[str]:
        batch = task(replace(settings, bare=bare), model).draw(random.Random(1))
        found = set()
        for ids, segments, inside in zip(
            batch.pairs.ids, batch.pairs.segments, batch.pairs.passage, strict=True
        ):
            front = ids[(segments == 1) & ~inside & (ids != READER.separator_id)]
            found.add(TOKENIZER.decode(front.tolist()))
        # The targets are moved by what stands in front.
        row, first = batch.starts.nonzero()[0].tolist()
        last = int(batch.ends[row].nonzero()[0])
        quote = batch.pairs.ids[row, first : last + 1].tolist()
        assert TOKENIZER.decode(quote) == "The pilot"
        return found

    assert "RulesStation > Harbour" in fronts(0.0)
    assert fronts(1.0) == {""}


def test_sections_are_those_of_markdown_or_of_plain_text() -> None:
    marked = "# Station\n\nA.\n\n## Harbour\n\nB.\n"
    assert section_starts(marked) == [
        (0, ""),
        (0, "Station"),
        (marked.index("## H"), "Station > Harbour"),
    ]
    plain = "Begin.\n\nCHAPTER I. The Boat\n\nIt sails.\n"
    assert section_starts(plain) == [(0, ""), (plain.index("CHAP"), "CHAPTER I. The Boat")]
    assert section_starts("No heading at all.") == [(0, "")]


def test_teachers_are_followed_and_dropout_is_that_of_the_seed(tmp_path: Path) -> None:
    """Without a label's part the loss is the teachers' entropy where student and teacher agree."""
    model, teacher = fresh_model(MODEL), fresh_model(MODEL)
    for parameter in teacher.span_reader.parameters():
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    save_model(model, TOKENIZER, tmp_path / "same", dtype=torch.float32)
    save_model(teacher, TOKENIZER, tmp_path / "other", dtype=torch.float32)
    settings = config(tmp_path, teachers=(tmp_path / "same",), taught=1.0)
    made = task(settings)
    batch = made.draw(random.Random(1))
    _, values = made.loss(model, batch, None)
    assert values["taught"] == pytest.approx(0.0, abs=1e-5)
    other = task(replace(settings, teachers=(tmp_path / "other", tmp_path / "same")))
    loss, values = other.loss(model, batch, None)
    assert values["taught"] > 1e-3
    loss.backward()
    gradients = [p.grad for p in model.span_reader.parameters() if p.grad is not None]
    assert gradients and all(torch.isfinite(gradient).all() for gradient in gradients)
    dropping = task(replace(settings, teachers=(), dropout=0.3))
    losses = [
        float(dropping.loss(model, batch, torch.Generator().manual_seed(seed))[0].detach())
        for seed in (1, 1, 2)
    ]
    assert losses[0] == losses[1] != losses[2]


def test_a_teacher_without_a_reader_is_refused(tmp_path: Path) -> None:
    save_model(fresh_model(small_like(chunk=16)), byte_tokenizer(), tmp_path / "plain")
    with pytest.raises(ConfigError, match=r"has no reader, so passages\.teachers"):
        task(config(tmp_path, teachers=(tmp_path / "plain",)))


def test_a_deeper_reader_starts_with_each_layer_repeated(tmp_path: Path) -> None:
    save_model(fresh_model(MODEL), TOKENIZER, tmp_path / "earlier", dtype=torch.float32)
    stage = replace(
        train_config(tmp_path),
        model=changes_of(replace(MODEL, reader=replace(READER, layers=5))),
        start=StartConfig(model=tmp_path / "earlier", repeat_reader=True),
    )
    model, _ = start(stage)
    assert isinstance(model, DRT) and model.span_reader is not None
    weights = [block.up.weight for block in model.span_reader.blocks]
    assert [torch.equal(w, weights[0]) for w in weights] == [True, True, True, False, False]
    assert torch.equal(weights[3], weights[4])
    plain = replace(stage, model=changes_of(replace(MODEL, reader=None)))
    with pytest.raises(ConfigError, match="repeat_reader needs a reader in both"):
        start(replace(plain, start=replace(stage.start, without=("span_reader.",))))
