"""Losses of a batch of questions: evidence retrieval, quote start and end, answer text.

Quotes are taught twice, with the reader pass and from stored memory alone. A model with a reader of
its own reads passages with that, which has another task, and only stored memory is taught here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_engine.model.drt import DRT
from drt_engine.model.prompt import Prompt
from drt_engine.model.quote_head import QuoteLogits
from drt_lab.config.train import QuestionsConfig
from drt_lab.train.answering.batch import QuestionBatch
from drt_lab.train.answering.prompt_pass import (
    Pool,
    PromptPass,
    PromptResult,
    encode_pool,
    retrieval_scores,
)
from drt_lab.train.answering.reader_opinion import opinion_loss
from drt_lab.train.answering.teacher import LandmarkTeacher, distance


@dataclass(frozen=True)
class AnswerLosses:
    """The parts of the loss, and the share of questions whose evidence was among the choice."""

    retrieval: Tensor
    reread: Tensor
    stored: Tensor
    text: Tensor
    relevance: Tensor
    teacher: Tensor
    reader: Tensor
    hit: Tensor

    def weighted(self, config: QuestionsConfig) -> Tensor:
        """Return the sum of the parts at their weights."""
        loss = self.reread + config.stored_loss * self.stored
        loss = loss + config.retrieval_loss * self.retrieval + config.text_loss * self.text
        loss = loss + config.relevance_loss * self.relevance
        return loss + config.teacher_loss * self.teacher + config.reader_loss * self.reader

    def values(self) -> dict[str, float]:
        """Return the parts as numbers to log; what is not defined is left out."""
        names = [field.name for field in fields(self)]
        # All at once: a GPU waits for each look at a value.
        numbers = torch.stack([getattr(self, n).detach().float() for n in names]).tolist()
        return {n: v for n, v in zip(names, numbers, strict=True) if math.isfinite(v)}


def answer_losses(
    model: DRT,
    batch: QuestionBatch,
    *,
    count: int,
    generator: torch.Generator | None,
    teacher: LandmarkTeacher | None = None,
    ask_reader: bool = False,
) -> AnswerLosses:
    """Compute all losses of one batch, ``count`` chunks retrieved for each question.

    ``ask_reader``: whether the model's own reader teaches. Chunks are chosen with Gumbel noise from
    ``generator``, and evidence is forced among them where it was missed.
    """
    pool = encode_pool(model, batch)
    total = len(batch.questions)
    num_readers = total if batch.readers is None else batch.readers
    if not num_readers:
        return _retrieval_losses(model, batch, pool, count)
    readers = batch.rows(0, num_readers)
    run = PromptPass(model, readers, pool, count=count, generator=generator)
    # The reader pass first: the noise is drawn in this order.
    reread = run.run(reread=True) if model.span_reader is None else None
    stored = run.run(reread=False)
    written, zero = reread or stored, stored.logits.null.new_zeros(())
    retrieval = evidence_loss(*with_support(run.scores, readers))
    if num_readers < total:
        # Every question counts the same, whether it is read for or only retrieves.
        retrievers = batch.rows(num_readers, total)
        share = (total - num_readers) / total
        without_reading = evidence_loss(retrieval_scores(model, retrievers, pool), retrievers.gold)
        retrieval = (1 - share) * retrieval + share * without_reading
    return AnswerLosses(
        retrieval=retrieval,
        reread=zero if reread is None else span_loss(reread.logits, reread.slots, readers),
        stored=span_loss(stored.logits, stored.slots, readers),
        text=text_loss(model, written.states, run.prompt, readers),
        relevance=zero if reread is None else relevance_loss(model, reread, readers),
        teacher=teacher_loss(pool, run, teacher),
        reader=opinion_loss(model, readers, stored, run.scores) if ask_reader else zero,
        hit=hit_rate(run.scores[0], readers.gold, count),
    )


def _retrieval_losses(model: DRT, batch: QuestionBatch, pool: Pool, count: int) -> AnswerLosses:
    """Compute the losses of questions none of which is read for."""
    scores = retrieval_scores(model, batch, pool)
    zero = scores[0].new_zeros(())
    return AnswerLosses(
        retrieval=evidence_loss(scores, batch.gold),
        reread=zero,
        stored=zero,
        text=zero,
        relevance=zero,
        teacher=zero,
        reader=zero,
        hit=hit_rate(scores[0], batch.gold, count),
    )


def span_loss(logits: QuoteLogits, slots: Tensor, batch: QuestionBatch) -> Tensor:
    """Return the negative log-likelihood of start and end among all retrieved tokens and null.

    All occurrences of the evidence count together. ``slots`` [N, R, U] are pool token numbers of
    the logits' places, -1 where there is none. A question without an exact span teaches nothing
    here; an unanswerable one teaches the null logit.
    """
    total = logits.null.new_zeros(())
    exact = batch.answerable >= 0
    for part, side in ((logits.start, 0), (logits.end, 1)):
        # Which of the places [N, R, U] is one of the O borders of the evidence.
        border = batch.spans[:, :, side]
        target = (slots[..., None] == border[:, None, None, :]) & (slots >= 0)[..., None]
        target = target.any(dim=-1)
        # [N, R * U + 1]: all places and null, then the right ones of them.
        candidate_logits = torch.cat([part.flatten(1), logits.null[:, None]], dim=1)
        right = part.masked_fill(~target, float("-inf")).flatten(1)
        null = logits.null.masked_fill(batch.answerable != 0, float("-inf"))
        right = torch.cat([right, null[:, None]], dim=1)
        # Evidence that was not retrieved has no right place.
        usable = exact & torch.isfinite(right).any(dim=1)
        if usable.any():
            loss = torch.logsumexp(candidate_logits[usable], 1) - torch.logsumexp(right[usable], 1)
            total = total + loss.sum() / exact.sum().clamp(min=1)
    return total * 0.5


def evidence_loss(scores: Sequence[Tensor], gold: Tensor) -> Tensor:
    """Return the mean over ``scores`` [N, P] of ``-log`` of the probability mass on evidence.

    The mass is the softmax over all chunks of the pool; questions without evidence are left out.
    """
    rows = gold.any(dim=1)
    if not rows.any():
        return scores[0].new_zeros(())
    parts = []
    for score in scores:
        mass = torch.logsumexp(score[rows].masked_fill(~gold[rows], float("-inf")), dim=1)
        parts.append((torch.logsumexp(score[rows], dim=1) - mass).mean())
    return torch.stack(parts).mean()


def with_support(scores: Sequence[Tensor], batch: QuestionBatch) -> tuple[list[Tensor], Tensor]:
    """Return scores and evidence with a further row for each question whose answer needs support.

    One row for both would be content with the mass on either.
    """
    if batch.support is None:
        return list(scores), batch.gold
    supported = batch.support.any(dim=1)
    gold = torch.cat([batch.gold, batch.support[supported]])
    return [torch.cat([score, score[supported]]) for score in scores], gold


def relevance_loss(model: DRT, reread: PromptResult, batch: QuestionBatch) -> Tensor:
    """Return the evidence loss among the chunks that were read, by their reranker scores.

    0 where the model has none.
    """
    selection, head = reread.selection, model.quote_head
    if head is None or head.reread_relevance is None or reread.relevance is None:
        return selection.scores.new_zeros(())
    reranked = selection.scores.detach() + reread.relevance
    return evidence_loss([reranked], batch.gold.gather(1, selection.index))


def text_loss(model: DRT, states: Tensor, prompt: Prompt, batch: QuestionBatch) -> Tensor:
    """Return the next-token loss of the answers' text, from ``<answer>`` to the end token."""
    rows: list[int] = []
    slots: list[int] = []
    targets: list[int] = []
    for row, (answer, first) in enumerate(
        zip(batch.answers, prompt.answer_slot.tolist(), strict=True)
    ):
        if not answer:
            continue
        tokens = [*answer, model.config.end_id]
        rows += [row] * len(tokens)
        slots += range(first, first + len(tokens))
        targets += tokens
    if not rows:
        return states.new_zeros(())
    row, slot, target = torch.tensor([rows, slots, targets], device=states.device)
    return F.cross_entropy(model.logits(states[row, slot]).float(), target)


def teacher_loss(pool: Pool, run: PromptPass, teacher: LandmarkTeacher | None) -> Tensor:
    """Return how far the landmarks of chunks and questions are from the teacher's; 0 without."""
    if teacher is None:
        return pool.encoded.landmarks.new_zeros(())
    chunks = teacher.landmarks(run.batch.ids, run.batch.valid)
    questions = teacher.questions(run.batch.questions)
    chunk_distance = distance(pool.encoded.landmarks, chunks)
    return chunk_distance + distance(run.encoded[0].landmarks, questions)


@torch.no_grad()
def hit_rate(scores: Tensor, gold: Tensor, count: int) -> Tensor:
    """Return the share of answerable questions with evidence among their ``count`` best chunks."""
    best = scores.topk(min(count, scores.shape[1]), dim=1).indices
    return gold.gather(1, best).any(dim=1)[gold.any(dim=1)].float().mean()
