"""The choice of chunks and their probabilities; noise decides the choice and nothing else."""

from __future__ import annotations

import pytest
import torch

from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.selection import (
    causal_mask,
    gumbel_noise,
    select,
    selection_of,
)
from drt_engine.retrieval.sources import StreamSource, join_memories
from tests.engine.model.factories import make_model, tiny

INF = float("inf")


def test_the_best_are_chosen_best_first() -> None:
    scores = torch.tensor([[0.5, 3.0, -1.0, 2.0]])
    found = select(scores, torch.ones(1, 4) > 0, 3)
    assert found.index.tolist() == [[1, 3, 0]]
    assert found.scores.tolist() == [[3.0, 2.0, 0.5]]
    torch.testing.assert_close(found.probabilities, torch.softmax(found.scores, -1))


def test_only_allowed_chunks_are_chosen() -> None:
    scores = torch.tensor([[9.0, 1.0, 8.0, 2.0]])
    found = select(scores, torch.tensor([[False, True, False, True]]), 3)
    assert found.index.tolist() == [[3, 1, 0]]
    assert found.scores.tolist() == [[2.0, 1.0, -INF]]
    wanted = [*torch.softmax(torch.tensor([2.0, 1.0]), 0).tolist(), 0.0]
    assert found.probabilities[0].tolist() == pytest.approx(wanted)


def test_where_nothing_is_allowed_nothing_counts() -> None:
    scores = torch.randn(2, 3, requires_grad=True)
    found = select(scores, torch.zeros(2, 3) > 0, 2)
    assert found.probabilities.abs().max() == 0
    assert torch.isneginf(found.scores).all()
    found.probabilities.sum().backward()
    assert scores.grad is not None and scores.grad.abs().max() == 0


def test_more_than_there_are_gives_all() -> None:
    assert select(torch.randn(1, 2), torch.ones(1, 2) > 0, 8).index.shape == (1, 2)


def test_causal_mask_is_strict() -> None:
    assert causal_mask(3).int().tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]


def test_the_gradient_is_that_of_the_softmax_over_the_kept() -> None:
    scores = torch.randn(1, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, dtype=torch.float64)
    found = select(scores, torch.ones(1, 5) > 0, 3)
    (found.probabilities[0] * weight).sum().backward()
    leaf = scores.detach()[0, found.index[0]].requires_grad_()
    (torch.softmax(leaf, 0) * weight).sum().backward()
    assert scores.grad is not None and leaf.grad is not None
    torch.testing.assert_close(scores.grad[0, found.index[0]], leaf.grad)
    assert scores.grad.count_nonzero() == 3


def test_noise_is_standard_gumbel() -> None:
    noise = gumbel_noise(torch.Size([20_000]), torch.Generator().manual_seed(0))
    assert noise.isfinite().all()
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.05)
    assert noise.var().item() == pytest.approx(torch.pi**2 / 6, abs=0.1)


def test_noise_decides_only_the_choice() -> None:
    scores = torch.randn(64, 6)
    clean = select(scores, torch.ones(64, 6) > 0, 2)
    noisy = select(scores, torch.ones(64, 6) > 0, 2, generator=torch.Generator().manual_seed(1))
    assert (noisy.index != clean.index).any()
    assert torch.equal(noisy.scores, scores.gather(1, noisy.index))
    torch.testing.assert_close(noisy.probabilities, torch.softmax(noisy.scores, -1))


def test_noise_never_chooses_what_is_not_allowed() -> None:
    allowed = causal_mask(6).expand(50, -1, -1)
    found = select(torch.randn(50, 6, 6), allowed, 3, generator=torch.Generator().manual_seed(2))
    kept = found.probabilities > 0
    assert allowed.gather(-1, found.index)[kept].all()
    assert kept.sum(-1).tolist() == [[0, 1, 2, 3, 3, 3]] * 50


def test_the_same_generator_gives_the_same_choice() -> None:
    scores, allowed = torch.randn(9, 6), torch.ones(9, 6) > 0
    one, other = (
        select(scores, allowed, 2, generator=torch.Generator().manual_seed(7)) for _ in range(2)
    )
    assert torch.equal(one.index, other.index)


def test_frequencies_of_a_single_choice_follow_the_softmax() -> None:
    scores, draws = torch.tensor([1.0, 0.0, -1.0, 0.5]), 4000
    counts = torch.zeros(4)
    for seed in range(4):  # several seeds: each is a generator of its own
        generator = torch.Generator().manual_seed(seed)
        found = select(scores.expand(draws, -1), torch.ones(draws, 4) > 0, 1, generator=generator)
        counts += torch.bincount(found.index[:, 0], minlength=4)
    wanted = torch.softmax(scores, 0)
    deviation = (wanted * (1 - wanted) / (4 * draws)).sqrt()
    assert ((counts / (4 * draws) - wanted).abs() < 5 * deviation).all()


def test_given_chunks_get_their_probabilities() -> None:
    scores = torch.tensor([[0.0, 1.0, 2.0]])
    found = selection_of(scores, torch.tensor([[2, 0]]), torch.ones(1, 2) > 0)
    assert found.scores.tolist() == [[2.0, 0.0]]
    assert found.probabilities.sum().item() == pytest.approx(1)


def memory_of(chunks: int, tokens: int) -> ChunkMemory:
    shape = (chunks, tokens, 2, 8)
    mask = torch.ones(chunks, tokens) > 0
    return ChunkMemory(torch.randn(shape), torch.randn(shape), mask, torch.randn(chunks, 32))


def test_a_stream_source_knows_its_own_chunks_by_number() -> None:
    scorer = make_model(tiny()).scorer
    source = StreamSource(2)
    asking = memory_of(1, 8)
    assert source.find(torch.randn(32), scorer, asking) is None
    chunks = [memory_of(1, 8) for _ in range(4)]
    for chunk in chunks:
        source.add(chunk)
    query = torch.randn(32)
    found = source.find(query, scorer, asking)
    assert found is not None
    scores = torch.stack([query @ c.landmarks[0] for c in chunks])
    wanted = scores.topk(2)
    assert found.chunk_ids == tuple(-1 - i for i in wanted.indices.tolist())
    torch.testing.assert_close(found.retrieved.scores[0, 0], wanted.values)
    picked = found.retrieved.memory.keys[found.retrieved.index[0, 0]]
    assert torch.equal(picked, torch.cat([chunks[i].keys for i in wanted.indices.tolist()]))


def test_chunks_of_different_lengths_join() -> None:
    joined = join_memories([memory_of(1, 3), memory_of(2, 8)])
    assert joined.keys.shape == (3, 8, 2, 8)
    assert joined.mask.sum(1).tolist() == [3, 8, 8]
