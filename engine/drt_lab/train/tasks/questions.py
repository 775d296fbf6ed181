"""Questions of files, on windows of their documents."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_engine.text.tokenizer import Encoding, Tokenizer
from drt_lab.data.encoded_documents import encoded_documents
from drt_lab.data.schema import Question, read_questions
from drt_lab.train.answering.batch import (
    QuestionBatch,
    QuestionItem,
    TokenDocument,
    fit_prompt,
    token_spans,
)
from drt_lab.train.answering.builder import BatchBuilder
from drt_lab.train.tasks.base import Task, TaskSetup

# A document is drawn by the number of its questions up to this many, so that a few long articles
# do not crowd out the others.
_MOST_COUNTED = 40


class QuestionsTask(Task[QuestionBatch]):
    """Questions with evidence from a pair of files (``config.questions``)."""

    def __init__(self, setup: TaskSetup) -> None:
        self.setup, self.config = setup, setup.config.questions
        self.share = self.config.share
        setup.expect_reader_pass()
        if not self.config.qa or not self.config.docs:
            raise ConfigError("questions.qa and questions.docs must name files")
        self.documents = load_documents(
            self.config.qa, self.config.docs, setup.tokenizer, setup.model.chunk
        )
        self._weights = [
            min(len(d.items), _MOST_COUNTED) * self.config.weights.get(d.source, 1.0)
            for d in self.documents
        ]

    def draw(self, rng: random.Random) -> QuestionBatch:
        """Draw up to ``config.questions`` questions on about ``config.pool`` chunks.

        Up to ``config.more`` further questions on the same windows only retrieve.
        """
        config = self.config
        builder = BatchBuilder(self.setup.model, rng, within=config.within)
        of_each = config.of_each or max(4, config.questions * 2 // 3)
        while builder.num_readers < config.questions and builder.num_chunks < config.pool:
            document = rng.choices(self.documents, self._weights)[0]
            # Not all of a batch from one document, but a few where there is little room left.
            room = min(config.questions - builder.num_readers, of_each)
            items = rng.sample(document.items, min(len(document.items), room))
            drawn = {id(item) for item in items}
            remaining = [i for i in document.items if id(i) not in drawn and i.spans]
            # Most lie outside the window, so more are drawn than are needed.
            retriever_items = rng.sample(remaining, min(len(remaining), 8 * config.more))
            builder.add(document, items, config.window, retriever_items=retriever_items)
        batch = builder.build(most_retrievers=config.more)
        if config.hidden > 0:
            batch = hide_evidence(batch, rng, config.hidden)
        return batch if config.read else replace(batch, readers=0)

    def loss(
        self, model: DRT, batch: QuestionBatch, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the answer loss and all of its parts."""
        return self.setup.answer_loss(
            model, batch, count=self.config.retrieved, generator=generator
        )


def hide_evidence(batch: QuestionBatch, rng: random.Random, share: float) -> QuestionBatch:
    """Make about ``share`` of the questions unanswerable.

    Their evidence, with its neighbours, which may repeat it, cannot be retrieved.
    """
    hidden = torch.tensor([rng.random() < share for _ in batch.questions])  # [N]
    hidden &= batch.gold.any(dim=1) & (batch.answerable == 1)
    around = batch.gold | batch.gold.roll(1, dims=1) | batch.gold.roll(-1, dims=1)  # [N, P]
    allowed = torch.ones_like(around) if batch.allowed is None else batch.allowed
    hidden &= (allowed & ~around).any(dim=1)  # something must be left to read
    rows = hidden[:, None]
    return replace(
        batch,
        allowed=~(around & rows) & allowed,
        gold=batch.gold & ~rows,
        spans=batch.spans.masked_fill(rows[..., None], -1),
        answers=[
            [] if is_hidden else a
            for a, is_hidden in zip(batch.answers, hidden.tolist(), strict=True)
        ],
        answerable=batch.answerable.masked_fill(hidden, 0),
    )


def load_documents(
    qa: Sequence[Path], docs: Sequence[Path], tokenizer: Tokenizer, chunk: int
) -> list[TokenDocument]:
    """Read and tokenise the documents that have questions, with their questions.

    Left out are questions without a document or, unless unanswerable, without evidence in it.
    Raises ``ConfigError`` naming file, line and fault.
    """
    questions_of: dict[str, list[Question]] = defaultdict(list)
    for question in (question for path in qa for question in read_questions(path)):
        questions_of[question.doc_id].append(question)
    documents = []
    encoded = encoded_documents(docs, tokenizer, wanted=questions_of.__contains__)
    for document, encoding in encoded:
        questions = questions_of[document.doc_id]
        items = _items(questions, encoding, tokenizer, chunk)
        if items:
            source = questions[-1].source
            documents.append(TokenDocument.of(encoding, document.text, source, items, chunk=chunk))
    return documents


def _items(
    questions: Sequence[Question], encoding: Encoding, tokenizer: Tokenizer, chunk: int
) -> list[QuestionItem]:
    """Return the questions that can be asked of a document of these tokens."""
    question_ids = tokenizer.encode_batch([question.question for question in questions])
    answer_ids = tokenizer.encode_batch([_first(question.answers) for question in questions])
    items = []
    for question, asked, answer in zip(questions, question_ids, answer_ids, strict=True):
        spans = token_spans(encoding, question.evidence)
        if asked.ids and (question.kind == "unanswerable" or spans):
            ids, answer_tokens = fit_prompt(asked.ids, answer.ids, chunk)
            items.append(QuestionItem(question.question, ids, answer_tokens, spans, question.kind))
    return items


def _first(texts: Sequence[str]) -> str:
    return texts[0] if texts else ""
