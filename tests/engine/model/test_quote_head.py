"""Start, end and null logits from stored memory, and what re-reading adds."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from drt_engine.model.drt import DRT
from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.quote_head import QuoteHead, Reread
from tests.engine.model.factories import BERT, make_model, random_ids, small_like, tiny


@pytest.fixture(scope="module")
def model() -> DRT:
    return make_model(small_like())


def head_of(model: DRT) -> QuoteHead:
    assert model.quote_head is not None
    return model.quote_head


def random_memory(model: DRT, chunks: int = 4) -> ChunkMemory:
    config = model.config
    shape = (chunks, config.chunk, config.kv_heads, config.head_size)
    mask = torch.rand(shape[:2]) < 0.8
    return ChunkMemory(torch.randn(shape), torch.randn(shape), mask, torch.zeros(chunks, 1))


@torch.no_grad()
def test_logits_point_at_stored_tokens(model: DRT) -> None:
    head, memory = head_of(model), random_memory(model)
    answer, index = torch.randn(2, 32), torch.tensor([[3, 1], [0, 0]])
    log_p = torch.log_softmax(torch.randn(2, 2), -1)
    logits = head(answer, memory, index, log_p)
    for n, r, u in [(0, 0, 0), (0, 1, 3), (1, 1, 7)]:
        chunk = int(index[n, r])
        if not memory.mask[chunk, u]:
            assert logits.start[n, r, u] == logits.end[n, r, u] == float("-inf")
            continue
        flat = torch.cat([memory.keys[chunk, u].flatten(), memory.values[chunk, u].flatten()])
        stored, a = head.memory_norm(flat), head.norm(answer[n])
        for part, query in ((logits.start, head.start_query), (logits.end, head.end_query)):
            wanted = query(a) @ stored / len(stored) ** 0.5 + log_p[n, r]
            torch.testing.assert_close(part[n, r, u], wanted)
    torch.testing.assert_close(logits.null, head.null(head.norm(answer))[:, 0])


@torch.no_grad()
def test_a_chunk_that_was_not_chosen_has_no_logits(model: DRT) -> None:
    memory = random_memory(model)
    log_p = torch.tensor([[0.0, float("-inf")]])
    logits = head_of(model)(torch.randn(1, 32), memory, torch.tensor([[1, 0]]), log_p)
    assert torch.isneginf(logits.start[0, 1]).all()
    assert torch.isfinite(logits.start[0, 0, memory.mask[1]]).all()


@torch.no_grad()
def test_rereading_adds_a_linear_term(model: DRT) -> None:
    head, memory = head_of(model), random_memory(model)
    probability = torch.tensor([[0.75, 0.25]])
    index = torch.tensor([[1, 2]])
    before = head(torch.randn(1, 32), memory, index, probability.log())
    again = Reread(torch.randn(1, 2, 8, 32), memory.mask[index], torch.randn(1, 2, 32))
    after = head.add_reread(before, again, probability)
    assert head.reread_span is not None and head.reread_null is not None
    here = memory.mask[index]
    span = head.reread_span(again.states)
    judged = head.reranker_scores(again)[..., None]
    assert judged.abs().min() > 1e-4
    torch.testing.assert_close(after.start[here], (before.start + span[..., 0] + judged)[here])
    torch.testing.assert_close(after.end[here], (before.end + span[..., 1] + judged)[here])
    null = (head.reread_null(again.border)[..., 0] * probability).sum(-1)
    torch.testing.assert_close(after.null, before.null + null)
    assert torch.isneginf(after.start[~here]).all()


@torch.no_grad()
def test_rereading_is_reading_with_the_question_in_front(model: DRT) -> None:
    config = model.config
    question, chunk = random_ids(config, 5, seed=2), random_ids(config, 10, seed=3)
    mark = torch.tensor([config.landmark_id])
    ids = torch.cat([question, mark, chunk, mark])[None]
    valid = torch.ones(ids.shape, dtype=torch.bool)
    wanted = model.encoder(model.lower_states(ids, valid), valid, last=model.reader)[0]
    again, memory = model.reread(
        question[None],
        torch.ones(1, 5, dtype=torch.bool),
        chunk[None, None],
        torch.ones(1, 1, 10, dtype=torch.bool),
    )
    torch.testing.assert_close(again.states[0, 0], wanted[6:16])
    torch.testing.assert_close(again.border[0, 0], wanted[16])
    keys, values = model.project_memory(wanted[6:16][None])
    torch.testing.assert_close(memory.keys, keys)
    torch.testing.assert_close(memory.values, values)


@torch.no_grad()
def test_layers_of_its_own_change_rereading_and_nothing_else() -> None:
    config = small_like(encoder=replace(BERT, layers=3), reread_layers=2)
    model = make_model(config)
    assert model.reader is not None
    chunk = random_ids(config, 1, 1, 6, seed=3)
    states = torch.randn(1, 7, config.width)
    whole = torch.ones(1, 7, dtype=torch.bool)

    def both() -> tuple[torch.Tensor, torch.Tensor]:
        again, _ = model.reread(chunk[0], chunk[0] > 0, chunk, chunk > 0)
        return again.states, model.encode(states, whole).states

    read, encoded = both()
    for own, source in zip(model.reader, model.encoder.blocks[1:], strict=True):
        own.load_state_dict(source.state_dict())
    same, as_before = both()
    assert torch.equal(encoded, as_before) and not torch.allclose(read, same)
    model.reader = None  # the encoder's own, then
    torch.testing.assert_close(same, both()[0])


@torch.no_grad()
def test_padding_in_rereading_changes_nothing(model: DRT) -> None:
    config = model.config
    question, chunk = random_ids(config, 5, seed=2), random_ids(config, 6, seed=3)
    alone, _ = model.reread(
        question[None], question[None] > 0, chunk[None, None], chunk[None, None] > 0
    )
    front = torch.cat([torch.zeros(3, dtype=torch.long), question])
    missing = torch.zeros(2, dtype=torch.long)
    around = torch.cat([missing, chunk[:4], missing, chunk[4:]])
    padded, _ = model.reread(
        front[None], front[None] > 0, around[None, None], around[None, None] > 0
    )
    here = around > 0
    torch.testing.assert_close(padded.states[0, 0, here], alone.states[0, 0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(padded.border, alone.border, rtol=1e-4, atol=1e-5)


def test_without_the_option_there_is_no_head() -> None:
    assert make_model(tiny()).quote_head is None
