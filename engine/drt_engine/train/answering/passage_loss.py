"""The loss of question and passage pairs: spans, answer types, verdicts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_engine.config.train import PassagesConfig
from drt_engine.model.drt import DRT
from drt_engine.model.reader import PairLogits
from drt_engine.train.answering.passages import IGNORED, PassageBatch


def passage_loss(
    model: DRT, batch: PassageBatch, config: PassagesConfig
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of a batch and its parts: spans, answer types, verdicts."""
    assert model.span_reader is not None
    logits: PairLogits = model.span_reader(model.embedding, batch.pairs)
    count = len(batch.answered)
    # What retrieval thinks of a passage counts as it does in asking.
    assert model.config.reader is not None
    prior = model.config.reader.prior * batch.log_probability[:, None]  # [P, 1]
    start, end, null = logits.start + prior, logits.end + prior, logits.null + prior
    spans = logits.start.new_zeros(())
    for side, (scores, right) in enumerate(((start, batch.starts), (end, batch.ends))):
        # -log of the share of right tokens, or of null, among all tokens of all passages of a
        # question. First over each passage [P] with its null, then over the passages of each
        # question [N].
        of_null = null[:, side]
        passage_totals = torch.cat([scores, of_null[:, None]], dim=1).logsumexp(dim=1)
        right_tokens = scores.masked_fill(~right, float("-inf"))
        unanswered = ~batch.answered[batch.question]
        right_null = of_null.masked_fill(~unanswered, float("-inf"))
        correct = torch.cat([right_tokens, right_null[:, None]], dim=1)
        total = _logsumexp_by(passage_totals, batch.question, count)
        mass = _logsumexp_by(_safe_logsumexp(correct), batch.question, count)
        spans = spans + 0.5 * (total - mass).mean()
    first = _first_pair(batch.question, count)
    types = _cross_entropy(logits.types[first], batch.answer_type)
    # The verdict is read where the deciding clause is: in the first pair, if it is answered.
    verdict = _cross_entropy(
        logits.verdict[first], batch.verdict.masked_fill(~batch.answered, IGNORED)
    )
    loss = spans + config.type_loss * types + config.verdict_loss * verdict
    values = {"span": spans, "type": types, "verdict": verdict}
    return loss, {name: float(value.detach()) for name, value in values.items()}


def _logsumexp_by(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Return the ``logsumexp`` of ``values`` [P] over those of each of ``count`` owners, [N]."""
    # Shifted by the largest of each owner, so that no exponential overflows.
    largest = values.detach().new_full((count,), -1e30)
    largest = largest.scatter_reduce(0, owner, values.detach(), "amax")
    shifted = (values - largest[owner]).exp()
    return torch.zeros_like(largest).index_add(0, owner, shifted).log() + largest


def _safe_logsumexp(values: Tensor) -> Tensor:
    """Return ``logsumexp`` over the last axis; rows of only -inf give -1e9 and no gradient."""
    empty = torch.isinf(values).all(dim=1)
    filled = values.masked_fill(empty[:, None], 0.0)
    return filled.logsumexp(dim=1).masked_fill(empty, -1e9)


def _first_pair(owner: Tensor, count: int) -> Tensor:
    """Return the first row of each of ``count`` owners, [N]."""
    rows = torch.arange(len(owner), device=owner.device)
    return rows.new_full((count,), len(owner)).scatter_reduce(0, owner, rows, "amin")


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over the labels that are known, 0 without any."""
    if not (labels != IGNORED).any():
        return logits.sum() * 0.0
    return F.cross_entropy(logits, labels, ignore_index=IGNORED)
