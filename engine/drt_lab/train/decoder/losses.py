"""Losses of a batch of questions that read the chunk memory of their evidence, alone or not."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_engine.decoder.model import DeepMemory, Reading, RetrievalDecoder
from drt_lab.train.decoder.batches import Batch, Batches, Example

_SHARPNESS = 5.0  # of weights: the logarithm of how much the best chunk by words outweighs others
_WARM_UP = 1  # chunks read before those of a batch, as for the passages of a question
_IGNORED = -100


def batch_memory(
    model: RetrievalDecoder, batches: Batches, batch: Batch, *, gradient: bool = False
) -> DeepMemory:
    """Return the memory of a batch's chunks, whose lower states are read with a short warm-up.

    ``gradient``: whether the upper layers are trained by what they keep of the chunks.
    """
    # Runs of equal length are read together.
    by_length: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for document in dict.fromkeys(document for document, _ in batch.chunks):
        for first, last in _runs(sorted(n for d, n in batch.chunks if d == document)):
            begin = max(0, first - _WARM_UP)
            by_length[last + 1 - begin].append((document, begin))
    rows: dict[tuple[str, int], Tensor] = {}
    for length, runs in by_length.items():
        ids = [batches.documents[document].ids[at : at + length] for document, at in runs]
        with torch.no_grad():
            states = model.lower_states(torch.stack(ids).flatten(1).to(model.device))
        for (document, at), of_run in zip(runs, states.unflatten(1, (length, -1)), strict=True):
            rows |= {(document, at + n): row for n, row in enumerate(of_run)}
    mask = torch.stack([batches.documents[d].mask[n] for d, n in batch.chunks]).to(model.device)
    with torch.set_grad_enabled(gradient and torch.is_grad_enabled()):
        return model.remember(torch.stack([rows[key] for key in batch.chunks]), mask)


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
    examples: Sequence[int],
    memory: DeepMemory,
    *,
    alone: Tensor | None = None,
    use_memory: bool = True,
) -> tuple[Tensor, float]:
    """Return the losses of the answer tokens of some examples, and the evidence's weight.

    ``examples`` are numbers within the batch. ``alone`` [B, P]: the chunks that each example reads,
    with equal weights; without it, as many chunks as the model retrieves, weighed by words.
    """
    chosen = [batch.examples[number] for number in examples]
    ids, targets = (t.to(model.device) for t in _laid_out(chosen, model.config.end_id))
    with torch.no_grad():
        states = model.lower_states(ids)
    is_evidence = evidence_of(batch)[list(examples)].to(model.device)
    scores = _SHARPNESS * batch.relevance[list(examples)].to(model.device)
    if alone is not None:
        read = alone[list(examples)].to(model.device)
        scores = torch.zeros_like(scores).masked_fill(~read, -torch.inf)
        index = read.float().topk(int(read.sum(dim=1).max()), dim=-1).indices
    else:
        # The evidence is always among them, with the best others.
        count = min(len(batch.chunks), model.config.retrieved)
        index = scores.masked_fill(is_evidence, torch.inf).topk(count, dim=-1).indices
    log_weight = torch.log_softmax(scores.gather(1, index), dim=-1)
    reading = Reading(memory, index, log_weight) if use_memory else None
    out = model.upper_states(states, reading)
    kept = targets != _IGNORED
    losses = F.cross_entropy(model.logits(out[kept]), targets[kept], reduction="none")
    has = is_evidence.any(dim=1)
    weight = (log_weight.exp() * is_evidence.gather(1, index)).sum(dim=1)[has]
    return losses, float(weight.mean()) if len(weight) else 0.0


def evidence_of(batch: Batch) -> Tensor:
    """Return which chunks of a batch hold evidence of which example: [B, P]."""
    return torch.tensor(
        [[e.document == d and n in e.evidence for d, n in batch.chunks] for e in batch.examples]
    )


def with_others(
    batch: Batch, not_said: Sequence[int], order: random.Random
) -> tuple[Batch, Tensor]:
    """Return a batch in which each example also reads one other chunk alone.

    The answer is ``not_said`` there. Also [B, P]: the chunks that each example reads. Other chunks
    are drawn by their BM25, from those that do not hold the words of the answer. Examples without
    evidence read nothing else.
    """
    evidence = evidence_of(batch)
    weights = (_SHARPNESS * batch.relevance).exp().masked_fill(evidence | batch.has_answer, 0.0)
    rows: list[tuple[int, Example, Tensor]] = []
    for row, example in enumerate(batch.examples):
        if example.evidence:
            rows.append((row, example, evidence[row]))
        if weights[row].any():
            (other,) = order.choices(range(len(batch.chunks)), weights[row].tolist())
            denied = replace(example, answer=tuple(not_said))
            rows.append((row, denied, torch.arange(len(batch.chunks)) == other))
    of = [row for row, _, _ in rows]
    following = replace(
        batch,
        examples=tuple(example for _, example, _ in rows),
        relevance=batch.relevance[of],
        has_answer=batch.has_answer[of],
    )
    return following, torch.stack([read for _, _, read in rows])


def _laid_out(examples: Sequence[Example], pad: int) -> tuple[Tensor, Tensor]:
    """Return ids and targets [B, T]."""
    longest = max(len(e.prompt) + len(e.answer) for e in examples) - 1
    ids = torch.full((len(examples), longest), pad)
    targets = torch.full((len(examples), longest), _IGNORED)
    for row, example in enumerate(examples):
        whole = torch.tensor([*example.prompt, *example.answer])
        first = len(example.prompt)
        ids[row, : len(whole) - 1] = whole[:-1]
        targets[row, first - 1 : len(whole) - 1] = whole[first:]
    return ids, targets
