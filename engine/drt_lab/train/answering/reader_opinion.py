"""What the model's own reader thinks of retrieved chunks, for landmarks and stored memory to learn.

The reader sees question and passage together, which is why it judges better than vectors that were
made apart (distillation from a cross-encoder). It is not trained here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_engine.config.model import ReaderConfig
from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_engine.model.reader import PairLogits, PairTokens
from drt_lab.train.answering.batch import QuestionBatch
from drt_lab.train.answering.prompt_pass import PromptResult, window_slots


@dataclass(frozen=True)
class ReaderOpinion:
    """Probabilities over R retrieved chunks of N questions, those of a row at most 1 in all.

    ``passages`` [N, R]: that the answer is in a chunk or the margin around it; ``spans``
    [2, N, R, S]: that it starts and ends at a token of the chunk itself; ``null`` [2, N]: nowhere.
    """

    passages: Tensor
    spans: Tensor
    null: Tensor


def opinion_loss(
    model: DRT, batch: QuestionBatch, result: PromptResult, scores: Sequence[Tensor]
) -> Tensor:
    """Return the cross entropy of retrieval and of stored memory with the reader's opinion.

    ``scores`` [N, P] are the taught scores of all chunks. Raises ``ConfigError`` for a model
    without a reader.
    """
    opinion = reader_opinion(model, batch, result)
    selection, logits = result.selection, result.logits
    there = torch.isfinite(selection.scores)
    # Which chunk, where the answer is in one of them: each question counts as much as that is sure.
    retrieval = []
    for score in scores:
        chosen = score.gather(1, selection.index).masked_fill(~there, -1e9)
        retrieval.append(-(opinion.passages * torch.log_softmax(chosen, dim=1)).sum(dim=1).mean())
    # Where it starts and ends, among the tokens of the chunks and "nowhere".
    stored = []
    for side, part in enumerate((logits.start, logits.end)):
        null = logits.null[:, None]
        places = torch.cat([part.flatten(1).clamp(min=-1e9), null], dim=1).log_softmax(dim=1)
        taught = torch.cat([opinion.spans[side].flatten(1), opinion.null[side, :, None]], dim=1)
        stored.append(-(taught * places).sum(dim=1).mean())
    return torch.stack(retrieval).mean() + torch.stack(stored).mean()


@torch.no_grad()
def reader_opinion(model: DRT, batch: QuestionBatch, result: PromptResult) -> ReaderOpinion:
    """Let the model's reader read what was retrieved. Raises ``ConfigError`` where it has none."""
    reader = model.span_reader
    if reader is None:
        raise ConfigError(
            "questions.reader_loss needs a model with a reader; set [model.reader], or 0"
        )
    index, size = result.selection.index, batch.ids.shape[1]
    there = torch.isfinite(result.selection.scores)  # [N, R]
    slots = window_slots(index, batch, reader.config.margin)
    pairs, places = passage_pairs(reader.config, batch, slots, pad_id=model.config.pad_id)
    flat = PairTokens(*(value.flatten(0, 1) for value in vars(pairs).values()))
    logits: PairLogits = reader(model.embedding, flat)
    sides = torch.stack([logits.start, logits.end])  # [2, N R, T]
    joint = torch.cat([sides, logits.null.T[..., None]], dim=-1)
    joint = joint.unflatten(1, index.shape).masked_fill(~there[..., None], float("-inf"))
    # Normalised over all tokens of all passages of a question, and their null logits.
    joint = joint.flatten(2).softmax(dim=-1).view_as(joint)  # [2, N, R, T + 1]
    tokens, null = joint[..., :-1], joint[..., -1].sum(dim=-1)
    # From places in the pairs to the tokens of each chunk; those of the margins are left out.
    inside = places - index[..., None] * size
    own = (places >= 0) & (inside >= 0) & (inside < size)
    spans = tokens.new_zeros(2, *index.shape, size)
    to = inside.clamp(0, size - 1).expand_as(tokens)
    spans.scatter_add_(-1, to, tokens * own)
    return ReaderOpinion(tokens.sum(dim=-1).mean(dim=0), spans, null)


def passage_pairs(
    config: ReaderConfig, batch: QuestionBatch, slots: Tensor, *, pad_id: int
) -> tuple[PairTokens, Tensor]:
    """Return pairs of N questions with R passages each, and which token of the pool stands where.

    ``slots`` [N, R, U] are the tokens of the passages, -1 where there is none. All results are
    [N, R, T], as ``pack_pairs`` lays out pairs one by one, but made at once on the batch's device.
    """
    device = slots.device
    asked = [question[-config.longest_question :] for question in batch.questions]
    lengths = torch.tensor([len(question) for question in asked])
    words = torch.full((len(asked), int(lengths.max())), pad_id)
    for row, question in enumerate(asked):
        words[row, : len(question)] = torch.tensor(question)
    words, front = words.to(device), lengths.to(device)[:, None, None] + 2  # [N, L]; [N, 1, 1]
    # The tokens that there are, one after the other.
    missing = slots < 0
    slots = slots.gather(-1, missing.to(torch.uint8).argsort(dim=-1, stable=True))
    length = (~missing).sum(dim=-1, keepdim=True)  # [N, R, 1]
    # begin question separator passage separator
    at = torch.arange(words.shape[1] + slots.shape[-1] + 3, device=device)
    inside = (at >= front) & (at < front + length)  # [N, R, T]
    places = slots.gather(-1, (at - front).clamp(0, slots.shape[-1] - 1).expand(inside.shape))
    places = places.masked_fill(~inside, -1)
    valid = at <= front + length
    padded = F.pad(words, (1, len(at) - words.shape[1] - 1))[:, None]  # [N, 1, T]
    around = padded.masked_fill(at >= front - 1, config.separator_id)
    around = around.masked_fill(at == 0, config.begin_id)
    ids = torch.where(inside, batch.ids.view(-1)[places.clamp(min=0)], around)
    ids = ids.masked_fill(~valid, pad_id)
    segments = ((at >= front) & valid).long()
    return PairTokens(ids, segments, valid, inside), places
