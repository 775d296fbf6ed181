"""The flat prompt pass of training equals the decoder's way."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from drt_engine.generate.decode import Decoder
from drt_engine.model.drt import DRT
from drt_lab.train.answering.batch import QuestionBatch
from drt_lab.train.answering.prompt_pass import (
    Pool,
    PromptPass,
    encode_pool,
    retrieval_scores,
    window_slots,
)
from tests.engine.model.factories import PoolSource, make_model, small_like
from tests.lab.train.answering.batches import CONFIGS, make_batch, only, without_evidence
from tests.sampling import sampled

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
def test_windows_that_are_read_together_are_as_by_themselves(model: DRT) -> None:
    windows = [(0, 2), (2, 3), (5, 2)]  # all in one group
    owners = torch.tensor([0, 0, 1, 1, 1, 2, 2])
    batch = replace(make_batch(model.config), windows=windows, window_of=owners)
    together = encode_pool(model, batch).encoded
    for number, window in enumerate(windows):
        alone = encode_pool(model, replace(batch, windows=[window])).encoded
        rows = owners == number
        torch.testing.assert_close(alone.states, together.states[rows], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(alone.landmarks, together.landmarks[rows], rtol=1e-4, atol=1e-5)
        assert torch.equal(alone.mask, together.mask[rows])


@torch.no_grad()
def test_the_prompt_pass_equals_the_decoder(model: DRT) -> None:
    batch = without_evidence(make_batch(model.config))
    run = prompt_pass(model, batch)
    result = run.run(reread=False)
    states, selection, logits = result.states, result.selection, result.logits
    for row, question in enumerate(batch.questions):
        decoder, stepped = decode(model, batch, row, run.pool)
        at = int(run.prompt.answer_slot[row])
        tail = slice(at - len(question), at + 2)
        torch.testing.assert_close(states[row, tail], stepped, rtol=1e-4, atol=1e-4)
        retrieval = decoder.retrievals[-1]
        assert retrieval is not None
        assert selection.index[row].tolist() == list(retrieval.chunk_ids)
        retrieved = retrieval.retrieved
        torch.testing.assert_close(selection.scores[row], retrieved.scores[0, 0])
        torch.testing.assert_close(selection.probabilities[row], retrieved.probabilities[0, 0])
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


@pytest.mark.parametrize("reread", sampled([False, True], {1}, thorough={0}))
@torch.no_grad()
def test_a_question_alone_equals_the_batch(model: DRT, reread: bool) -> None:
    batch = make_batch(model.config)
    together = prompt_pass(model, batch)
    whole = together.run(reread=reread)
    for row in range(3):
        single = prompt_pass(model, only(batch, row))
        alone = single.run(reread=reread)
        assert torch.equal(whole.selection.index[row], alone.selection.index[0])
        assert torch.equal(whole.slots[row], alone.slots[0])
        at, here = int(together.prompt.answer_slot[row]), int(single.prompt.answer_slot[0])
        close = {"rtol": 1e-4, "atol": 1e-4}
        torch.testing.assert_close(whole.states[row, at], alone.states[0, here], **close)
        for part in ("start", "end", "null"):
            actual, expected = getattr(alone.logits, part)[0], getattr(whole.logits, part)[row]
            torch.testing.assert_close(expected, actual, **close)


@torch.no_grad()
def test_rereading_changes_the_logits_but_not_the_first_choice(model: DRT) -> None:
    run = prompt_pass(model, make_batch(model.config))
    stored, again = run.run(reread=False), run.run(reread=True)
    margin = model.config.reread_margin
    inner = slice(margin, margin + model.config.chunk)
    assert torch.equal(run.scores[0], run.scores[len(run.scores) // 2])
    if model.config.groups == 1:
        assert torch.equal(again.slots[..., inner], stored.slots)
        here = stored.slots >= 0
        change = stored.logits.start[here] - again.logits.start[..., inner][here]
        assert change.abs().max() > 1e-3


@torch.no_grad()
def test_questions_that_only_retrieve_score_as_those_that_are_read_for(model: DRT) -> None:
    batch = make_batch(model.config)
    run = prompt_pass(model, batch)
    run.run(reread=False)
    scores = retrieval_scores(model, batch, run.pool)
    for actual, expected in zip(scores, run.scores[: len(scores)], strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


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
    free = prompt_pass(model, without_evidence(batch)).run(reread=False).selection
    missing = next(c for c in range(7) if c not in free.index[0].tolist())
    gold = torch.zeros_like(batch.gold)
    gold[0, missing] = True
    gold[1, free.index[1, 1]] = True  # already there
    forced = prompt_pass(model, replace(batch, gold=gold))
    picked = forced.run(reread=False).selection
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
