"""Losses of a batch of questions that read the chunk memory of their evidence, alone or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_engine.decoder.model import Reading, RetrievalDecoder
from drt_lab.train.decoder.batches import Batch, Batches, Example

_WARM_UP = 2  # chunks read before those of a batch, in place of the whole lower stack's reach
_IGNORED = -100


@dataclass(frozen=True)
class BatchStates:
    """Lower states of a batch's chunks [P, S, E] and which tokens exist [P, S]."""

    states: Tensor
    mask: Tensor


@torch.no_grad()
def batch_states(model: RetrievalDecoder, batches: Batches, batch: Batch) -> BatchStates:
    """Return the lower states of a batch's chunks, read with a short warm-up."""
    rows: dict[tuple[str, int], Tensor] = {}
    for document in dict.fromkeys(document for document, _ in batch.chunks):
        numbers = sorted(n for d, n in batch.chunks if d == document)
        ids = batches.documents[document].ids
        for first, last in _runs(numbers):
            begin = max(0, first - _WARM_UP)
            states = model.chunk_states(ids[begin : last + 1], skip=first - begin)
            rows |= {(document, first + n): row for n, row in enumerate(states)}
    mask = torch.stack([batches.documents[d].mask[n] for d, n in batch.chunks])
    return BatchStates(torch.stack([rows[key] for key in batch.chunks]), mask)


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return first and last number of runs whose gaps are at most the warm-up."""
    runs = [[numbers[0], numbers[0]]]
    for number in numbers[1:]:
        if number - runs[-1][1] <= _WARM_UP + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [(a, b) for a, b in runs]


def batch_losses(
    model: RetrievalDecoder,
    batch: Batch,
    examples: Sequence[Example],
    chunks: BatchStates,
    *,
    alone: bool,
    use_memory: bool = True,
) -> tuple[Tensor, Tensor, float]:
    """Return the losses of all answer tokens, the scorer's label loss, and the evidence's weight.

    ``alone`` reads nothing but the evidence.
    """
    ids, targets, questions = _laid_out(examples, model.config.end_id)
    with torch.no_grad():
        states = model.lower_states(ids)
        memory = model.remember(chunks.states, chunks.mask)
    scores = model.scorer.scores(
        states, questions, model.scorer.landmarks(chunks.states, chunks.mask)
    )  # [B, P]
    is_evidence = torch.tensor(
        [[(e.document == d and n in e.evidence) for d, n in batch.chunks] for e in examples]
    )
    has = is_evidence.any(dim=1)
    log_shares = torch.log_softmax(scores, dim=-1)
    labels = torch.logsumexp(log_shares.masked_fill(~is_evidence, -torch.inf)[has], dim=-1)
    count = min(len(batch.chunks), model.config.retrieved)
    if alone:
        most = int(is_evidence.sum(dim=1).max())
        ranking = is_evidence.float()
        index = ranking.topk(most, dim=-1).indices
        log_weight = torch.where(is_evidence.gather(1, index), 0.0, -torch.inf)
        log_weight = log_weight - log_weight.exp().sum(-1, keepdim=True).log()
    else:
        # The evidence is always among them, with the chunks that the scorer takes for it.
        index = scores.detach().masked_fill(is_evidence, torch.inf).topk(count, dim=-1).indices
        log_weight = torch.log_softmax(scores.gather(1, index), dim=-1)
    reading = Reading(memory, index, log_weight) if use_memory else None
    out = model.upper_states(states, reading)
    kept = targets != _IGNORED
    losses = F.cross_entropy(model.logits(out[kept]), targets[kept], reduction="none")
    evidence = float(labels.detach().exp().mean()) if len(labels) else 0.0
    return losses, -labels.mean() if len(labels) else losses.new_zeros(()), evidence


def _laid_out(examples: Sequence[Example], pad: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return ids, targets, and which tokens are the prompt's, all [B, T]."""
    longest = max(len(e.prompt) + len(e.answer) for e in examples) - 1
    ids = torch.full((len(examples), longest), pad)
    targets = torch.full((len(examples), longest), _IGNORED)
    prompt = torch.zeros(len(examples), longest, dtype=torch.bool)
    for row, example in enumerate(examples):
        whole = torch.tensor([*example.prompt, *example.answer])
        first = len(example.prompt)
        ids[row, : len(whole) - 1] = whole[:-1]
        targets[row, first - 1 : len(whole) - 1] = whole[first:]
        prompt[row, :first] = True
    return ids, targets, prompt
