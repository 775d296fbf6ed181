"""A batch of prompts over a pool of chunks: score the chunks, choose, read, run the upper layers.

The forward pass of training. It scores chunks with the functions that asking uses and differs in
what it teaches: choices are noisy, evidence is put among them, and several scores are kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drt_engine.model.drt import DRT, Encoded, Span
from drt_engine.model.gca_layer import ChunkMemory, Retrieved
from drt_engine.model.prompt import Prompt, lay_out
from drt_engine.model.quote_head import QuoteLogits, Reread
from drt_engine.model.selection import Selection, select, selection_of
from drt_lab.train.answering.batch import QuestionBatch


@dataclass(frozen=True)
class Pool:
    """The encoded chunks that all questions of a batch may retrieve."""

    encoded: Encoded
    memory: ChunkMemory


@dataclass(frozen=True)
class PromptResult:
    """What one run of the upper layers gives.

    ``states`` [N, T, E]; ``selection``: the chunks of the last group; ``logits`` of quotes over the
    tokens of those chunks, ``slots`` [N, R, U]: their pool token numbers, -1 where there is none;
    ``relevance`` [N, R]: what the reader pass adds to the scores, ``None`` without one.
    """

    states: Tensor
    selection: Selection
    logits: QuoteLogits
    slots: Tensor
    relevance: Tensor | None


def encode_pool(model: DRT, batch: QuestionBatch) -> Pool:
    """Read each window of the batch as a document of its own.

    Windows of like length are read at a time: hundreds of small products leave a GPU idle.
    """
    groups: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for window in batch.windows:
        groups[window[1].bit_length()].append(window)
    pieces: list[tuple[int, Tensor, Tensor]] = []  # first chunk, states and mask of a window
    for windows in groups.values():
        longest = max(count for _, count in windows)
        # What pads a window stands behind it, where nothing that is causal reads it: the chunks
        # that follow in the pool, or its last one again.
        offsets = torch.tensor([offset for offset, _ in windows], device=batch.ids.device)
        rows = offsets[:, None] + torch.arange(longest, device=batch.ids.device)  # [W, C]
        rows = rows.clamp(max=len(batch.ids) - 1)
        states, mask = model.chunk_states(batch.ids[rows], batch.valid[rows])
        for number, (offset, count) in enumerate(windows):
            pieces.append((offset, states[number, :count], mask[number, :count]))
    pieces.sort(key=lambda piece: piece[0])
    encoded = model.encode(
        torch.cat([states for _, states, _ in pieces]), torch.cat([mask for *_, mask in pieces])
    )
    return Pool(encoded, model.remember(encoded))


def lay_out_prompts(batch: QuestionBatch, answers: Sequence[Sequence[int]], model: DRT) -> Prompt:
    """Lay out the prompts of a batch's questions, on the device of the batch."""
    prompt = lay_out(batch.questions, answers, model.config)
    moved = {k: v.to(batch.ids.device) for k, v in vars(prompt).items() if isinstance(v, Tensor)}
    return replace(prompt, **moved)  # type: ignore[arg-type]


def window_slots(index: Tensor, batch: QuestionBatch, margin: int) -> Tensor:
    """Return pool token numbers of chunks ``index`` [N, R] and of ``margin`` tokens around them.

    [N, R, S + 2 margin]; -1 beyond the window of the chunk and where a chunk has no token.
    """
    size = batch.ids.shape[1]
    offsets = torch.arange(-margin, size + margin, device=index.device)
    slots = index[..., None] * size + offsets
    inside = slots.clamp(0, batch.ids.numel() - 1)
    same_window = batch.window_of[inside // size] == batch.window_of[index][..., None]
    exists = (slots == inside) & same_window & batch.valid.view(-1)[inside]
    return slots.masked_fill(~exists, -1)


# --- scores of all chunks of the pool


def taught_scores(
    model: DRT, query: Tensor, pool: Pool, batch: QuestionBatch, late: Tensor | None
) -> list[Tensor]:
    """Return the scores [N, P] that the evidence loss counts; the first of them chooses chunks.

    It is -inf where a question may not retrieve. Landmarks are also taught alone, among all chunks:
    beside BM25 they would only learn what words do not say. So are landmarks with late interaction.
    """
    keys, scorer = pool.memory.landmarks, model.scorer
    whole = scorer.scores(query, keys, batch.lexical, late).total
    if batch.allowed is not None:
        whole = whole.masked_fill(~batch.allowed, float("-inf"))
    scores = [whole, scorer.scores(query, keys).total]
    if late is not None:
        scores.append(scorer.scores(query, keys, late=late).total)
    return scores


def late_scores(model: DRT, pool: Pool, encoded: Sequence[Encoded]) -> Tensor | None:
    """Return late-interaction scores of the pool's chunks [N, P], ``None`` for a model without."""
    late = model.scorer.late
    if late is None:
        return None
    # The tokens of a question's chunks, one after the other: [N, chunks * S, ..].
    parts = [model.remember(chunk) for chunk in encoded]
    keys, values, mask = (
        torch.cat([getattr(part, name) for part in parts], 1) for name in ("keys", "values", "mask")
    )
    question = ChunkMemory(keys, values, mask, parts[-1].landmarks)
    scores: Tensor = late(question, late.keys(pool.memory), pool.memory.mask)
    return scores


def retrieval_scores(model: DRT, batch: QuestionBatch, pool: Pool) -> list[Tensor]:
    """Return the taught scores of questions that are not read for, at the cost of their chunk.

    Only the first group is asked, since later ones ask after reading.
    """
    prompt = lay_out_prompts(batch, [[] for _ in batch.questions], model)
    states, encoded = model.prompt_states(prompt)
    landmark_states = states[:, prompt.borders[0]]  # [N, E], where the question ends
    query = model.scorer.queries(landmark_states, encoded[0].landmarks, 0)
    late = late_scores(model, pool, encoded)
    return taught_scores(model, query, pool, batch, late)


# --- reading


class PromptPass:
    """One batch of prompts over a pool; ``run`` it with the reader pass and without."""

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
        self.prompt = lay_out_prompts(batch, batch.answers, model)
        self.states, self.encoded = model.prompt_states(self.prompt)
        self.late = late_scores(model, pool, self.encoded)
        self.scores: list[Tensor] = []  # of every choice that was made, [N, P] each

    def run(self, *, reread: bool) -> PromptResult:
        """Run the upper layers over the prompts, each group with the chunks that it chooses."""
        groups: list[tuple[Selection, ChunkMemory, Reread | None, Tensor, Tensor]] = []

        def plan(group: int, x: Tensor) -> Sequence[Span]:
            """Choose and read the chunks of a group before its layers run."""
            selection = self._choose(group, x)
            if reread:
                # The reader's memory holds the chosen chunks only, numbered in their order.
                margin = self.model.config.reread_margin
                reader, memory = self._reread(selection)
                index = torch.arange(selection.index.numel(), device=x.device)
                index = index.view_as(selection.index)
            else:
                margin, reader, memory, index = 0, None, self.pool.memory, selection.index
            slots = window_slots(selection.index, self.batch, margin)
            groups.append((selection, memory, reader, index, slots))
            # One retrieval for all tokens behind the landmark: [N, 1, R].
            retrieved = Retrieved(
                memory,
                index[:, None],
                selection.scores[:, None],
                selection.probabilities[:, None],
            )
            return [Span(self.prompt.borders[0] + 1, x.shape[1], retrieved)]

        states = self.model.upper_states(self.states, self.prompt.valid, plan)
        # The quote head points with the state of <answer> into what the last group retrieved.
        selection, memory, reader, index, slots = groups[-1]
        rows = torch.arange(states.shape[0], device=states.device)
        answer = states[rows, self.prompt.answer_slot]
        head = self.model.quote_head
        assert head is not None
        logits = head(answer, memory, index, torch.log_softmax(selection.scores, dim=-1))
        relevance = None
        if reader is not None:
            logits = head.add_reread(logits, reader, selection.probabilities)
            relevance = head.reranker_scores(reader)
        return PromptResult(states, selection, logits, slots, relevance)

    def _choose(self, group: int, x: Tensor) -> Selection:
        """Choose chunks with the state of the question's landmark, noise and evidence added."""
        landmark_states = x[:, self.prompt.borders[0]]
        query = self.model.scorer.queries(landmark_states, self.encoded[0].landmarks, group)
        taught = taught_scores(self.model, query, self.pool, self.batch, self.late)
        self.scores += taught
        scores = taught[0]
        allowed = self.batch.allowed
        if allowed is None:
            allowed = torch.ones_like(scores, dtype=torch.bool)
        selection = select(scores, allowed, self.count, generator=self.generator)
        return self._force_evidence(scores, selection)

    def _force_evidence(self, scores: Tensor, selection: Selection) -> Selection:
        """Put evidence in the last place where none was chosen, so that every step reads some."""
        gold = self.batch.gold
        missed = gold.any(dim=1) & ~gold.gather(1, selection.index).any(dim=1)
        best = scores.detach().masked_fill(~gold, float("-inf")).argmax(dim=1)
        index = selection.index.clone()
        index[missed, -1] = best[missed]
        present = torch.isfinite(selection.scores)
        present[missed, -1] = True
        return selection_of(scores, index, present)

    def _reread(self, selection: Selection) -> tuple[Reread, ChunkMemory]:
        """Read the question together with each chosen chunk and its margin."""
        slots = window_slots(selection.index, self.batch, self.model.config.reread_margin)
        tokens = self.batch.ids.view(-1)[slots.clamp(min=0)]
        stop = self.prompt.borders[0]
        question, valid = self.prompt.ids[:, :stop], self.prompt.valid[:, :stop]
        return self.model.reread(question, valid, tokens, slots >= 0)
