"""Questions and documents of files for the reader, tokenised and grouped for search.

Short documents are searched together, so that a question has hard negatives even where its own
document is a single chunk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from drt_engine.config.model import ANSWER_TYPES, ReaderConfig
from drt_engine.errors import ConfigError
from drt_engine.model.reader import PairTokens
from drt_engine.text.lexical import LexicalIndex
from drt_engine.text.tokenizer import Tokenizer
from drt_lab.config.train import PassagesConfig
from drt_lab.data.encoded_documents import encoded_documents
from drt_lab.data.schema import Question, read_questions
from drt_lab.train.answering.batch import chunk_texts, token_spans
from drt_lab.train.answering.contexts import chunk_contexts

IGNORED = -100  # a label that is not known


class RankedChunk(NamedTuple):
    """A chunk of a document that search ranked high, and the logarithm of its probability."""

    document: int
    chunk: int
    log_probability: float


@dataclass(frozen=True)
class PassageQuestion:
    """A question with its evidence as token spans (first, last) of its document.

    Where ``region`` is true, the evidence supports the answer without being it: it says which
    passage is right, and no more. ``answer_type`` numbers ``ANSWER_TYPES`` and ``verdict`` is 0 for
    no, 1 for yes; -100: not known. ``weight``: how often it is drawn, relative to others;
    ``source``: what the weights are of.
    ``ranked``: what asking would retrieve, best first, where that was searched.
    """

    text: str
    ids: list[int]
    document: int
    spans: list[tuple[int, int]]
    answer: str
    region: bool
    answer_type: int
    verdict: int
    weight: float
    source: str = ""
    ranked: tuple[RankedChunk, ...] = ()

    def log_probability(self, document: int, chunk: int) -> float:
        """Return that of a chunk's retrieval; of one that is not among the ranked, the lowest."""
        values = {(r.document, r.chunk): r.log_probability for r in self.ranked}
        lowest = min(values.values(), default=0.0)
        return values.get((document, chunk), lowest)


@dataclass
class PassageDocument:
    """Token ids [n] of a document and its chunks' texts; ``collection`` numbers its index.

    ``contexts``: token ids in front of each chunk's passage; empty where the reader takes none.
    """

    ids: Tensor
    chunks: list[str]
    contexts: list[list[int]] = field(default_factory=list)
    collection: int = 0


@dataclass
class Collection:
    """Documents that are searched together: a long one by itself, or several short ones."""

    documents: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # the number of each document's first chunk
    num_chunks: int = 0
    index: LexicalIndex | None = None

    def place(self, number: int) -> tuple[int, int]:
        """Return the document and the chunk in it of a chunk of the collection."""
        position = bisect_right(self.starts, number) - 1
        return self.documents[position], number - self.starts[position]


@dataclass(frozen=True)
class PassageBatch:
    """P pairs of N questions, padded to T tokens.

    ``question`` [P] numbers the questions; ``log_probability`` [P] is that of the passage's
    retrieval, 0 where nothing was searched; ``starts``, ``ends`` [P, T]: where spans start and end;
    ``answered`` [N]: whether a passage holds the answer; labels ``answer_type``, ``verdict`` [N].
    """

    pairs: PairTokens
    question: Tensor
    log_probability: Tensor
    starts: Tensor
    ends: Tensor
    answered: Tensor
    answer_type: Tensor
    verdict: Tensor

    def to(self, device: torch.device) -> PassageBatch:
        """Return the batch on ``device``."""
        return PassageBatch(*(value.to(device) for value in vars(self).values()))


class PassageData:
    """The questions of ``config.qa`` that can be asked of the documents of ``config.docs``."""

    def __init__(
        self, config: PassagesConfig, tokenizer: Tokenizer, *, chunk: int, reader: ReaderConfig
    ) -> None:
        self.config, self.tokenizer = config, tokenizer
        self.chunk, self.longest_question = chunk, reader.longest_question
        self.documents: list[PassageDocument] = []
        numbers: dict[str, int] = {}  # of the documents, by id
        spans: dict[int, list[tuple[int, int]]] = {}  # of the evidence in tokens, by question
        questions = [question for path in config.qa for question in read_questions(path)]
        questions_of: dict[str, list[int]] = defaultdict(list)
        for number, question in enumerate(questions):
            questions_of[question.doc_id].append(number)
        # Only token ids and chunks of documents are kept.
        documents = encoded_documents(config.docs, tokenizer, wanted=questions_of.__contains__)
        for document, encoding in documents:
            numbers[document.doc_id] = len(self.documents)
            ids = torch.tensor(encoding.ids, dtype=torch.int32)
            chunks = chunk_texts(encoding, document.text, chunk)
            contexts = []
            if reader.context:
                contexts = chunk_contexts(document, encoding, tokenizer, reader, chunk=chunk)
            self.documents.append(PassageDocument(ids, chunks, contexts))
            for number in questions_of[document.doc_id]:
                spans[number] = token_spans(encoding, questions[number].evidence)
        self.collections = _collect(self.documents, short=config.short, size=config.collection)
        askable = [number for number, q in enumerate(questions) if q.doc_id in numbers]
        question_ids = self.encode([questions[number].question for number in askable])
        self.questions = [
            self._question(questions[number], ids, numbers, spans[number])
            for number, ids in zip(askable, question_ids, strict=True)
            if ids and (questions[number].kind == "unanswerable" or spans[number])
        ]
        if not self.questions:
            raise ConfigError("passages.qa holds no question with evidence in passages.docs")

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of questions, the last ones of those that are too long."""
        room = self.longest_question
        return [encoding.ids[-room:] for encoding in self.tokenizer.encode_batch(texts)]

    def search(self, question: PassageQuestion) -> Iterator[tuple[int, int]]:
        """Yield documents and chunks of the question's collection, best first.

        By what asking would retrieve, where that was searched, else by BM25.
        """
        if question.ranked:
            yield from ((document, chunk) for document, chunk, _ in question.ranked)
            return
        collection = self.collections[self.documents[question.document].collection]
        if collection.index is None:
            texts = [c for d in collection.documents for c in self.documents[d].chunks]
            collection.index = LexicalIndex(texts)
        # Twice the candidates, since evidence and passages with the answer are left out of them.
        for number, _ in collection.index.search(question.text, 2 * self.config.candidates):
            yield collection.place(number)

    def questions_by_collection(self) -> dict[int, list[int]]:
        """Return the numbers of the questions that may be drawn, by the number of a collection."""
        numbers: dict[int, list[int]] = defaultdict(list)
        for number, question in enumerate(self.questions):
            if question.weight > 0:
                numbers[self.documents[question.document].collection].append(number)
        return numbers

    def evidence_chunks(self, question: PassageQuestion) -> set[int]:
        """Return the chunks of the question's document that its evidence touches."""
        size = self.chunk
        return {c for a, b in question.spans for c in range(a // size, b // size + 1)}

    def _question(
        self,
        question: Question,
        ids: list[int],
        numbers: dict[str, int],
        spans: list[tuple[int, int]],
    ) -> PassageQuestion:
        answer = question.answers[0].lower() if question.answers else ""
        # The answers of BoolQ are the words yes and no themselves.
        answer_type = "yesno" if question.source == "BoolQ" else question.type
        yes_no = (question.yes_no or answer) if answer_type == "yesno" else ""
        is_long = any(last - first >= self.config.longest for first, last in spans)
        region = is_long or question.kind == "abstractive"
        return PassageQuestion(
            text=question.question,
            ids=ids,
            document=numbers[question.doc_id],
            spans=spans,
            answer="" if region else answer,
            region=region,
            answer_type=ANSWER_TYPES.index(answer_type) if answer_type in ANSWER_TYPES else IGNORED,
            verdict={"no": 0, "yes": 1}.get(yes_no, IGNORED),
            weight=_weight(self.config.weights, question, answer_type),
            source=question.source,
        )


def _collect(documents: Sequence[PassageDocument], *, short: int, size: int) -> list[Collection]:
    """Group documents of under ``short`` chunks in order until a group has ``size`` or more.

    Longer documents are collections of their own.
    """
    collections: list[Collection] = []
    current = Collection()
    for number, document in enumerate(documents):
        alone = len(document.chunks) >= short
        target = Collection() if alone else current
        target.documents.append(number)
        target.starts.append(target.num_chunks)
        target.num_chunks += len(document.chunks)
        if alone:
            collections.append(target)
        elif current.num_chunks >= size:
            collections.append(current)
            current = Collection()
    if current.documents:
        collections.append(current)
    for place, collection in enumerate(collections):
        for number in collection.documents:
            documents[number].collection = place
    return collections


def _weight(weights: dict[str, float], question: Question, answer_type: str) -> float:
    """Return the weight of a source and answer type or kind, else of the source, else 1."""
    source = question.source
    keys = (f"{source}/{answer_type}", f"{source}/{question.kind}", source)
    return next((weights[key] for key in keys if key in weights), 1.0)
