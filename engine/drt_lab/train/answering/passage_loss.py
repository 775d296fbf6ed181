"""The loss of question and passage pairs: spans, answer types, verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_engine.model.reader import PairLogits
from drt_lab.config.train import PassagesConfig
from drt_lab.lm.build import load_language_model
from drt_lab.train.answering.passages import IGNORED, PassageBatch


class SpanTeachers:
    """Readers of other models, whose mean opinion of starts and ends is taught (distillation)."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.models: list[DRT] = []
        for folder in folders:
            model = load_language_model(folder)[0]
            if not isinstance(model, DRT) or model.span_reader is None:
                raise ConfigError(f"{folder} has no reader, so passages.teachers cannot name it")
            self.models.append(model.eval().requires_grad_(False))

    @torch.no_grad()
    def probabilities(self, batch: PassageBatch) -> Tensor:
        """Return the mean probabilities of starts and ends, [2, P, T + 1], null last."""
        # Moved where the batch is, once.
        models = [model.to(batch.question.device) for model in self.models]
        return torch.stack([_log_probabilities(model, batch)[0].exp() for model in models]).mean(0)


def passage_loss(
    model: DRT,
    batch: PassageBatch,
    config: PassagesConfig,
    teachers: SpanTeachers | None = None,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of a batch and its parts: spans, answer types, verdicts, the teachers'.

    ``generator`` seeds dropout, so that a resumed run drops the same.
    """
    if config.dropout and generator is not None:
        torch.manual_seed(generator.initial_seed())
    scores, logits = _log_probabilities(model, batch, dropout=config.dropout)
    count = len(batch.answered)
    # Right tokens [2, P, T + 1]; null is right in every passage of a question without an answer.
    unanswered = ~batch.answered[batch.question]
    right = torch.stack(
        [torch.cat([side, unanswered[:, None]], dim=1) for side in (batch.starts, batch.ends)]
    )
    # -log of the share of right tokens among all tokens of all passages of a question.
    correct = _safe_logsumexp(scores.masked_fill(~right, float("-inf")))  # [2, P]
    spans = -torch.stack([_logsumexp_by(side, batch.question, count) for side in correct]).mean()
    first = _first_pair(batch.question, count)
    types = _cross_entropy(logits.types[first], batch.answer_type)
    # The verdict is read where the deciding clause is: in the first pair, if it is answered.
    verdict = _cross_entropy(
        logits.verdict[first], batch.verdict.masked_fill(~batch.answered, IGNORED)
    )
    values = {"span": spans, "type": types, "verdict": verdict}
    loss = spans
    if teachers is not None and teachers.models:
        taught = teachers.probabilities(batch)
        # Their divergence from the student, per question and side.
        surprise = taught * (taught.clamp(min=1e-30).log() - scores.masked_fill(taught == 0, 0.0))
        values["taught"] = surprise.sum() / (2 * count)
        loss = (1 - config.taught) * spans + config.taught * values["taught"]
    loss = loss + config.type_loss * types + config.verdict_loss * verdict
    return loss, {name: float(value.detach()) for name, value in values.items()}


def _log_probabilities(
    model: DRT, batch: PassageBatch, *, dropout: float = 0.0
) -> tuple[Tensor, PairLogits]:
    """Return log-probabilities of starts and ends over all passages of a question, and the logits.

    [2, P, T + 1]: null is last.
    """
    assert model.span_reader is not None and model.config.reader is not None
    logits: PairLogits = model.span_reader(model.embedding, batch.pairs, dropout=dropout)
    # What retrieval thinks of a passage counts as it does in asking.
    prior = model.config.reader.prior * batch.log_probability[:, None]  # [P, 1]
    sides = []
    for side, scores in enumerate((logits.start, logits.end)):
        scores = torch.cat([scores, logits.null[:, side, None]], dim=1) + prior
        # First over each passage [P], then over the passages of each question [N].
        totals = _logsumexp_by(scores.logsumexp(dim=1), batch.question, len(batch.answered))
        sides.append(scores - totals[batch.question, None])
    return torch.stack(sides), logits


def _logsumexp_by(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Return the ``logsumexp`` of ``values`` [P] over those of each of ``count`` owners, [N]."""
    # Shifted by the largest of each owner, so that no exponential overflows.
    largest = values.detach().new_full((count,), -1e30)
    largest = largest.scatter_reduce(0, owner, values.detach(), "amax")
    shifted = (values - largest[owner]).exp()
    return torch.zeros_like(largest).index_add(0, owner, shifted).log() + largest


def _safe_logsumexp(values: Tensor) -> Tensor:
    """Return ``logsumexp`` over the last axis; rows of only -inf give -1e9 and no gradient."""
    empty = torch.isinf(values).all(dim=-1)
    filled = values.masked_fill(empty[..., None], 0.0)
    return filled.logsumexp(dim=-1).masked_fill(empty, -1e9)


def _first_pair(owner: Tensor, count: int) -> Tensor:
    """Return the first row of each of ``count`` owners, [N]."""
    rows = torch.arange(len(owner), device=owner.device)
    return rows.new_full((count,), len(owner)).scatter_reduce(0, owner, rows, "amin")


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over the labels that are known, 0 without any."""
    if not (labels != IGNORED).any():
        return logits.sum() * 0.0
    return F.cross_entropy(logits, labels, ignore_index=IGNORED)
