"""The flat prompt pass of training equals the decoder's way, and its losses are what they say."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.generate.decode import Decoder
from drt_engine.model.drt import DRT
from drt_engine.model.quote_head import QuoteLogits
from drt_engine.train.answering import (
    Pool,
    PromptPass,
    answer_losses,
    asking_scores,
    encode_pool,
    evidence_loss,
    relevance_loss,
    span_loss,
    text_loss,
    window_slots,
    with_support,
)
from drt_engine.train.questions import QuestionBatch
from tests.engine.model.factories import PoolSource, make_model, small_like
from tests.engine.train.batches import make_batch, only, without_evidence

CONFIGS = {
    "small": small_like(),
    "two-groups": small_like(groups=2),
    "mlp": small_like(gca_output="mlp", question_states=False, landmark_query="state"),
    "no-lower": small_like(lower_layers=0),
}
COUNT = 3


@pytest.fixture(scope="module", params=CONFIGS)
def model(request: pytest.FixtureRequest) -> DRT:
    return make_model(CONFIGS[request.param])


def prompt_pass(model: DRT, batch: QuestionBatch) -> PromptPass:
    return PromptPass(model, batch, encode_pool(model, batch), count=COUNT, generator=None)


def decode(model: DRT, batch: QuestionBatch, row: int, pool: Pool) -> tuple[Decoder, Tensor]:
    """The same question by the decoder: query chunk, landmark, question again, answer."""
    source = PoolSource(pool.memory, COUNT, batch.lexical[row])
    decoder = Decoder(model, source)
    question, config = batch.questions[row], model.config
    decoder.feed(question)
    encoded = decoder.close()
    tail = [*question, config.answer_id, *batch.answers[row]]
    added = None
    if model.question_map is not None:
        added = torch.zeros(len(tail), config.width)
        added[: len(question)] = model.question_map(encoded.states[0])
    return decoder, decoder.feed(tail, added)


@torch.no_grad()
def test_the_prompt_pass_equals_the_decoder(model: DRT) -> None:
    batch = without_evidence(make_batch(model.config))
    run = prompt_pass(model, batch)
    states, picked, logits, _ = run.run(reread=False)
    for row, question in enumerate(batch.questions):
        decoder, stepped = decode(model, batch, row, run.pool)
        at = int(run.prompt.answer_slot[row])
        tail = slice(at - len(question), at + 2)
        torch.testing.assert_close(states[row, tail], stepped, rtol=1e-4, atol=1e-4)
        found = decoder.found[-1]
        assert found is not None
        assert picked.index[row].tolist() == list(found.chunk_ids)
        retrieved = found.retrieved
        torch.testing.assert_close(picked.scores[row], retrieved.scores[0, 0])
        torch.testing.assert_close(picked.probabilities[row], retrieved.probabilities[0, 0])
        assert model.quote_head is not None
        again = model.quote_head(
            stepped[len(question)][None],
            retrieved.memory,
            retrieved.index[0],
            torch.log_softmax(retrieved.scores[0], -1),
        )
        torch.testing.assert_close(logits.start[row], again.start[0], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(logits.end[row], again.end[0], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(logits.null[row], again.null[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reread", [False, True])
@torch.no_grad()
def test_a_question_alone_equals_the_batch(model: DRT, reread: bool) -> None:
    batch = make_batch(model.config)
    together = prompt_pass(model, batch)
    states, picked, logits, slots = together.run(reread=reread)
    for row in range(3):
        one = prompt_pass(model, only(batch, row))
        alone_states, alone_picked, alone, alone_slots = one.run(reread=reread)
        assert torch.equal(picked.index[row], alone_picked.index[0])
        assert torch.equal(slots[row], alone_slots[0])
        at, here = int(together.prompt.answer_slot[row]), int(one.prompt.answer_slot[0])
        close = {"rtol": 1e-4, "atol": 1e-4}
        torch.testing.assert_close(states[row, at], alone_states[0, here], **close)
        torch.testing.assert_close(logits.start[row], alone.start[0], **close)
        torch.testing.assert_close(logits.end[row], alone.end[0], **close)
        torch.testing.assert_close(logits.null[row], alone.null[0], **close)


@torch.no_grad()
def test_rereading_changes_the_logits_but_not_the_first_choice(model: DRT) -> None:
    run = prompt_pass(model, make_batch(model.config))
    _, _, stored, stored_slots = run.run(reread=False)
    _, _, again, slots = run.run(reread=True)
    margin = model.config.reread_margin
    inner = slice(margin, margin + model.config.chunk)
    assert torch.equal(run.scores[0], run.scores[len(run.scores) // 2])
    if model.config.groups == 1:
        assert torch.equal(slots[..., inner], stored_slots)
        here = stored_slots >= 0
        assert (stored.start[here] - again.start[..., inner][here]).abs().max() > 1e-3


@torch.no_grad()
def test_questions_that_only_retrieve_score_as_those_that_are_read_for(model: DRT) -> None:
    batch = make_batch(model.config)
    run = prompt_pass(model, batch)
    run.run(reread=False)
    asked = asking_scores(model, batch, run.pool)
    for one, other in zip(asked, run.scores[: len(asked)], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


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
    run = prompt_pass(model, batch)
    _, picked, _, _ = run.run(reread=True)
    loss = relevance_loss(run, picked)
    assert run.relevance is not None
    judged, wanted = picked.scores + run.relevance, []
    for row in range(2):  # the third has no evidence
        mass = torch.softmax(judged[row], 0)[batch.gold[row, picked.index[row]]].sum()
        wanted.append(-mass.log())
    torch.testing.assert_close(loss, torch.stack(wanted).mean())
    loss.backward()
    head = model.quote_head
    assert head is not None and head.reread_relevance is not None
    assert head.reread_relevance.weight.grad is not None
    assert head.reread_relevance.weight.grad.abs().sum() > 0
    assert model.scorer.key.weight.grad is None  # it judges what retrieval missed, as a correction


@torch.no_grad()
def test_the_pool_is_read_window_by_window() -> None:
    model = make_model(small_like())
    batch = make_batch(model.config)
    pool = encode_pool(model, batch)
    assert pool.memory.keys.shape[:2] == (7, model.config.chunk)
    for at, count in batch.windows:
        rows = slice(at, at + count)
        _, encoded = model.read(batch.ids[rows][None], batch.valid[rows][None])
        alone = model.remember(encoded)
        torch.testing.assert_close(pool.memory.landmarks[rows], alone.landmarks)
        here = alone.mask
        assert torch.equal(pool.memory.mask[rows], here)
        torch.testing.assert_close(pool.memory.keys[rows][here], alone.keys[here])


@torch.no_grad()
def test_missed_evidence_is_forced_into_the_last_place() -> None:
    model = make_model(small_like())
    batch = make_batch(model.config)
    free = prompt_pass(model, without_evidence(batch)).run(reread=False)[1]
    missing = next(c for c in range(7) if c not in free.index[0].tolist())
    gold = torch.zeros_like(batch.gold)
    gold[0, missing] = True
    gold[1, free.index[1, 1]] = True  # already there
    forced = prompt_pass(model, replace(batch, gold=gold))
    picked = forced.run(reread=False)[1]
    assert picked.index[0].tolist() == [*free.index[0, :-1].tolist(), missing]
    assert picked.index[1:].tolist() == free.index[1:].tolist()
    scores = forced.scores[0].gather(1, picked.index)
    torch.testing.assert_close(picked.scores, scores)
    torch.testing.assert_close(picked.probabilities, torch.softmax(scores, -1))


def test_slots_around_a_chunk_stop_at_window_and_text() -> None:
    config = small_like()
    batch, size = make_batch(config), config.chunk
    slots = window_slots(torch.tensor([[0, 3, 4, 6]]), batch, 2)[0]
    none = [-1]
    assert slots[0].tolist() == [*none * 2, *range(size + 2)]
    end = 3 * size + 5  # the chunk holds 5 tokens; the next window is another document
    assert slots[1].tolist() == [*range(3 * size - 2, end), *none * (size + 4 - 7)]
    assert slots[2].tolist() == [*none * 2, *range(4 * size, 5 * size + 2)]
    assert slots[3].tolist() == [*range(6 * size - 2, 6 * size + 2), *none * (size + 4 - 4)]


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
    states = run.run(reread=False)[0]
    parts = []
    for row in (0, 2):
        at = int(run.prompt.answer_slot[row])
        logits = model.logits(states[row, at : at + 2])
        wanted = torch.tensor([batch.answers[row][0], model.config.end_id])
        parts.append(torch.nn.functional.cross_entropy(logits, wanted, reduction="none"))
    torch.testing.assert_close(text_loss(model, states, run.prompt, batch), torch.cat(parts).mean())


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
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
