"""The layout of a prompt, and that neither cropping nor company in a batch changes it."""

from __future__ import annotations

import torch
from torch import Tensor

from drt_engine.model.drt import DRT
from drt_engine.model.prompt import Prompt, lay_out, query_slots, segments
from tests.engine.model.factories import make_model, random_ids, small_like, tiny
from tests.tables import each_row

CONFIG = tiny()
S, LMK, ANSWER = CONFIG.chunk, CONFIG.landmark_id, CONFIG.answer_id
LENGTHS = [1, S - 1, S, S + 1, 3 * S + 2]


def question(length: int, seed: int = 0) -> list[int]:
    return random_ids(CONFIG, length, seed=seed).tolist()


def in_chunks(ids: list[int], first: int) -> list[list[int]]:
    """Cut after the first ``first`` tokens and then every S."""
    return [ids[:first]] * (first > 0) + [ids[i : i + S] for i in range(first, len(ids), S)]


@each_row("length", LENGTHS)
@each_row("answer", [0, 1, S, 2 * S + 3])
def test_layout_of_one_question(length: int, answer: int) -> None:
    asked, reply = question(length), question(answer, seed=1)
    prompt = lay_out([asked], [reply], CONFIG)
    query = in_chunks(asked, length % S)
    tail = in_chunks([*asked, ANSWER, *reply], 0)
    wanted = [token for chunk in query for token in [*chunk, LMK]]
    wanted += [token for chunk in tail for token in [*chunk, LMK]][:-1]
    assert prompt.ids[0].tolist() == wanted
    assert prompt.valid.all()  # nothing is padded in a prompt of its own
    assert prompt.borders == tuple(i for i, token in enumerate(wanted) if token == LMK)
    assert prompt.query_borders == len(query)
    assert prompt.answer_slot.tolist() == [wanted.index(ANSWER)]


@each_row("length", LENGTHS)
def test_restated_tokens_know_their_first_mention(length: int) -> None:
    asked = question(length)
    prompt = lay_out([asked], [[7, 8]], CONFIG)
    again = (prompt.restates[0] >= 0).nonzero().flatten()
    assert prompt.ids[0, again].tolist() == asked
    assert prompt.ids[0, prompt.restates[0, again]].tolist() == asked
    assert prompt.restates[0, again].tolist() == sorted(set(prompt.restates[0, again].tolist()))
    assert again.min() > prompt.borders[prompt.query_borders - 1]


@each_row("length", LENGTHS)
def test_segments_are_the_chunks_with_their_landmarks(length: int) -> None:
    prompt = lay_out([question(length)], [question(S, seed=1)], CONFIG)
    parts = segments(prompt)
    assert [a for a, _ in parts[1:]] == [b for _, b in parts[:-1]]
    assert (parts[0][0], parts[-1][1]) == (0, prompt.ids.shape[1])
    assert all(prompt.ids[0, b - 1] == LMK for _, b in parts[:-1])
    assert max(b - a for a, b in parts) <= CONFIG.slots


def test_query_slots_crop_the_first_chunk() -> None:
    assert query_slots(1, 8) == [1]
    assert query_slots(8, 8) == [8]
    assert query_slots(19, 8) == [3, 8, 8]


def pool_free_states(model: DRT, prompt: Prompt) -> tuple[Tensor, list[Tensor]]:
    """Upper states without retrieval, and the landmarks of the query chunks."""
    states, encoded = model.prompt_states(prompt)
    upper = model.upper_states(states, prompt.valid, lambda group, x: ())
    return upper, [e.landmarks for e in encoded]


def uncropped(prompt: Prompt, missing: int) -> Prompt:
    """The same prompt with the first query chunk in full, padding in front."""
    count = prompt.ids.shape[0]
    front = torch.full((count, missing), CONFIG.pad_id)
    return Prompt(
        torch.cat([front, prompt.ids], 1),
        torch.cat([front > 0, prompt.valid], 1),
        tuple(b + missing for b in prompt.borders),
        prompt.query_borders,
        prompt.answer_slot + missing,
        torch.cat([front - 1, prompt.restates + missing * (prompt.restates >= 0)], 1),
    )


@each_row("length", LENGTHS)
def test_cropping_changes_nothing(length: int) -> None:
    model = make_model(small_like())
    prompt = lay_out([question(length)], [[9, 9]], model.config)
    missing = -length % S
    states, landmarks = pool_free_states(model, prompt)
    padded = uncropped(prompt, missing)
    more_states, more_landmarks = pool_free_states(model, padded)
    torch.testing.assert_close(more_states[:, missing:], states, rtol=1e-4, atol=1e-5)
    for one, other in zip(landmarks, more_landmarks, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5)


@each_row(
    "lengths",
    [(1, S - 2, 3), (S, 1, S - 1), (S + 1, S + 5, 2 * S), (1, S + 1, 3 * S + 2)],
    ids=["one-chunk", "up-to-a-border", "two-chunks", "one-to-four-chunks"],
)
def test_a_batch_equals_each_alone(lengths: tuple[int, ...]) -> None:
    model = make_model(small_like())
    asked = [question(n, seed=n) for n in lengths]
    replies = [question(n, seed=n + 50) for n in (2, 0, 5)]
    batch = lay_out(asked, replies, model.config)
    states, encoded = pool_free_states(model, batch)
    for row, (one, reply) in enumerate(zip(asked, replies, strict=True)):
        alone = lay_out([one], [reply], model.config)
        wanted, landmarks = pool_free_states(model, alone)
        at, here = int(batch.answer_slot[row]), int(alone.answer_slot[0])
        torch.testing.assert_close(states[row, at], wanted[0, here], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(encoded[-1][row], landmarks[-1][0], rtol=1e-4, atol=1e-5)
        tokens = alone.ids[0, alone.ids[0] != LMK]
        assert torch.equal(batch.ids[row, batch.valid[row] & (batch.ids[row] != LMK)], tokens)


def test_the_question_is_added_to_its_restatement_only() -> None:
    model = make_model(small_like())
    prompt = lay_out([question(5)], [[9, 9]], model.config)
    plain = model.lower_states(prompt.ids, prompt.valid)
    states, encoded = model.prompt_states(prompt)
    assert model.question_map is not None
    wanted = plain.clone()
    wanted[0, 6:11] += model.question_map(encoded[0].states[0])
    torch.testing.assert_close(states, wanted)


def test_the_question_of_several_chunks_is_added_slot_by_slot() -> None:
    model = make_model(small_like())
    length = S + 3
    prompt = lay_out([question(length)], [[9]], model.config)
    states, encoded = model.prompt_states(prompt)
    assert model.question_map is not None
    added = states - model.lower_states(prompt.ids, prompt.valid)
    known = torch.cat([e.states[0] for e in encoded])
    again = prompt.restates[0] >= 0
    torch.testing.assert_close(added[0, again], model.question_map(known), rtol=1e-4, atol=1e-5)
    assert added[0, ~again].abs().max() == 0
