"""Losses and gradients are those of the cross entropy of all logits."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_lab.lm.losses import next_token_targets, token_losses
from tests.tables import each_row

COUNT, WIDTH, VOCAB = 50, 16, 97


def inputs(*, learns: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return states, embeddings, targets and the weight of each loss."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(COUNT, WIDTH, generator=generator, requires_grad=True)
    weight = torch.randn(VOCAB, WIDTH, generator=generator, requires_grad=learns)
    targets = torch.randint(VOCAB, (COUNT,), generator=generator)
    return states, weight, targets, torch.rand(COUNT, generator=generator)


def whole(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(states, weight).float(), targets, reduction="none")


@each_row("bf16", [False, True])
@each_row("learns", [False, True])
@each_row("rows", [1, 7, COUNT, 1000])
def test_losses_and_gradients_are_those_of_all_logits(rows: int, learns: bool, bf16: bool) -> None:
    results = []
    for function in (whole, lambda *of: token_losses(*of, most=rows * VOCAB)):
        states, weight, targets, scale = inputs(learns=learns)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            losses = function(states, weight, targets)
        (losses * scale).sum().backward()
        assert (weight.grad is not None) == learns and losses.dtype == torch.float32
        results.append([losses.detach(), states.grad, *([weight.grad] if learns else [])])
    for expected, actual in zip(*results, strict=True):
        assert expected is not None and actual is not None
        error = (actual - expected).norm() / expected.norm()
        assert error < (0.01 if bf16 else 1e-5)


def test_nothing_is_kept_where_nothing_learns() -> None:
    states, weight, targets, _ = inputs(learns=False)
    with torch.no_grad():
        losses = token_losses(states, weight, targets, most=VOCAB)
    assert not losses.requires_grad
    torch.testing.assert_close(losses, whole(states, weight, targets).detach())


def test_no_tokens_have_no_losses() -> None:
    states, weight, targets, _ = inputs(learns=True)
    losses = token_losses(states[:0], weight, targets[:0])
    losses.sum().backward()
    assert losses.shape == (0,) and weight.grad is not None and not weight.grad.any()


def test_targets_skip_landmarks() -> None:
    targets, mask = next_token_targets(torch.tensor([[[5, 6], [7, 8]]]), torch.ones(1, 2, 2) > 0)
    # The last token of a chunk is followed by the first of the next; the landmark has no target.
    assert targets[mask].tolist() == [6, 7, 8]
    assert mask.tolist() == [[[True, True, False], [True, False, False]]]
    assert targets.shape == (1, 2, 3)


def test_padding_has_no_target_and_is_none() -> None:
    ids = torch.tensor([[[5, 6], [7, 0]]])
    valid = torch.tensor([[[True, True], [True, False]]])
    targets, mask = next_token_targets(ids, valid)
    assert targets[mask].tolist() == [6, 7]
    assert mask.tolist() == [[[True, True, False], [False, False, False]]]
