"""The loss of rows in which retrieval is learnt: weight on far copies, labels for the scorer.

The next-token loss of all tokens forms no copying circuit where few tokens can be copied, and an
untaught choice among many chunks unlearns what reading there is (``docs/paper.md``). So far copies
can weigh more than other tokens, and scores can be taught which earlier chunks share rare trigrams
with the next one: labels that cost no model and no annotation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drt_engine.model.chunking import insert_landmarks
from drt_engine.model.drt import DRT
from drt_engine.model.protocol import LanguageModel
from drt_lab.data.far_copies import SharedTrigrams, far_copies
from drt_lab.lm.losses import stream_loss


@dataclass(frozen=True)
class Weights:
    """Weights of parts of the loss: of a far copy, of any other token, and of the labels."""

    far: float = 1.0
    rest: float = 1.0
    labels: float = 0.0

    @property
    def are_plain(self) -> bool:
        """Whether the loss is the mean of all tokens, which needs nothing counted."""
        return self.far == self.rest and not self.labels


@dataclass(frozen=True)
class Rows:
    """Whole chunks [B, C, S], their far copies [B, C, S], and labels [B, C, C] of their choice.

    Both are ``None`` where nothing is weighted.
    """

    chunks: Tensor
    far: Tensor | None = None
    labels: Tensor | None = None

    def to(self, device: torch.device) -> Rows:
        """Return the rows on a device."""
        parts = (self.chunks, self.far, self.labels)
        return Rows(*(part if part is None else part.to(device) for part in parts))  # type: ignore[arg-type]


def counted_rows(chunks: Tensor, weights: Weights, *, window: int) -> Rows:
    """Return rows [B, C, S] with what their loss needs counted."""
    if weights.are_plain:
        return Rows(chunks)
    size, ids = chunks.shape[2], chunks.flatten(1).numpy()
    far = torch.stack([far_copies(row, window=window, chunk=size) for row in ids])
    labels = None
    if weights.labels:
        labels = torch.stack([SharedTrigrams(row, size).labels() for row in ids])
    return Rows(chunks, far.view_as(chunks), labels)


def rows_loss(
    model: LanguageModel, rows: Rows, generator: torch.Generator | None, weights: Weights
) -> tuple[Tensor, dict[str, float]]:
    """Return the weighted loss of rows, and what to log.

    ``lm`` is the mean over all tokens and ``far`` over far copies; ``labels`` and ``score_sd``, the
    standard deviation of a query's scores, only of a DRT that is taught by labels.
    """
    chunks = rows.chunks
    valid = torch.ones_like(chunks, dtype=torch.bool)
    scores: list[Tensor] = []
    if rows.labels is not None and isinstance(model, DRT):
        losses, mask = stream_loss(model, chunks, valid, generator=generator, scores=scores)
    else:
        losses, mask = stream_loss(model, chunks, valid, generator=generator)
    values = {"lm": float(losses.detach().mean())}
    if rows.far is None:
        return losses.mean(), values
    # A place's target is the next token: the far copies one place earlier, without landmarks.
    is_far = rows.far.flatten(1).roll(-1, dims=1).view_as(chunks)
    is_far = insert_landmarks(is_far, False)[mask]
    if is_far.any():
        values["far"] = float(losses.detach()[is_far].mean())
    each = torch.where(is_far, weights.far, weights.rest)
    loss = (losses * each).sum() / each.sum().clamp(min=1.0)
    if scores and rows.labels is not None:
        about_labels = label_loss(scores, rows.labels)
        values["labels"] = float(about_labels.detach())
        values["score_sd"] = score_deviation(scores)
        loss = loss + weights.labels * about_labels
    return loss, values


def label_loss(scores: Sequence[Tensor], labels: Tensor) -> Tensor:
    """Return the mean over groups of ``-log`` of the labelled chunks' share of the softmax.

    ``scores`` [B, C, C] of each group, of all earlier chunks; ``labels`` [B, C, C]. Queries without
    a label do not count.
    """
    has_label = labels.any(dim=-1)  # [B, C]
    if not has_label.any():
        return torch.stack([group.sum() * 0.0 for group in scores]).mean()
    taught = labels[has_label]
    allowed = torch.ones_like(labels[0]).tril(diagonal=-1).expand_as(labels)[has_label]
    losses = []
    for group in scores:
        rows = group[has_label].float()
        every = rows.masked_fill(~allowed, float("-inf")).logsumexp(dim=-1)
        losses.append((every - rows.masked_fill(~taught, float("-inf")).logsumexp(dim=-1)).mean())
    return torch.stack(losses).mean()


def score_deviation(scores: Sequence[Tensor]) -> float:
    """Return the mean standard deviation of the scores of a query, over queries and groups.

    Gumbel noise has 1.28: a choice by scores that spread less is mostly chance in training.
    """
    deviations = []
    for group in scores:
        rows = group.detach().float()
        deviations += [rows[:, t, :t].std(dim=-1).mean() for t in range(2, rows.shape[1])]
    return float(torch.stack(deviations).mean()) if deviations else 0.0
