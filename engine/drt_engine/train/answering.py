"""Losses of a batch of questions: evidence retrieval, quote start and end with and without
re-reading, answer text.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_engine.model.drt import DRT, Encoded, Span
from drt_engine.model.gca_layer import ChunkMemory, Retrieved
from drt_engine.model.prompt import Prompt, lay_out
from drt_engine.model.quote_head import QuoteLogits, Reread
from drt_engine.retrieval.selection import Selection, select, selection_of
from drt_engine.train.questions import QuestionBatch
from drt_engine.train.teacher import LandmarkTeacher, distance


@dataclass(frozen=True)
class Pool:
    """The encoded chunks that all questions of a batch may retrieve."""

    encoded: Encoded
    memory: ChunkMemory


def encode_pool(model: DRT, batch: QuestionBatch) -> Pool:
    """Read each window of the batch as a document of its own."""
    states, masks = [], []
    for at, count in batch.windows:
        rows = slice(at, at + count)
        window, mask = model.chunk_states(batch.ids[None, rows], batch.valid[None, rows])
        states.append(window[0])
        masks.append(mask[0])
    encoded = model.encode(torch.cat(states), torch.cat(masks))
    return Pool(encoded, model.remember(encoded))


def span_loss(logits: QuoteLogits, slots: Tensor, batch: QuestionBatch) -> Tensor:
    """Negative log-likelihood of start and end, all occurrences counted, against all retrieved
    tokens and null.

    ``slots`` [N, R, U] are pool token numbers of the logits' places, -1 where there is none. A
    question without an exact span teaches nothing here; an unanswerable one teaches the null logit.
    """
    total = logits.null.new_zeros(())
    known = batch.answerable >= 0
    for part, side in ((logits.start, 0), (logits.end, 1)):
        wanted = batch.spans[:, :, side]
        target = (slots[..., None] == wanted[:, None, None, :]) & (slots >= 0)[..., None]
        target = target.any(dim=-1)
        everything = torch.cat([part.flatten(1), logits.null[:, None]], dim=1)
        hit = part.masked_fill(~target, float("-inf")).flatten(1)
        null = logits.null.masked_fill(batch.answerable != 0, float("-inf"))
        hit = torch.cat([hit, null[:, None]], dim=1)
        usable = known & torch.isfinite(hit).any(dim=1)
        if usable.any():
            loss = torch.logsumexp(everything[usable], 1) - torch.logsumexp(hit[usable], 1)
            total = total + loss.sum() / known.sum().clamp(min=1)
    return total * 0.5


def window_slots(index: Tensor, batch: QuestionBatch, margin: int) -> Tensor:
    """Pool token numbers of retrieved chunks with ``margin`` tokens around them, [N, R, S + 2
    margin], or -1.
    """
    size = batch.ids.shape[1]
    offsets = torch.arange(-margin, size + margin)
    slots = index[..., None] * size + offsets
    safe = slots.clamp(0, batch.ids.numel() - 1)
    same = batch.window_of[safe // size] == batch.window_of[index][..., None]
    good = (slots == safe) & same & batch.valid.view(-1)[safe]
    return slots.masked_fill(~good, -1)


class PromptPass:
    """One batch of prompts over a pool: chooses chunks, re-reads them if asked, runs the upper
    layers.
    """

    def __init__(
        self,
        model: DRT,
        batch: QuestionBatch,
        pool: Pool,
        *,
        count: int,
        generator: torch.Generator | None,
    ) -> None:
        self.model, self.batch, self.pool = model, batch, pool
        self.count, self.generator = count, generator
        self.prompt: Prompt = lay_out(batch.questions, batch.answers, model.config)
        self.states, self.encoded = model.prompt_states(self.prompt)
        self.scores: list[Tensor] = []
        self.relevance: Tensor | None = None

    def run(self, *, reread: bool) -> tuple[Tensor, Selection, QuoteLogits, Tensor]:
        """Return upper states [N, T, E], the last group's selection, quote logits and their pool
        token numbers.
        """
        chosen: list[tuple[Selection, ChunkMemory, Reread | None, Tensor]] = []

        def plan(group: int, x: Tensor) -> Sequence[Span]:
            picked = self._choose(group, x)
            memory, index, again = self.pool.memory, picked.index, None
            margin = 0
            if reread:
                margin = self.model.config.reread_margin
                again, memory = self._reread(picked)
                index = torch.arange(index.numel()).view_as(index)
            chosen.append((picked, memory, again, index))
            retrieved = Retrieved(
                memory,
                index[:, None],
                picked.scores[:, None],
                picked.probabilities[:, None],
            )
            self.slots = window_slots(picked.index, self.batch, margin)
            return [Span(self.prompt.borders[0] + 1, x.shape[1], retrieved)]

        states = self.model.upper_states(self.states, self.prompt.valid, plan)
        picked, memory, again, index = chosen[-1]
        answer = states[torch.arange(states.shape[0]), self.prompt.answer_slot]
        head = self.model.quote_head
        assert head is not None
        logits = head(answer, memory, index, torch.log_softmax(picked.scores, dim=-1))
        if again is not None:
            logits = head.add_reread(logits, again, picked.probabilities)
            self.relevance = head.relevance(again)
        return states, picked, logits, self.slots

    def _choose(self, group: int, x: Tensor) -> Selection:
        border = x[:, self.prompt.borders[0]]
        query = self.model.scorer.queries(border, self.encoded[0].landmarks, group)
        keys = self.pool.memory.landmarks
        scores = self.model.scorer.scores(query, keys, self.batch.lexical)
        # Landmarks are also taught alone: beside BM25 they would only learn what words do not say.
        self.scores += [scores, self.model.scorer.scores(query, keys)]
        allowed = self.batch.allowed
        if allowed is None:
            allowed = torch.ones_like(scores, dtype=torch.bool)
        found = select(scores, allowed, self.count, generator=self.generator)
        return self._force_evidence(scores, found)

    def _force_evidence(self, scores: Tensor, found: Selection) -> Selection:
        """Put an evidence chunk in the last place where none was chosen, so that reading is always
        taught.
        """
        gold = self.batch.gold
        missed = gold.any(dim=1) & ~gold.gather(1, found.index).any(dim=1)
        best = scores.detach().masked_fill(~gold, float("-inf")).argmax(dim=1)
        index = found.index.clone()
        index[missed, -1] = best[missed]
        return selection_of(scores, index, torch.ones_like(index, dtype=torch.bool))

    def _reread(self, picked: Selection) -> tuple[Reread, ChunkMemory]:
        slots = window_slots(picked.index, self.batch, self.model.config.reread_margin)
        tokens = self.batch.ids.view(-1)[slots.clamp(min=0)]
        stop = self.prompt.borders[0]
        question, valid = self.prompt.ids[:, :stop], self.prompt.valid[:, :stop]
        return self.model.reread(question, valid, tokens, slots >= 0)


@dataclass(frozen=True)
class AnswerLosses:
    """The parts of the loss of a batch of questions, and how often evidence was among the choice.
    """

    retrieval: Tensor
    reread: Tensor
    stored: Tensor
    text: Tensor
    relevance: Tensor
    teacher: Tensor
    hit: Tensor


def answer_losses(
    model: DRT,
    batch: QuestionBatch,
    *,
    count: int,
    generator: torch.Generator | None,
    teacher: LandmarkTeacher | None = None,
) -> AnswerLosses:
    """Compute all losses of one batch (DESIGN section 7: evidence forced when missed, Gumbel
    choice).
    """
    pool = encode_pool(model, batch)
    whole, total = batch, len(batch.questions)
    readers = total if batch.readers is None else batch.readers
    batch = whole.rows(0, readers)
    run = PromptPass(model, batch, pool, count=count, generator=generator)
    states, picked, logits, slots = run.run(reread=True)
    reread = span_loss(logits, slots, batch)
    relevance = relevance_loss(run, picked)
    _, _, stored_logits, stored_slots = run.run(reread=False)
    stored = span_loss(stored_logits, stored_slots, batch)
    with torch.no_grad():
        top = run.scores[0].topk(min(count, run.scores[0].shape[1]), dim=1).indices
        answerable = batch.gold.any(dim=1)
        hit = batch.gold.gather(1, top).any(dim=1)[answerable].float().mean()
    retrieval = evidence_loss(run.scores, batch.gold)
    if readers < total:
        rest = whole.rows(readers, total)
        share = (total - readers) / total
        found = evidence_loss(asking_scores(model, rest, pool), rest.gold)
        retrieval = (1 - share) * retrieval + share * found
    return AnswerLosses(
        retrieval=retrieval,
        reread=reread,
        stored=stored,
        text=text_loss(model, states, run.prompt, batch),
        relevance=relevance,
        teacher=teacher_loss(pool, run, teacher),
        hit=hit,
    )


def asking_scores(model: DRT, batch: QuestionBatch, pool: Pool) -> list[Tensor]:
    """Scores [N, P] of the pool's chunks for questions that are not read for: with BM25, and of the
    landmarks alone. Only the first group asks, since later ones ask after reading.
    """
    prompt = lay_out(batch.questions, [[] for _ in batch.questions], model.config)
    states, encoded = model.prompt_states(prompt)
    border = states[:, prompt.borders[0]]
    query = model.scorer.queries(border, encoded[0].landmarks, 0)
    keys = pool.memory.landmarks
    return [model.scorer.scores(query, keys, batch.lexical), model.scorer.scores(query, keys)]


def teacher_loss(pool: Pool, run: PromptPass, teacher: LandmarkTeacher | None) -> Tensor:
    """How far the landmarks of chunks and questions are from the teacher's; 0 without one."""
    if teacher is None:
        return pool.encoded.landmarks.new_zeros(())
    chunks = teacher.landmarks(run.batch.ids, run.batch.valid)
    questions = teacher.questions(run.batch.questions)
    near = distance(pool.encoded.landmarks, chunks)
    return near + distance(run.encoded[0].landmarks, questions)


def evidence_loss(scores: Sequence[Tensor], gold: Tensor) -> Tensor:
    """Mean over all ``scores`` of ``-log`` of the retrieval probability mass on evidence chunks,
    among all of the pool.
    """
    rows = gold.any(dim=1)
    if not rows.any():
        return scores[0].new_zeros(())
    parts = []
    for score in scores:
        mass = torch.logsumexp(score[rows].masked_fill(~gold[rows], float("-inf")), dim=1)
        parts.append((torch.logsumexp(score[rows], dim=1) - mass).mean())
    return torch.stack(parts).mean()


def relevance_loss(run: PromptPass, picked: Selection) -> Tensor:
    """The evidence loss among the chunks that were read again, by what reading adds to their
    scores; 0 where the model does not judge them.
    """
    head = run.model.quote_head
    if head is None or head.reread_relevance is None or run.relevance is None:
        return picked.scores.new_zeros(())
    judged = picked.scores.detach() + run.relevance
    return evidence_loss([judged], run.batch.gold.gather(1, picked.index))


def text_loss(model: DRT, states: Tensor, prompt: Prompt, batch: QuestionBatch) -> Tensor:
    """Next-token loss of the answers' text, from ``<answer>`` to the end token."""
    rows, slots, targets = [], [], []
    for row, answer in enumerate(batch.answers):
        if not answer:
            continue
        at = int(prompt.answer_slot[row])
        wanted = [*answer, model.config.end_id]
        rows += [row] * len(wanted)
        slots += range(at, at + len(wanted))
        targets += wanted
    if not rows:
        return states.new_zeros(())
    logits = model.logits(states[torch.tensor(rows), torch.tensor(slots)])
    return F.cross_entropy(logits.float(), torch.tensor(targets))


def seeded(rng: random.Random) -> torch.Generator:
    """Return a torch generator seeded from a Python one."""
    return torch.Generator().manual_seed(rng.getrandbits(62))
