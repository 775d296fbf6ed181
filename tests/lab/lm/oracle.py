"""Compare a model with an oracle in loops: states, losses, and every parameter's gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.model.protocol import LanguageModel
from drt_kernels.testing import assert_close
from drt_lab.lm.build import begin_stream, make_model
from drt_lab.lm.losses import stream_loss
from tests.engine.model.factories import full, random_ids

LIMIT = 1e-9
Parameters = Mapping[str, Tensor]
# The states of the tokens of one stream by an oracle, from its chunks of token ids.
Oracle = Callable[[Parameters, Sequence[Sequence[int]]], list[Tensor]]


def moved_model(config: ModelConfig, *, seed: int = 0) -> LanguageModel:
    """A model in double away from its start, where zeros and ones would hide mistakes."""
    torch.manual_seed(seed)
    model = make_model(config).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter) * 0.2
            parameter.add_(noise * 3 if name.startswith("embedding") else noise)
    return model.eval()


def compare(
    model: LanguageModel, oracle: Oracle, *, chunks: int = 5, untrained: tuple[str, ...] = ()
) -> None:
    """Hold a model in double to the states, losses and gradients of an oracle in loops.

    Parameters whose names begin with one of ``untrained`` have no gradient.
    """
    config = model.config
    ids = random_ids(config, 1, chunks, config.chunk)
    exact = {k: v.detach().clone().requires_grad_() for k, v in model.state_dict().items()}
    expected = oracle(exact, ids[0].tolist())
    tokens = ids.flatten().tolist()
    assert len(expected) == len(tokens)
    expected_losses = []
    for state, target in zip(expected, tokens[1:], strict=False):
        logits = exact["embedding.weight"] @ state
        expected_losses.append(logits.exp().sum().log() - logits[target])
    torch.stack(expected_losses).mean().backward()  # type: ignore[no-untyped-call]

    states = model(ids, full(ids))
    actual = states[0, :, : config.chunk].flatten(0, 1)
    assert_close("states", torch.stack(expected).detach(), actual.detach(), LIMIT)
    losses, mask = stream_loss(model, ids, full(ids))
    assert mask.shape == (1, chunks, config.chunk + 1) and not mask[..., -1].any()
    assert_close("losses", torch.stack(expected_losses).detach(), losses.detach(), LIMIT)
    model.zero_grad()
    losses.mean().backward()
    for name, parameter in model.named_parameters():
        gradient = exact[name].grad
        if name.startswith(untrained or ("-",)):
            assert gradient is None and parameter.grad is None, name
            continue
        assert gradient is not None and gradient.abs().max() > 0, name
        assert parameter.grad is not None, name
        assert_close(f"gradient of {name}", gradient, parameter.grad, LIMIT)


@torch.no_grad()
def compare_pieces(model: LanguageModel, *, pieces: Sequence[int], limit: float = 1e-9) -> None:
    """Hold prefill in pieces of so many tokens, and then single steps, to ``forward``."""
    config = model.config
    chunks = 2 + -(-(sum(pieces) + 3) // config.chunk)
    ids = random_ids(config, 1, chunks, config.chunk)
    expected = model(ids, full(ids))[0, :, : config.chunk].flatten(0, 1)
    tokens, at = ids.flatten().tolist(), 0
    dtype = model.embedding.weight.dtype
    state = begin_stream(model, dtype=dtype)
    for count in pieces:
        actual = state.prefill(tokens[at : at + count])
        assert_close(f"states from {at}", expected[at : at + count], actual, limit)
        at += count
    while at < len(tokens):
        logits = state.step(tokens[at])
        assert_close(f"logits at {at}", model.logits(expected[at]).float(), logits, limit)
        at += 1
    assert state.position == len(tokens)


@torch.no_grad()
def compare_padding(model: LanguageModel, *, limit: float = 1e-9) -> None:
    """Hold ``close`` in the middle of a chunk to ``forward`` over that chunk padded."""
    config = model.config
    size = config.chunk
    ids = random_ids(config, 1, 4, size)
    valid = full(ids)
    valid[0, 1, size // 2 :] = False
    expected = model(ids, valid)[0, :, :size][valid[0]]
    state = begin_stream(model, dtype=model.embedding.weight.dtype)
    before = size + size // 2
    tokens = ids[valid].tolist()
    actual = state.prefill(tokens[:before])
    state.close()
    state.close()
    actual = torch.cat([actual, state.prefill(tokens[before:])])
    assert_close("states around a padded chunk", expected, actual, limit)
