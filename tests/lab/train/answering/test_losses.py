"""The losses of a batch of questions are what they say, and reach what they should."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig, ReaderConfig
from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_engine.model.quote_head import QuoteLogits
from drt_engine.model.reader import pack_pairs
from drt_lab.train.answering.batch import QuestionBatch
from drt_lab.train.answering.losses import (
    answer_losses,
    evidence_loss,
    relevance_loss,
    span_loss,
    text_loss,
    with_support,
)
from drt_lab.train.answering.prompt_pass import PromptPass, encode_pool, window_slots
from drt_lab.train.answering.reader_opinion import reader_opinion
from tests.engine.model.factories import make_model, small_like
from tests.lab.train.answering.batches import CONFIGS, make_batch
from tests.sampling import sampled

COUNT = 3


def prompt_pass(model: DRT, batch: QuestionBatch) -> PromptPass:
    return PromptPass(model, batch, encode_pool(model, batch), count=COUNT, generator=None)


@pytest.mark.thorough
def test_questions_that_only_retrieve_teach_retrieval_alone() -> None:
    model = make_model(small_like())
    batch = make_batch(model.config)
    whole = answer_losses(model, batch, count=COUNT, generator=None)
    part = answer_losses(model, replace(batch, readers=2), count=COUNT, generator=None)
    first = answer_losses(model, batch.rows(0, 2), count=COUNT, generator=None)
    torch.testing.assert_close(part.reread, first.reread)
    torch.testing.assert_close(part.stored, first.stored)
    # The third question has no evidence, so its share of the retrieval loss is zero.
    torch.testing.assert_close(part.retrieval, first.retrieval * 2 / 3)
    torch.testing.assert_close(whole.retrieval, first.retrieval)
    assert not torch.allclose(whole.reread, first.reread)


def test_with_a_reader_of_its_own_only_stored_memory_is_taught() -> None:
    reader = ReaderConfig(layers=1, heads=2, mlp=8, positions=64, longest_question=8, margin=2)
    model = make_model(small_like(reader=replace(reader, begin_id=1, separator_id=3)))
    batch = make_batch(model.config)
    losses = answer_losses(model, batch, count=COUNT, generator=None)
    stored = prompt_pass(model, batch).run(reread=False)
    assert float(losses.reread) == float(losses.relevance) == 0
    torch.testing.assert_close(losses.stored, span_loss(stored.logits, stored.slots, batch))
    prompt = prompt_pass(model, batch).prompt
    torch.testing.assert_close(losses.text, text_loss(model, stored.states, prompt, batch))


def test_the_reader_teaches_retrieval_and_stored_memory_and_learns_nothing() -> None:
    reader = ReaderConfig(layers=1, heads=2, mlp=8, positions=64, longest_question=8, margin=2)
    model = make_model(small_like(reader=replace(reader, begin_id=1, separator_id=3)))
    batch = make_batch(model.config)
    silent = answer_losses(model, batch, count=COUNT, generator=None)
    losses = answer_losses(model, batch, count=COUNT, generator=None, ask_reader=True)
    assert silent.reader.item() == 0 < losses.reader.item()
    losses.reader.backward()
    assert model.span_reader is not None
    assert all(p.grad is None for p in model.span_reader.parameters())
    for part in (model.encoder, model.scorer.key, model.memory_map, model.quote_head):
        assert any(p.grad is not None and p.grad.any() for p in part.parameters())


def test_the_readers_opinion_is_that_of_its_pairs_one_by_one() -> None:
    reader = ReaderConfig(layers=1, heads=2, mlp=8, positions=64, longest_question=8, margin=2)
    model = make_model(small_like(reader=replace(reader, begin_id=1, separator_id=3)))
    batch = make_batch(model.config)
    result = prompt_pass(model, batch).run(reread=False)
    opinion = reader_opinion(model, batch, result)
    assert model.span_reader is not None
    index, size = result.selection.index, batch.ids.shape[1]
    for row, question in enumerate(batch.questions):
        slots = window_slots(index[row : row + 1], batch, 2)[0]
        tokens = [[s for s in places if s >= 0] for places in slots.tolist()]
        passages = [batch.ids.view(-1)[t].tolist() for t in tokens]
        pairs, offsets = pack_pairs(
            model.span_reader.config, [question] * COUNT, passages, pad_id=model.config.pad_id
        )
        logits = model.span_reader(model.embedding, pairs)
        total = torch.zeros(COUNT)
        for side, part in enumerate((logits.start, logits.end)):
            joint = torch.cat([part, logits.null[:, side, None]], dim=1)
            joint = joint.flatten().softmax(0).view_as(joint)
            torch.testing.assert_close(opinion.null[side, row], joint[:, -1].sum())
            total += joint[:, :-1].sum(dim=1) / 2
            for chunk, (places, offset) in enumerate(zip(tokens, offsets, strict=True)):
                wanted = torch.zeros(size)
                for number, place in enumerate(places):
                    if place // size == index[row, chunk]:
                        wanted[place % size] = joint[chunk, offset + number]
                torch.testing.assert_close(opinion.spans[side, row, chunk], wanted)
        torch.testing.assert_close(opinion.passages[row], total)


def test_a_reader_that_is_missing_is_named() -> None:
    model = make_model(small_like())
    with pytest.raises(ConfigError, match="reader_loss needs a model with a reader"):
        answer_losses(model, make_batch(model.config), count=COUNT, generator=None, ask_reader=True)


def test_what_a_question_may_not_retrieve_is_no_rival_of_the_whole_score() -> None:
    model = make_model(small_like())
    batch = make_batch(model.config)
    own = torch.stack([batch.window_of == window for window in (0, 1, 0)])
    run = prompt_pass(model, replace(batch, allowed=own))
    run.run(reread=False)
    whole, landmarks = run.scores[:2]
    assert torch.equal(torch.isfinite(whole), own) and torch.isfinite(landmarks).all()
    expected = -torch.log_softmax(whole[0, :4], dim=0)[1]
    torch.testing.assert_close(evidence_loss([whole[:1]], batch.gold[:1]), expected)


def test_a_batch_that_is_not_read_for_teaches_retrieval_alone() -> None:
    model = make_model(small_like())
    batch = make_batch(model.config)
    whole = answer_losses(model, batch, count=COUNT, generator=None)
    part = answer_losses(model, replace(batch, readers=0), count=COUNT, generator=None)
    torch.testing.assert_close(part.retrieval, whole.retrieval)
    torch.testing.assert_close(part.hit, whole.hit)
    assert not any((part.reread, part.stored, part.text, part.relevance, part.teacher))


def test_relevance_is_taught_among_the_chunks_read_again() -> None:
    model = make_model(small_like())
    batch = make_batch(model.config)
    result = prompt_pass(model, batch).run(reread=True)
    loss = relevance_loss(model, result, batch)
    assert result.relevance is not None
    reranked, expected = result.selection.scores + result.relevance, []
    for row in range(2):  # the third has no evidence
        gold = batch.gold[row, result.selection.index[row]]
        expected.append(-torch.softmax(reranked[row], 0)[gold].sum().log())
    torch.testing.assert_close(loss, torch.stack(expected).mean())
    loss.backward()
    head = model.quote_head
    assert head is not None and head.reread_relevance is not None
    assert head.reread_relevance.weight.grad is not None
    assert head.reread_relevance.weight.grad.abs().sum() > 0
    assert model.scorer.key.weight.grad is None  # it judges what retrieval missed, as a correction


def by_hand(part: Tensor, slots: Tensor, batch: QuestionBatch, side: int, null: Tensor) -> float:
    total, known = 0.0, 0
    for row in range(len(batch.questions)):
        known += int(batch.answerable[row] >= 0)
        wanted = [int(s[side]) for s in batch.spans[row] if s[0] >= 0]
        places = zip(part[row].view(-1), slots[row].view(-1), strict=True)
        exps = [(float(x.exp()), int(s)) for x, s in places]
        everything = sum(e for e, _ in exps) + float(null[row].exp())
        hit = sum(e for e, s in exps if s >= 0 and s in wanted)
        if batch.answerable[row] == 0:
            hit += float(null[row].exp())
        if hit > 0 and batch.answerable[row] >= 0:
            total -= float(torch.tensor(hit / everything).log())
    return total / known


def random_logits(batch: QuestionBatch, index: Tensor) -> tuple[QuoteLogits, Tensor]:
    slots = window_slots(index, batch, 2)
    start, end = (torch.randn(slots.shape).masked_fill(slots < 0, -torch.inf) for _ in "se")
    return QuoteLogits(start, end, torch.randn(len(slots))), slots


def test_span_loss_is_the_likelihood_of_all_occurrences() -> None:
    batch = make_batch(small_like())
    index = torch.tensor([[1, 0, 5], [5, 2, 4], [0, 1, 2]])
    logits, slots = random_logits(batch, index)
    wanted = by_hand(logits.start, slots, batch, 0, logits.null)
    wanted += by_hand(logits.end, slots, batch, 1, logits.null)
    assert span_loss(logits, slots, batch).item() == pytest.approx(wanted / 2, rel=1e-4)


def test_questions_without_a_span_or_a_hit_teach_nothing() -> None:
    batch = make_batch(small_like())
    index = torch.tensor([[2, 3, 6]] * 3)  # no evidence among them
    logits, slots = random_logits(batch, index)
    logits.start.requires_grad_()
    span_loss(logits, slots, batch).backward()
    assert logits.start.grad is not None
    assert logits.start.grad[:2].abs().max() == 0
    assert logits.start.grad[2].abs().max() > 0  # the unanswerable one: null against all
    unknown = replace(batch, answerable=torch.full((3,), -1))
    assert span_loss(logits, slots, unknown).item() == 0


def test_evidence_loss_is_the_mass_on_evidence() -> None:
    scores = torch.randn(2, 4)
    gold = torch.tensor([[True, False, True, False], [False] * 4])
    wanted = -torch.softmax(scores[0], 0)[[0, 2]].sum().log()
    torch.testing.assert_close(evidence_loss([scores], gold), wanted)
    torch.testing.assert_close(evidence_loss([scores, scores], gold), wanted)
    assert evidence_loss([scores], gold & False).item() == 0


def test_support_is_taught_beside_the_evidence() -> None:
    batch = make_batch(small_like())
    scores = [torch.randn(3, 7), torch.randn(3, 7)]
    assert with_support(scores, batch)[1] is batch.gold
    support = torch.zeros_like(batch.gold)
    support[0, 4] = True
    taught = evidence_loss(*with_support(scores, replace(batch, support=support)))
    parts = []  # two questions with evidence, one of them with support
    for score in scores:
        share = torch.softmax(score, 1)
        parts += [share[0][batch.gold[0]].sum(), share[1][batch.gold[1]].sum(), share[0, 4]]
    torch.testing.assert_close(taught, -torch.stack(parts).log().mean())


@torch.no_grad()
def test_text_loss_runs_from_the_answer_token_to_the_end_token() -> None:
    model = make_model(small_like())
    batch = make_batch(model.config)
    batch.answers[1].clear()  # nothing to write
    run = prompt_pass(model, batch)
    states = run.run(reread=False).states
    parts = []
    for row in (0, 2):
        at = int(run.prompt.answer_slot[row])
        logits = model.logits(states[row, at : at + 2])
        wanted = torch.tensor([batch.answers[row][0], model.config.end_id])
        parts.append(torch.nn.functional.cross_entropy(logits, wanted, reduction="none"))
    torch.testing.assert_close(text_loss(model, states, run.prompt, batch), torch.cat(parts).mean())


@pytest.mark.parametrize("config", sampled(CONFIGS.values(), {0}, thorough={3}), ids=CONFIGS)
def test_every_part_of_the_loss_reaches_what_it_should(config: ModelConfig) -> None:
    model = make_model(config)
    batch = make_batch(config)
    reaches = {
        "retrieval": ["scorer.key.weight", "encoder.positions.weight", "embedding.weight"],
        "reread": ["scorer.key.weight", "quote_head.reread_span.weight", "memory_map.weight"],
        "stored": ["scorer.state_query.0.weight", "quote_head.start_query.weight"],
        "text": ["upper.0.gca.query.weight", "memory_map.weight", "scorer.key.weight"],
    }
    for name, parameters in reaches.items():
        model.zero_grad()
        generator = torch.Generator().manual_seed(0)
        losses = answer_losses(model, batch, count=COUNT, generator=generator)
        assert 0 <= losses.hit <= 1
        getattr(losses, name).backward()
        gradients = {n: p.grad for n, p in model.named_parameters()}
        for parameter in parameters:
            gradient = gradients[parameter]
            assert gradient is not None and gradient.abs().max() > 0, (name, parameter)
            assert all(g is None or g.isfinite().all() for g in gradients.values()), name
