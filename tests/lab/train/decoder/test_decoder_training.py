"""A decoder's training: examples are the document's own tokens, it learns, and it resumes."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from drt_engine.decoder.prompt import NOT_SAID, Task, prompt_ids
from drt_engine.decoder.saved import load_decoder, save_decoder
from drt_engine.errors import ConfigError
from drt_lab.data.schema import Question, load_qa
from drt_lab.train.decoder.batches import Batches, Example, cut_document, make_example
from drt_lab.train.decoder.config import DecoderTraining
from drt_lab.train.decoder.loop import load_start, train_decoder
from drt_lab.train.decoder.losses import batch_memory, with_others
from drt_lab.train.decoder.summaries import load_summary_pairs
from drt_lab.train.metrics import read_metrics
from drt_lab.train.run import train
from tests.engine.decoder.tiny import TINY, tiny_decoder, tiny_tokenizer

NAMES = ("Ann", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal")


def text_of(number: int) -> str:
    return " ".join(f"{name} has {number + n * 7} red pots." for n, name in enumerate(NAMES))


def write_data(folder: Path, *, documents: int = 4) -> None:
    questions, texts = [], []
    for number in range(documents):
        text = text_of(number)
        texts.append({"doc_id": f"d{number}", "title": "", "text": text})
        for n, name in enumerate(NAMES):
            answer = f"{number + n * 7} red pots"
            start = text.index(f"{name} has") + len(name) + 5
            question = {
                "id": f"{number}-{n}",
                "source": "made",
                "license": "CC0-1.0",
                "doc_id": f"d{number}",
                "question": f"What has {name}?",
                "answers": [answer],
                "evidence": [[start, start + len(answer)]],
                "kind": "extractive",
            }
            questions.append(question)
    for name, rows in (("qa", questions), ("docs", texts)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")


@pytest.fixture
def settings(tmp_path: Path) -> DecoderTraining:
    write_data(tmp_path)
    save_decoder(tiny_decoder(), tiny_tokenizer(), tmp_path / "start", dtype=torch.float32)
    return DecoderTraining(
        run=tmp_path / "run",
        start=tmp_path / "start",
        questions=(tmp_path / "qa.jsonl",),
        documents=(tmp_path / "docs.jsonl",),
        steps=4,
        reading_steps=2,
        batch=4,
        held_out=1,
        evaluate_every=4,
        warm_up=1,
        lr=1e-3,
    )


def batches_of(settings: DecoderTraining) -> Batches:
    questions, documents = load_qa(settings.questions, settings.documents)
    return Batches(questions, documents, tiny_tokenizer(), TINY, settings)


def test_an_answer_is_the_tokens_of_its_evidence(settings: DecoderTraining) -> None:
    batches = batches_of(settings)
    tokenizer = tiny_tokenizer()
    for example in [e for group in batches.groups for e in group]:
        document = batches.documents[example.document]
        assert tokenizer.decode(list(example.answer[:-1])).strip() == example.question.answers[0]
        held = document.ids[list(example.evidence)].flatten().tolist()
        answer = list(example.answer[:-1])
        assert any(held[at : at + len(answer)] == answer for at in range(len(held)))


def test_a_share_of_answers_is_written_as_their_sentences(settings: DecoderTraining) -> None:
    tokenizer = tiny_tokenizer()

    def is_written(example: Example, quote: str = "") -> bool:
        asked = example.question.question
        return list(example.prompt) == prompt_ids(tokenizer, asked, Task.WRITE, quote=quote)

    batches = batches_of(replace(settings, written=0.5))
    everything = [e for g in batches.groups for e in g]
    without_quote = [e for e in everything if is_written(e)]
    with_quote = [e for e in everything if is_written(e, e.question.answers[0])]
    assert without_quote and with_quote
    written = [*without_quote, *with_quote]
    assert len(written) < len(everything)
    for example in written:
        sentence = tokenizer.decode(list(example.answer[:-1])).strip()
        text = batches.documents[example.document].text
        assert example.question.answers[0] in sentence and sentence in " ".join(text.split())
        assert len(sentence) > len(example.question.answers[0])
    assert not any(is_written(e) for e in batches.held_out)


SUMMARY = {
    "id": "s",
    "source": "made",
    "license": "CC0-1.0",
    "title": "",
    "document": "We saw an old tug in fog. Nobody on the quay could say what it wanted there.",
    "summary": "An old tug came in the fog. All of this is really and truly true.",
}


def test_a_sentence_is_rewritten_as_the_summary_has_it(
    tmp_path: Path, settings: DecoderTraining
) -> None:
    path = tmp_path / "summaries.jsonl"
    path.write_text(json.dumps(SUMMARY) + "\n")
    (pair,), documents = load_summary_pairs([path])
    (document,) = documents.values()
    (start, end) = pair.evidence[0]
    assert document.text[start:end].strip() == pair.question
    assert pair.question == "We saw an old tug in fog."
    assert pair.answers == ("An old tug came in the fog.",)
    batches = Batches([pair], documents, tiny_tokenizer(), TINY, replace(settings, held_out=0))
    ((example,),) = batches.summaries
    assert not batches.groups
    expected = prompt_ids(tiny_tokenizer(), pair.question, Task.SUMMARISE)
    assert list(example.prompt) == expected
    settings = replace(settings, summaries=(path,), summarising=1.0, longest_answer=80)
    train_decoder(settings)  # two steps that read, and two that rewrite
    with pytest.raises(ConfigError, match=r"summarising is 0.5, expected .* and summaries"):
        replace(settings, summaries=(), summarising=0.5)


def test_held_out_documents_are_not_trained_on(settings: DecoderTraining) -> None:
    batches = batches_of(settings)
    trained = {e.document for group in batches.groups for e in group}
    assert len(batches.held_out_ids) == 1
    assert trained.isdisjoint(batches.held_out_ids)
    assert {e.document for e in batches.held_out} == batches.held_out_ids


def test_a_question_without_an_answer_says_so(settings: DecoderTraining) -> None:
    question = Question("q", "made", "", "d0", "Who sings?", (), (), "unanswerable")
    document = cut_document(tiny_tokenizer(), text_of(0), TINY)
    example = make_example(tiny_tokenizer(), question, document, TINY, longest_answer=64)
    assert example is not None
    assert tiny_tokenizer().decode(list(example.answer[:-1])) == NOT_SAID
    assert example.evidence == ()
    batch = batches_of(settings).batch([replace(example, document="d0")])
    assert batch.chunks  # something is read all the same


def test_a_batch_has_the_evidence_and_the_best_others_by_words(settings: DecoderTraining) -> None:
    questions, documents = load_qa(settings.questions, settings.documents)
    config = replace(TINY, chunk=24)  # a sentence or two
    batches = Batches(questions, documents, tiny_tokenizer(), config, settings)
    batch = batches.batch(batches.groups[0])
    assert {(e.document, n) for e in batch.examples for n in e.evidence} <= set(batch.chunks)
    assert batch.relevance.shape == (len(batch.examples), len(batch.chunks))
    for example, row in zip(batch.examples, batch.relevance, strict=True):
        document, number = batch.chunks[int(row.argmax())]
        assert document == example.document
        name = example.question.question.removeprefix("What has ").rstrip("?")
        assert name in batches.documents[document].chunk_texts()[number]


def test_chunk_texts_are_the_text_in_pieces(settings: DecoderTraining) -> None:
    document = cut_document(tiny_tokenizer(), text_of(0), TINY)
    assert "".join(document.chunk_texts()) == text_of(0)


def test_an_answer_that_is_too_long_is_left_out(settings: DecoderTraining) -> None:
    questions, documents = load_qa(settings.questions, settings.documents)
    document = cut_document(tiny_tokenizer(), documents["d0"].text, TINY)
    assert make_example(tiny_tokenizer(), questions[0], document, TINY, longest_answer=3) is None


@pytest.mark.thorough
def test_a_resumed_training_is_one_that_never_stopped(settings: DecoderTraining) -> None:
    whole = train_decoder(replace(settings, run=settings.run.with_name("whole")))
    train_decoder(replace(settings, limit_minutes=0.0))  # stops before the first step
    assert json.loads((settings.run / "state" / "state.json").read_text())["step"] == 0
    parts = train_decoder(settings)
    expected = load_file(whole / "model" / "model.safetensors")
    for name, tensor in load_file(parts / "model" / "model.safetensors").items():
        assert torch.equal(tensor, expected[name]), name


def test_only_the_upper_stack_is_trained(settings: DecoderTraining) -> None:
    run = train_decoder(settings)
    before = load_file(settings.start / "model.safetensors")
    after = load_file(run / "model" / "model.safetensors")
    same = {n for n in before if torch.equal(before[n].to(torch.bfloat16), after[n])}
    assert {n.split(".")[0] for n in same} <= {"embedding", "lower"}
    assert {n for n in before if n.startswith(("embedding.", "lower."))} <= same
    assert not {n for n in same if n.startswith("upper.")}


@pytest.mark.thorough
def test_reading_is_learnt(settings: DecoderTraining) -> None:
    """With memory the loss of an answer falls below what can be known without it."""
    model = tiny_decoder()
    model.embedding.weight.data.mul_(25)  # frozen and tied: its size bounds the logits
    save_decoder(model, tiny_tokenizer(), settings.start, dtype=torch.float32)
    run = train_decoder(
        replace(settings, steps=150, reading_steps=150, evaluate_every=150, lr=3e-3, batch=8)
    )
    rows = [row for row in read_metrics(run / "metrics.jsonl") if "loss_alone" in row]
    assert rows[-1]["loss_alone"] < 0.5 * rows[0]["loss_alone"]


@pytest.mark.thorough
def test_a_file_with_a_decoder_section_is_trained(
    settings: DecoderTraining, tmp_path: Path
) -> None:
    values = {
        "run": str(settings.run),
        "start": str(settings.start),
        "questions": [str(f) for f in settings.questions],
        "documents": [str(f) for f in settings.documents],
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    lines += ["steps = 1", "reading_steps = 0", "batch = 4", "held_out = 1"]
    (tmp_path / "d.toml").write_text("[decoder]\n" + "\n".join(lines) + "\n")
    assert train(tmp_path / "d.toml", ["decoder.steps=2"]) == settings.run
    assert json.loads((settings.run / "state" / "state.json").read_text())["step"] == 2


def test_more_reading_than_steps_is_refused(settings: DecoderTraining) -> None:
    with pytest.raises(ConfigError, match="reading_steps is 9"):
        replace(settings, reading_steps=9)


def test_another_chunk_alone_does_not_say_the_answer(settings: DecoderTraining) -> None:
    questions, documents = load_qa(settings.questions, settings.documents)
    config = replace(TINY, chunk=24)
    batches = Batches(questions, documents, tiny_tokenizer(), config, settings)
    batch = batches.batch(batches.groups[0])
    count = len(batch.examples)
    assert batch.has_answer.any()
    followed, read = with_others(batch, batches.not_said, random.Random(0))
    assert len(followed.examples) == len(read) == len(followed.relevance) == 2 * count
    for at, example in enumerate(batch.examples):
        evidence, other = read[2 * at], read[2 * at + 1]
        assert followed.examples[2 * at] == example
        assert evidence.sum() == len(example.evidence) and other.sum() == 1
        assert not (other & batch.has_answer[at]).any()
        assert followed.examples[2 * at + 1].answer == batches.not_said


def test_a_decoder_learns_to_judge_chunks(settings: DecoderTraining) -> None:
    settings = replace(settings, steps=3, reading_steps=1, judging=1.0)
    train_decoder(settings)
    last = read_metrics(settings.run / "metrics.jsonl")[-1]
    assert 0 <= last["found_by_reading"] <= 1 and 0 <= last["found_by_words"] <= 1
    with pytest.raises(ConfigError, match="judging is 3"):
        replace(settings, judging=3)


@pytest.mark.parametrize("rank", [None, 4])
def test_chunk_memory_is_trained_in_bf16_and_packed(
    settings: DecoderTraining, rank: int | None
) -> None:
    settings = replace(
        settings, steps=2, memory_gradient=True, precision="bf16", packed=True, rank=rank, lr=0.02
    )
    train_decoder(settings)
    start = load_start(settings)[0].state_dict()
    saved = load_decoder(settings.run / "model").model.state_dict()
    change = {name: float((saved[name] - start[name]).abs().max()) for name in start}
    assert change["lower.0.qkv.weight"] < 2e-3 < 0.01 < change["upper.0.qkv.weight"]
    # A run that has ended goes on from its checkpoint, and writes the same model.
    train_decoder(settings)
    again = load_decoder(settings.run / "model").model.state_dict()
    assert all(torch.equal(tensor, again[name]) for name, tensor in saved.items())


def test_memory_has_a_gradient_only_where_it_is_trained(settings: DecoderTraining) -> None:
    questions, documents = load_qa(settings.questions, settings.documents)
    model, tokenizer = load_start(settings)
    batches = Batches(questions, documents, tokenizer, model.config, settings)
    batch = batches.batch(batches.groups[0])
    assert not batch_memory(model, batches, batch).keys.requires_grad
    keys = batch_memory(model, batches, batch, gradient=True).keys
    keys.sum().backward()
    upper, lower = model.upper[0].qkv.weight, model.lower[0].qkv.weight
    assert upper.grad is not None and upper.grad.abs().sum() > 0 and lower.grad is None


def test_what_was_trained_of_low_rank_is_trained_on(settings: DecoderTraining) -> None:
    settings = replace(settings, steps=2, rank=4, lr=0.02)
    train_decoder(settings)
    further = replace(settings, start=settings.run / "model", run=settings.run.parent / "further")
    with pytest.raises(ConfigError, match="rank is 3, but .* was trained with 4"):
        train_decoder(replace(further, rank=3))
    train_decoder(further)
    start, first, second = (
        load_decoder(folder, merge=False).model.state_dict()
        for folder in (settings.start, settings.run / "model", further.run / "model")
    )
    frozen, trained = "upper.0.qkv.base.weight", "upper.0.qkv.up"
    assert torch.allclose(start["upper.0.qkv.weight"], second[frozen], atol=1e-2)
    assert first[trained].any() and not torch.equal(first[trained], second[trained])
