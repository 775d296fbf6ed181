"""Documents with their summaries as streams of chunks, for training and for its measurement.

A document is cut to a number of chunks and padded to the end of its last one, so that a landmark is
just before the summary: what it retrieves is what the summary's first chunk reads (the paper pads
its questions likewise, appendix D). The summary begins with the answer token and ends with the end
token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_lab.data.chunks import to_chunks


@dataclass(frozen=True)
class SummaryStreams:
    """Token ids ``chunks`` [B, C, S] and which are there, ``valid`` [B, C, S].

    ``predicts`` [B, C, S]: the tokens after which the summary, or its end, is predicted.
    """

    chunks: Tensor
    valid: Tensor
    predicts: Tensor

    def to(self, device: torch.device) -> SummaryStreams:
        """Return the streams on a device."""
        tensors = (self.chunks, self.valid, self.predicts)
        return SummaryStreams(*(tensor.to(device) for tensor in tensors))


def document_tokens(ids: Sequence[int], config: ModelConfig, *, chunks: int) -> list[int]:
    """Return the tokens of a document that a stream has: those of its first ``chunks`` chunks."""
    return list(ids[: chunks * config.chunk])


def summary_tokens(ids: Sequence[int], config: ModelConfig, *, longest: int) -> list[int]:
    """Return the tokens of a summary with those that begin and end it, at most ``longest``."""
    return [config.answer_id, *ids, config.end_id][:longest]


def summary_streams(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]], config: ModelConfig
) -> SummaryStreams:
    """Return streams of tokens of documents and of summaries, padded to the longest stream."""
    rows = []
    for document, summary in pairs:
        ids, valid = to_chunks(torch.tensor(document), config.chunk, config.pad_id)
        answer, there = to_chunks(torch.tensor(summary), config.chunk, config.pad_id)
        predicts = torch.cat([torch.zeros_like(valid), there])
        rows.append((torch.cat([ids, answer]), torch.cat([valid, there]), predicts))
    longest = max(len(ids) for ids, _, _ in rows)
    shape = (len(rows), longest, config.chunk)
    streams = SummaryStreams(
        torch.full(shape, config.pad_id), *(torch.zeros(shape, dtype=torch.bool) for _ in range(2))
    )
    for number, (ids, valid, predicts) in enumerate(rows):
        streams.chunks[number, : len(ids)] = ids
        streams.valid[number, : len(ids)] = valid
        streams.predicts[number, : len(ids)] = predicts
    return streams


def summary_losses(losses: Tensor, mask: Tensor, streams: SummaryStreams) -> Tensor:
    """Return the losses [m] of the summaries' tokens.

    ``losses`` [n] and ``mask`` [B, C, S+1] are what ``lm.losses.stream_loss`` returns.
    """
    predicts = torch.zeros_like(mask)
    predicts[..., :-1] = streams.predicts
    return losses[predicts[mask]]
