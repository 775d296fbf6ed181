"""What saves memory while training changes no result: layers, attention and logits once more."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from drt_engine.config.model import ARCHITECTURES, ModelConfig
from drt_engine.model.protocol import LanguageModel, Recompute
from drt_kernels.testing import assert_close
from drt_lab.bench.memory import peak_bytes
from drt_lab.lm.build import make_model
from drt_lab.lm.losses import stream_loss, token_losses
from tests.engine.model.factories import full, random_ids, tiny
from tests.lab.lm.oracle import moved_model
from tests.sampling import sampled

CHANGES: dict[str, dict[str, object]] = {
    "block-recurrent": {"state_tokens": 4},
    "rpt": {"retriever": "random"},
}


def shape(architecture: str) -> ModelConfig:
    return tiny(architecture=architecture, **CHANGES.get(architecture, {}))


def gradients(model: LanguageModel, ids: Tensor, recompute: Recompute) -> list[Tensor]:
    model.set_recompute(recompute)
    model.zero_grad()
    losses, _ = stream_loss(model, ids, full(ids), generator=torch.Generator().manual_seed(0))
    losses.mean().backward()
    return [losses.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", sampled(ARCHITECTURES, {0}, thorough={4}))
def test_gradients_are_the_same_bits_with_less_memory(architecture: str) -> None:
    torch.manual_seed(0)
    model = make_model(shape(architecture))
    ids = random_ids(model.config, 1, 16, 8)
    expected, peaks = gradients(model, ids, "nothing"), []
    for recompute in ("nothing", "attention", "layers"):
        actual: list[Tensor] = []
        peaks.append(peak_bytes(lambda: actual.extend(gradients(model, ids, recompute))))  # noqa: B023
        assert len(actual) == len(expected) > 10
        assert all(torch.equal(a, e) for a, e in zip(actual, expected, strict=True))
    assert peaks[2] < 0.8 * peaks[0]
    if architecture != "landmark":  # it has no window
        assert peaks[1] < peaks[0]


def test_losses_in_pieces_are_the_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "float", Tensor.double)
    model = moved_model(shape("base"))
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(200, 32, dtype=torch.float64, generator=generator)
    targets = torch.randint(model.config.vocab, (200,), generator=generator)
    results, peaks = [], []
    for most in (1 << 26, 7 * model.config.vocab):
        model.zero_grad()
        given = states.clone().requires_grad_()

        def work() -> None:
            losses = token_losses(given, model.embedding.weight, targets, most=most)  # noqa: B023
            losses.square().sum().backward()

        peaks.append(peak_bytes(work))
        with torch.no_grad():
            losses = token_losses(given, model.embedding.weight, targets, most=most)
        assert given.grad is not None and model.embedding.weight.grad is not None
        results.append([losses, given.grad, model.embedding.weight.grad])
    for name, one, pieces in zip(("losses", "states", "embedding"), *results, strict=True):
        assert_close(name, one, pieces, 1e-9)
    assert peaks[1] < 0.6 * peaks[0]
