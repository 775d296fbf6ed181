"""The reader pass: retrieved passages read together with the question by the cross-encoder.

Turns token slots of passages into pairs, and the reader's logits back into logits by slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drt_engine.model.drt import DRT
from drt_engine.model.quote_head import QuoteLogits
from drt_engine.model.reader import pack_pairs


@dataclass(frozen=True)
class Reading:
    """What the reader makes of R passages of U token slots, in fp32 on the CPU.

    ``start``, ``end`` [R, U], -inf where there is no token; ``null`` [R, 2]; ``types`` [R, K];
    ``verdict`` [R, 2].
    """

    start: Tensor
    end: Tensor
    null: Tensor
    types: Tensor
    verdict: Tensor

    def quote_logits(self, log_probability: Tensor, weight: float) -> QuoteLogits:
        """Return the logits of all passages as one choice; ``log_probability`` [R] of retrieval
        counts with ``weight``.
        """
        prior = weight * log_probability
        null = (self.null + prior[:, None]).logsumexp(dim=0)  # [2]: no start, no end anywhere
        return QuoteLogits(
            (self.start + prior[:, None])[None],
            (self.end + prior[:, None])[None],
            null[:1],
            null[1:],
        )

    def evidence(self) -> Tensor:
        """Log-odds of each passage by itself: any span against none, [R]."""
        start = self.start.logsumexp(dim=1) - self.null[:, 0]
        end = self.end.logsumexp(dim=1) - self.null[:, 1]
        return (start + end) / 2


def read_passages(
    model: DRT, question: Sequence[int], token_ids: Sequence[Tensor], slots: Sequence[Tensor]
) -> tuple[Reading, int]:
    """Read R passages with the question; return the logits and how many tokens were read.

    ``token_ids`` and ``slots`` are R tensors [U]; a slot that is negative holds no token.
    """
    reader = model.span_reader
    assert reader is not None
    present = [slot >= 0 for slot in slots]
    passages = [ids[mask].tolist() for ids, mask in zip(token_ids, present, strict=True)]
    asked = list(question)[-reader.config.longest_question :]
    pairs, offsets = pack_pairs(
        reader.config, [asked] * len(passages), passages, pad_id=model.config.pad_id
    )
    logits = reader(model.embedding, pairs.to(model.embedding.weight.device))
    rows = [
        slice(offset, offset + len(passage))
        for offset, passage in zip(offsets, passages, strict=True)
    ]

    def by_slot(values: Tensor) -> Tensor:
        out = torch.full((len(present), len(present[0])), float("-inf"))
        for row, (mask, columns) in enumerate(zip(present, rows, strict=True)):
            out[row, mask] = values[row, columns].cpu()
        return out

    reading = Reading(
        by_slot(logits.start),
        by_slot(logits.end),
        logits.null.cpu(),
        logits.types.cpu(),
        logits.verdict.cpu(),
    )
    return reading, int(pairs.valid.sum())
