"""Collects windows of documents, and questions on them, into one batch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.text.lexical import normalised_bm25, with_neighbours
from drt_lab.data.chunks import chunk_count
from drt_lab.train.answering.batch import QuestionBatch, QuestionItem, TokenDocument

_MOST_SPANS = 16  # occurrences of the evidence that count; more would only widen the table
_ANSWERABLE = {"extractive": 1, "unanswerable": 0}  # others: no exact span to teach


@dataclass(frozen=True)
class Window:
    """``count`` chunks of a document from ``first`` on, at ``offset`` in the pool."""

    document: TokenDocument
    first: int
    count: int
    offset: int


@dataclass(frozen=True)
class _Asked:
    """A question of the batch and the number of the window it was added with."""

    item: QuestionItem
    window: int


class BatchBuilder:
    """Collects windows of documents and questions on them into one batch."""

    def __init__(self, config: ModelConfig, rng: random.Random, *, within: bool = False) -> None:
        """Where ``within`` is true, a question may retrieve chunks of its own window alone."""
        self._config, self._rng, self._within = config, rng, within
        self.windows: list[Window] = []
        self._readers: list[_Asked] = []
        self._retrievers: list[_Asked] = []  # questions that are not read for
        self.num_chunks = 0

    @property
    def num_readers(self) -> int:
        """Return how many questions are read for so far."""
        return len(self._readers)

    def add(
        self,
        document: TokenDocument,
        items: Sequence[QuestionItem],
        window: int,
        *,
        retriever_items: Sequence[QuestionItem] = (),
    ) -> None:
        """Add a window of ``window`` chunks around the evidence of one of ``items``.

        Those with evidence inside are read for, and those of ``retriever_items`` only
        retrieve. Nothing is added where no question of ``items`` can be asked of the window.
        """
        size = self._config.chunk
        total = chunk_count(len(document.ids), size)
        count, first = min(total, window), 0
        if total > window:
            # The evidence is at a place drawn by chance in the window, never always in its middle.
            evidence = [item.spans[0][0] // size for item in items if item.spans]
            centre = self._rng.choice(evidence) if evidence else self._rng.randrange(total)
            first = max(0, min(total - window, centre - self._rng.randrange(window)))
        inside = [item for item in items if self._has_evidence(item, first, count)]
        if not inside:
            return
        number = len(self.windows)
        self.windows.append(Window(document, first, count, self.num_chunks))
        self.num_chunks += count
        self._readers += [_Asked(item, number) for item in inside]
        self._retrievers += [
            _Asked(item, number)
            for item in retriever_items
            if self._has_evidence(item, first, count)
        ]

    def _has_evidence(self, item: QuestionItem, first: int, count: int) -> bool:
        """Return whether evidence begins in these chunks, or none is needed."""
        if item.kind == "unanswerable":
            return True
        return any(first <= a // self._config.chunk < first + count for a, _ in item.spans)

    def build(self, *, most_retrievers: int | None = None) -> QuestionBatch:
        """Return the batch; of the questions that only retrieve, at most ``most_retrievers``."""
        retrievers = self._retrievers
        if most_retrievers is not None and len(retrievers) > most_retrievers:
            retrievers = self._rng.sample(retrievers, most_retrievers)
        questions = [*self._readers, *retrievers]
        # The pool: token ids [P, S], which of them exist [P, S], and the window of each chunk [P].
        size = self._config.chunk
        ids = torch.full((self.num_chunks, size), self._config.pad_id)
        valid = torch.zeros(self.num_chunks, size, dtype=torch.bool)
        window_of = torch.zeros(self.num_chunks, dtype=torch.long)
        for number, window in enumerate(self.windows):
            start, stop = window.first * size, (window.first + window.count) * size
            tokens = window.document.ids[start:stop]
            rows = slice(window.offset, window.offset + window.count)
            ids[rows].view(-1)[: len(tokens)] = tokens
            valid[rows].view(-1)[: len(tokens)] = True
            window_of[rows] = number
        # The evidence of each question: spans [N, O, 2] and the chunks they touch [N, P].
        spans = [self._pool_spans(q.item.spans, q.window) for q in questions]
        table = torch.full((len(questions), max([1, *(len(s) for s in spans)]), 2), -1)
        for row, row_spans in enumerate(spans):
            for column, span in enumerate(row_spans):
                table[row, column] = torch.tensor(span)
        gold = self._touched_chunks(spans)
        support = self._touched_chunks(
            [self._pool_spans(q.item.support, q.window) for q in questions]
        )
        return QuestionBatch(
            windows=[(window.offset, window.count) for window in self.windows],
            ids=ids,
            valid=valid,
            window_of=window_of,
            questions=[q.item.ids for q in questions],
            answers=[q.item.answer for q in questions],
            lexical=self._lexical(questions),
            gold=gold,
            spans=table,
            answerable=torch.tensor([_ANSWERABLE.get(q.item.kind, -1) for q in questions]),
            readers=len(self._readers),
            support=support if support.any() else None,
            allowed=self._own_windows(questions, window_of) if self._within else None,
        )

    @staticmethod
    def _own_windows(questions: Sequence[_Asked], window_of: Tensor) -> Tensor:
        """Mark the chunks of each question's window, [N, P]."""
        own = torch.tensor([question.window for question in questions], dtype=torch.long)
        return own[:, None] == window_of

    def _pool_spans(self, spans: Sequence[tuple[int, int]], number: int) -> list[tuple[int, int]]:
        """Return the spans that begin in a window in pool token numbers; an end beyond it is -1."""
        size, window = self._config.chunk, self.windows[number]
        low, high = window.first * size, (window.first + window.count) * size - 1
        shift = (window.offset - window.first) * size
        inside = [(a + shift, b + shift if b <= high else -1) for a, b in spans if low <= a <= high]
        return inside[:_MOST_SPANS]

    def _touched_chunks(self, spans: Sequence[Sequence[tuple[int, int]]]) -> Tensor:
        """Mark the chunks of the pool that each question's spans touch, [N, P]."""
        size = self._config.chunk
        marks = torch.zeros(len(spans), self.num_chunks, dtype=torch.bool)
        for row, row_spans in enumerate(spans):
            for first, last in row_spans:
                marks[row, first // size : max(first, last) // size + 1] = True
        return marks

    def _lexical(self, questions: Sequence[_Asked]) -> Tensor:
        """Return the normalised BM25 scores of the pool's chunks for each question, [N, P].

        Each window is scored by the index of its whole document, as a library would.
        """
        table = torch.zeros(len(questions), self.num_chunks)
        for row, question in enumerate(questions):
            scores: dict[int, float] = {}  # by chunk of the pool
            own = [self.windows[question.window]]
            for window in own if self._within else self.windows:
                shift = window.offset - window.first
                for chunk, score in window.document.lexical().search(question.item.text):
                    if window.first <= chunk < window.first + window.count:
                        scores[chunk + shift] = score
            shares = normalised_bm25(scores)
            neighbours = {chunk: self._neighbours(chunk) for chunk in shares}
            shares = with_neighbours(shares, neighbours, self._config.lexical_neighbours)
            for chunk, share in shares.items():
                table[row, chunk] = share
        return table

    def _neighbours(self, chunk: int) -> list[int]:
        """Return the chunks before and after one of the pool, in the same window."""
        window = next(w for w in self.windows if w.offset <= chunk < w.offset + w.count)
        start, stop = window.offset, window.offset + window.count
        return [beside for beside in (chunk - 1, chunk + 1) if start <= beside < stop]
