"""Losses of a batch of questions: evidence retrieval, quote start and end with and without
re-reading, answer text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_engine.model.drt import DRT, Encoded, Span
from drt_engine.model.gca_layer import ChunkMemory, Retrieved
from drt_engine.model.prompt import Prompt, lay_out
from drt_engine.model.quote_head import QuoteLogits, Reread
from drt_engine.model.selection import Selection, select, selection_of
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


def laid_out(batch: QuestionBatch, answers: Sequence[Sequence[int]], model: DRT) -> Prompt:
    """Lay out the prompts of a batch's questions, on the device of the batch."""
    prompt = lay_out(batch.questions, answers, model.config)
    moved = {k: v.to(batch.ids.device) for k, v in vars(prompt).items() if isinstance(v, Tensor)}
    return replace(prompt, **moved)  # type: ignore[arg-type]


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
    offsets = torch.arange(-margin, size + margin, device=index.device)
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
        self.prompt = laid_out(batch, batch.answers, model)
        self.states, self.encoded = model.prompt_states(self.prompt)
        self.late = late_scores(model, pool, self.encoded)
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
                index = torch.arange(index.numel(), device=index.device).view_as(index)
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
        rows = torch.arange(states.shape[0], device=states.device)
        answer = states[rows, self.prompt.answer_slot]
        head = self.model.quote_head
        assert head is not None
        logits = head(answer, memory, index, torch.log_softmax(picked.scores, dim=-1))
        if again is not None:
            logits = head.add_reread(logits, again, picked.probabilities)
            self.relevance = head.reranker_scores(again)
        return states, picked, logits, self.slots

    def _choose(self, group: int, x: Tensor) -> Selection:
        border = x[:, self.prompt.borders[0]]
        query = self.model.scorer.queries(border, self.encoded[0].landmarks, group)
        taught = taught_scores(self.model, query, self.pool, self.batch.lexical, self.late)
        scores = taught[0]
        self.scores += taught
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
    """The parts of the loss of a batch of questions, and how often evidence was among the
    choice.
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
    if not readers:
        return only_retrieved(model, whole, pool, count)
    run = PromptPass(model, batch, pool, count=count, generator=generator)
    states, picked, logits, slots = run.run(reread=True)
    reread = span_loss(logits, slots, batch)
    relevance = relevance_loss(run, picked)
    _, _, stored_logits, stored_slots = run.run(reread=False)
    stored = span_loss(stored_logits, stored_slots, batch)
    hit = hit_rate(run.scores[0], batch.gold, count)
    retrieval = evidence_loss(*with_support(run.scores, batch))
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


def only_retrieved(model: DRT, batch: QuestionBatch, pool: Pool, count: int) -> AnswerLosses:
    """The losses of questions none of which is read for."""
    scores = asking_scores(model, batch, pool)
    nothing = scores[0].new_zeros(())
    return AnswerLosses(
        retrieval=evidence_loss(scores, batch.gold),
        reread=nothing,
        stored=nothing,
        text=nothing,
        relevance=nothing,
        teacher=nothing,
        hit=hit_rate(scores[0], batch.gold, count),
    )


@torch.no_grad()
def hit_rate(scores: Tensor, gold: Tensor, count: int) -> Tensor:
    """The share of the answerable questions that have evidence among their ``count`` best."""
    top = scores.topk(min(count, scores.shape[1]), dim=1).indices
    return gold.gather(1, top).any(dim=1)[gold.any(dim=1)].float().mean()


def asking_scores(model: DRT, batch: QuestionBatch, pool: Pool) -> list[Tensor]:
    """Scores [N, P] of the pool's chunks for questions that are not read for, as in
    ``taught_scores``. Only the first group asks, since later ones ask after reading.
    """
    prompt = laid_out(batch, [[] for _ in batch.questions], model)
    states, encoded = model.prompt_states(prompt)
    border = states[:, prompt.borders[0]]
    query = model.scorer.queries(border, encoded[0].landmarks, 0)
    late = late_scores(model, pool, encoded)
    return taught_scores(model, query, pool, batch.lexical, late)


def late_scores(model: DRT, pool: Pool, encoded: Sequence[Encoded]) -> Tensor | None:
    """What the tokens of questions make of the pool's, [N, P]; ``None`` for a model without."""
    late = model.scorer.late
    if late is None:
        return None
    parts = [model.remember(chunk) for chunk in encoded]
    whole = (torch.cat([getattr(p, f) for p in parts], 1) for f in ("keys", "values", "mask"))
    keys = late.keys(pool.memory)
    return late(ChunkMemory(*whole, parts[-1].landmarks), keys, pool.memory.mask)  # type: ignore[no-any-return]


def taught_scores(
    model: DRT, query: Tensor, pool: Pool, lexical: Tensor, late: Tensor | None
) -> list[Tensor]:
    """Scores [N, P] that the evidence loss counts; by the first of them chunks are chosen.

    Landmarks are also taught alone: beside BM25 they would only learn what words do not say. So are
    landmarks with their tokens.
    """
    keys, scorer = pool.memory.landmarks, model.scorer
    scores = [scorer.scores(query, keys, lexical, late), scorer.scores(query, keys)]
    if late is not None:
        scores.append(scorer.scores(query, keys, late=late))
    return [score.total for score in scores]


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


def with_support(scores: Sequence[Tensor], batch: QuestionBatch) -> tuple[list[Tensor], Tensor]:
    """Scores and evidence with a further row for each question whose answer needs support.

    One row for both would be content with the mass on either.
    """
    if batch.support is None:
        return list(scores), batch.gold
    more = batch.support.any(dim=1)
    gold = torch.cat([batch.gold, batch.support[more]])
    return [torch.cat([score, score[more]]) for score in scores], gold


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
    places = zip(batch.answers, prompt.answer_slot.tolist(), strict=True)
    for row, (answer, at) in enumerate(places):
        if not answer:
            continue
        wanted = [*answer, model.config.end_id]
        rows += [row] * len(wanted)
        slots += range(at, at + len(wanted))
        targets += wanted
    if not rows:
        return states.new_zeros(())
    row, slot, target = torch.tensor([rows, slots, targets], device=states.device)
    return F.cross_entropy(model.logits(states[row, slot]).float(), target)
