"""DRT with retrievers that are not learnt, and with a norm before its queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from drt_engine.config.model import EncoderConfig, ModelConfig
from drt_engine.errors import ConfigError, WeightsError
from drt_engine.model.drt import DRT
from drt_engine.model.frozen import random_ranking
from drt_engine.model.weights import save_model
from drt_kernels.testing import assert_close
from drt_lab.lm import fixed_retriever
from drt_lab.lm.build import add_retriever, begin_stream
from drt_lab.lm.chunk_store import Place
from drt_lab.lm.fixed_retriever import FixedRetriever
from drt_lab.lm.losses import stream_loss
from tests.engine.model.factories import full, make_model, random_ids, tiny
from tests.engine.model.paper_model import PaperModel
from tests.fakes import byte_tokenizer
from tests.lab.lm.oracle import (
    Parameters,
    compare,
    compare_padding,
    compare_pieces,
    moved_model,
)
from tests.sampling import sampled

pytestmark = pytest.mark.usefixtures("double")
TINY: dict[str, object] = {
    "vocab": 13,
    "width": 8,
    "heads": 2,
    "kv_heads": 1,
    "mlp": 6,
    "chunk": 3,
    "window": 5,
    "lower_layers": 1,
    "groups": 2,
}


def drt_config(**changes: object) -> ModelConfig:
    encoder = EncoderConfig(layers=1, heads=2, mlp=6, positions=8)
    return tiny(**{**TINY, "encoder": encoder, **changes})


def drt(**changes: object) -> DRT:
    model = moved_model(drt_config(**changes))
    assert isinstance(model, DRT)
    model.chunk_vectors = vectors
    return model


def vectors(chunks: Tensor, valid: Tensor) -> Tensor:
    """Unit vectors that depend on the ids of a chunk alone."""
    seeds = (chunks * valid).sum(dim=-1, keepdim=True) + chunks[..., :1]
    return torch.nn.functional.normalize((seeds * torch.tensor([0.7, 1.9, 4.2])).sin(), dim=-1)


def oracle(model: DRT, exact: Parameters, chunks: Sequence[Sequence[int]]) -> list[Tensor]:
    config = model.config
    paper = PaperModel(config, exact)
    if config.retriever == "random":
        paper.ranking = murmur
    if config.retriever == "fixed":
        ids = torch.tensor(chunks)[None]
        unit = vectors(ids, full(ids))[0].double()
        paper.frozen_scores = torch.stack([20 * (unit @ row) for row in unit])
    return without_landmark_slots(paper.states(chunks)[0], config)


def without_landmark_slots(states: Sequence[Tensor], config: ModelConfig) -> list[Tensor]:
    return [state for slot, state in enumerate(states) if slot % (config.chunk + 1) < config.chunk]


def murmur(group: int, t: int, k: int) -> float:
    """The hash that ranks chunks, in Python's own integers."""
    x = (group * 0x9E3779B1 + t * 0x85EBCA77 + k * 0xC2B2AE3D) % 2**32
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ x >> shift) * factor % 2**32
    return x ^ x >> 16


@pytest.mark.parametrize(
    ("changes", "untrained"),
    [
        pytest.param({"query_norm": True}, (), marks=pytest.mark.thorough),
        pytest.param({"retriever": "random"}, (), marks=pytest.mark.thorough),
        ({"retriever": "fixed"}, ("scorer.",)),
    ],
    ids=["query norm", "random", "fixed"],
)
def test_it_computes_its_equations(changes: dict[str, object], untrained: tuple[str, ...]) -> None:
    model = drt(**changes)
    compare(model, lambda exact, chunks: oracle(model, exact, chunks), untrained=untrained)
    compare_pieces(model, pieces=(1, 4, 7))
    compare_padding(model)


@pytest.mark.thorough
@pytest.mark.parametrize("place", sampled(["device", "cpu", "disk"], {2}))
def test_memory_may_be_anywhere(place: Place) -> None:
    model = drt()
    tokens = random_ids(model.config, 40).tolist()
    with torch.no_grad():
        expected = begin_stream(model, dtype=torch.float64).prefill(tokens)
        state = begin_stream(model, dtype=torch.float64, place=place)
        assert torch.equal(state.prefill(tokens), expected)
        before = state.state_bytes
        state.prefill(tokens[:12])  # from 13 chunks to 17, and from room for 16 to room for 34
    # A landmark, and 3 keys and values of 4 numbers.
    chunk_bytes = 8 * 8 + (2 * 3 * 4 * 8 + 3 if place == "device" else 0)
    assert state.state_bytes - before == 18 * chunk_bytes


def test_a_random_choice_is_even_and_differs_by_group() -> None:
    ranks = random_ranking(0, torch.arange(400), 400)
    order = ranks.argsort(dim=-1).argsort(dim=-1).double()
    assert abs(torch.corrcoef(torch.stack([order[7], order[8]]))[0, 1]) < 0.2
    assert (order.mean(dim=0) - 199.5).abs().max() < 30
    assert not torch.equal(ranks, random_ranking(1, torch.arange(400), 400))


def test_a_learnt_retriever_may_draw_its_chunks_as_a_baseline() -> None:
    learnt, drawn = drt(), drt(retriever="random")
    drawn.load_state_dict(learnt.state_dict())
    ids = random_ids(learnt.config, 1, 12, 3)
    expected, _ = stream_loss(drawn, ids, full(ids))
    assert torch.equal(stream_loss(learnt, ids, full(ids), ranking=random_ranking)[0], expected)
    assert not torch.equal(stream_loss(learnt, ids, full(ids))[0], expected)


def test_while_training_every_step_chooses_anew_at_random() -> None:
    model = drt(retriever="random")
    ids = random_ids(model.config, 1, 9, 3)
    losses = [
        stream_loss(model, ids, full(ids), generator=torch.Generator().manual_seed(seed))[0]
        for seed in (0, 0, 1)
    ]
    assert torch.equal(losses[0], losses[1]) and not torch.equal(losses[0], losses[2])
    fixed = drt(retriever="fixed")
    noisy, _ = stream_loss(fixed, ids, full(ids), generator=torch.Generator().manual_seed(0))
    assert torch.equal(noisy, stream_loss(fixed, ids, full(ids))[0])


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    tokenizer = byte_tokenizer()
    folder = tmp_path / "encoder"
    config = tiny(vocab=tokenizer.vocab_size)
    save_model(make_model(config), tokenizer, folder, dtype=torch.float32)
    return folder


def test_vectors_are_computed_once_and_kept_beside_the_shards(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the encoder is fp32
    tokenizer, encoded = byte_tokenizer(), []
    real = FixedRetriever._encode

    def count(self: FixedRetriever, rows: Sequence[Sequence[int]]) -> Tensor:
        encoded.extend(rows)
        return real(self, rows)

    monkeypatch.setattr(fixed_retriever.FixedRetriever, "_encode", count)
    ids = torch.tensor([tokenizer.encode(t).ids for t in ("the bell.", "the bell,", "the bell.")])
    ids = ids[:, None]
    retriever = FixedRetriever(encoder, tokenizer, cache=tmp_path / "tokens")
    first = retriever(ids, full(ids))
    assert first.shape == (3, 1, 32) and len(encoded) == 2
    assert torch.equal(first[0], first[2]) and not torch.equal(first[0], first[1])
    assert_close("norms", torch.ones(3, 1), first.norm(dim=-1), 1e-3)
    # A copy of the file that a crash cut in its second record, beside the process that writes.
    (file,) = (tmp_path / "tokens").iterdir()
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / file.name).write_bytes(file.read_bytes()[:-3])
    again = FixedRetriever(encoder, tokenizer, cache=tmp_path / "cut")
    assert torch.equal(again(ids, full(ids)), first) and len(encoded) == 3
    assert (tmp_path / "cut" / file.name).read_bytes() == file.read_bytes()
    beside = FixedRetriever(encoder, tokenizer, cache=tmp_path / "tokens")
    assert torch.equal(beside(ids, full(ids)), first) and len(encoded) == 3


def test_a_model_needs_its_encoder() -> None:
    model = drt(retriever="fixed")
    model.chunk_vectors = None
    ids = random_ids(model.config, 1, 2, 3)
    with pytest.raises(ConfigError, match="needs its encoder"):
        model(ids, full(ids))
    nobody = drt(retriever="fixed", retriever_model="nobody")
    with pytest.raises(WeightsError, match="'nobody'"):
        add_retriever(nobody, byte_tokenizer())
    with pytest.raises(ConfigError, match="expected 'landmark' for a model that answers"):
        tiny(retriever="random", quote_head=True)
