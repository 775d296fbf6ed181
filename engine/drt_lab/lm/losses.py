"""Next-token losses without the logits of all tokens in memory (cut cross entropy).

Source: Wijmans et al. 2024, arXiv 2411.09009. Logits are made a few tokens at a time, and their
gradient is not kept either: it is the softmax, which the logits give again.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_engine.model.chunking import insert_landmarks
from drt_engine.model.protocol import LanguageModel

# Logits made at a time. Those of a CPU stay in its cache, which is faster than from memory.
_AT_ONCE = {"cpu": 1 << 21, "cuda": 1 << 26}


def stream_loss(
    model: LanguageModel, chunks: Tensor, valid: Tensor, **options: Any
) -> tuple[Tensor, Tensor]:
    """Return next-token losses [n] of streams [B, C, S] and their mask [B, C, S+1].

    Landmarks have no target. The options are those of the model's ``forward``.
    """
    states = model(chunks, valid, **options)
    targets, mask = next_token_targets(chunks, valid)
    return token_losses(states[mask], model.embedding.weight, targets[mask]), mask


def next_token_targets(ids: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Return the targets of a stream's chunks [B, C, S], and their mask, both [B, C, S+1].

    The target of a chunk's last token is the first token of the next chunk; the landmark has no
    target.
    """
    flat, flat_valid = ids.flatten(1), valid.flatten(1)
    targets = F.pad(flat[:, 1:], (0, 1)).view_as(ids)
    mask = (F.pad(flat_valid[:, 1:], (0, 1)) & flat_valid).view_as(valid)
    return insert_landmarks(targets, 0), insert_landmarks(mask, False)


def token_losses(
    states: Tensor, weight: Tensor, targets: Tensor, *, most: int | None = None
) -> Tensor:
    """Return the losses [n], fp32, of ``targets`` [n] after the states [n, E].

    ``weight`` [V, E] turns states into logits. ``most`` logits are in memory at a time.
    """
    most = most or _AT_ONCE.get(states.device.type, 1 << 26)
    rows = max(1, most // len(weight))
    # The backward pass of a Function is not under autocast: the type is chosen here for both.
    device, dtype = states.device.type, states.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    losses: Tensor = _CutCrossEntropy.apply(  # type: ignore[no-untyped-call]
        states.to(dtype), weight.to(dtype), targets, rows
    )
    return losses


class _CutCrossEntropy(torch.autograd.Function):
    """Cross entropy in pieces of ``rows`` tokens.

    With fixed embeddings the gradient of the states is computed beside the losses, from the same
    logits; otherwise all of it in the backward pass, from logits that are made again.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, targets: Tensor, rows: int) -> Tensor:
        learns_states, learns_weight = ctx.needs_input_grad[:2]
        ctx.rows = rows
        losses, gradients = [], []
        for state, target in zip(states.split(rows), targets.split(rows), strict=True):
            log_p = _log_probabilities(state, weight)
            losses.append(-log_p.gather(1, target[:, None])[:, 0])
            if learns_states and not learns_weight:
                gradients.append(_logit_gradient(log_p, target, state.dtype) @ weight)
        if gradients:
            ctx.save_for_backward(torch.cat(gradients))
        elif learns_weight:
            ctx.save_for_backward(states, weight, targets)
        return torch.cat(losses) if losses else states.new_zeros(0, dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (scale,) = upstream  # [n]
        if not ctx.needs_input_grad[1]:
            if not ctx.saved_tensors:
                return None, None, None, None
            (gradient,) = ctx.saved_tensors
            return gradient * scale[:, None].to(gradient.dtype), None, None, None
        states, weight, targets = ctx.saved_tensors
        of_states, of_weight = [], torch.zeros_like(weight, dtype=scale.dtype)
        pieces = (t.split(ctx.rows) for t in (states, targets, scale))
        for state, target, by in zip(*pieces, strict=True):
            log_p = _log_probabilities(state, weight)
            of_logits = _logit_gradient(log_p, target, state.dtype) * by[:, None].to(state.dtype)
            of_weight += of_logits.t() @ state
            if ctx.needs_input_grad[0]:
                of_states.append(of_logits @ weight)
        gradient = torch.cat(of_states) if of_states else None
        return gradient, of_weight.to(weight.dtype), None, None


def _log_probabilities(states: Tensor, weight: Tensor) -> Tensor:
    """Return the logarithms [rows, V] of next-token probabilities, fp32."""
    return F.log_softmax(F.linear(states, weight).float(), dim=-1)


def _logit_gradient(log_p: Tensor, targets: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the gradient [rows, V] of the losses; overwrites ``log_p``."""
    gradient = log_p.exp_()
    gradient[torch.arange(len(targets), device=targets.device), targets] -= 1
    return gradient.to(dtype)
