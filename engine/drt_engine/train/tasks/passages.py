"""Question and passage pairs that teach the reader, and their loss.

Each question comes with a passage that holds its evidence and with some of the chunks that search
ranks best for it, which are the passages it must be told apart from. A step needs neither a pool
of chunks, nor the lower stack, nor stored memory: only the reader runs.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_engine.config.model import ANSWER_TYPES, ModelConfig
from drt_engine.config.train import PassagesConfig
from drt_engine.data.json_lines import Record, read_records
from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_engine.model.reader import PairLogits, PairTokens, pack_pairs
from drt_engine.text.lexical import LexicalIndex
from drt_engine.text.tokenizer import Tokenizer
from drt_engine.text.words import STOP_WORDS
from drt_engine.train.questions import chunk_texts, token_span

_BATCH_CHARACTERS = 2_000_000  # tokenised at a time, so that offsets never fill the memory
_IGNORED = -100  # a label that is not known


@dataclass(frozen=True)
class PassageQuestion:
    """A question with its evidence as token spans (first, last) of its document.

    Where ``region`` is true, the evidence supports the answer without being it: it says which
    passage is right, and no more. ``answer_type`` numbers ``ANSWER_TYPES`` and ``verdict`` is 0 for
    no, 1 for yes; -100: not known.
    """

    text: str
    ids: list[int]
    document: int
    spans: list[tuple[int, int]]
    answer: str
    region: bool
    answer_type: int
    verdict: int


@dataclass
class PassageDocument:
    """Token ids [n] of a document and its chunks' texts; ``collection`` numbers its index."""

    ids: Tensor
    chunks: list[str]
    collection: int = 0


@dataclass
class Collection:
    """Documents that are searched together: a long one by itself, or several short ones."""

    documents: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # the number of each document's first chunk
    chunks: int = 0
    index: LexicalIndex | None = None


@dataclass(frozen=True)
class PassageBatch:
    """P pairs of N questions: ``question`` [P] numbers them; where spans start and end, ``starts``,
    ``ends`` [P, T]; ``answered`` [N]: whether a passage holds the answer; labels ``answer_type``,
    ``verdict`` [N].
    """

    pairs: PairTokens
    question: Tensor
    starts: Tensor
    ends: Tensor
    answered: Tensor
    answer_type: Tensor
    verdict: Tensor

    def to(self, device: torch.device) -> PassageBatch:
        """Return the batch on ``device``."""
        return PassageBatch(*(value.to(device) for value in vars(self).values()))


class PassageSource:
    """Samples question and passage pairs from files in the project's schema of questions."""

    def __init__(self, config: PassagesConfig, model: ModelConfig, tokenizer: Tokenizer) -> None:
        if model.reader is None:
            raise ConfigError("passages teach the reader; expected a model with [model.reader]")
        self.config, self.reader = config, model.reader
        self.chunk, self.pad_id = model.chunk, model.pad_id
        self.tokenizer = tokenizer
        rows = [_row(record) for path in config.qa for record in read_records(path)]
        numbers, self.documents = self._read_documents(rows, tokenizer)
        self.collections = _collect(self.documents, config.collection)
        self.questions: list[PassageQuestion] = []
        weights: list[float] = []
        for row, question in self._read_questions(rows, numbers):
            self.questions.append(question)
            weights.append(_weight(config.weights, row))
        if not self.questions:
            raise ConfigError("passages.qa holds no question with evidence in passages.docs")
        self._mass = list(_cumulative(weights))

    def batch(self, rng: random.Random) -> PassageBatch:
        """Draw ``config.questions`` questions, each with its passages."""
        drawn = rng.choices(self.questions, cum_weights=self._mass, k=self.config.questions)
        asked: list[list[int]] = []
        windows: list[tuple[int, int, int]] = []  # document, first and last token + 1
        owners: list[int] = []
        for number, question in enumerate(drawn):
            ids = self._altered(question, rng)
            for window in self._windows(question, rng):
                asked.append(ids)
                windows.append(window)
                owners.append(number)
        passages = [self.documents[d].ids[a:b].tolist() for d, a, b in windows]
        pairs, offsets = pack_pairs(self.reader, asked, passages, pad_id=self.pad_id)
        starts, ends = (torch.zeros_like(pairs.passage) for _ in range(2))
        answered = torch.zeros(len(drawn), dtype=torch.bool)
        for row, (owner, window, offset) in enumerate(zip(owners, windows, offsets, strict=True)):
            shift = offset - window[1]
            for first, last in _targets(drawn[owner], window):
                for targets, place in ((starts, first), (ends, last)):
                    if place is None:  # the passage is right, wherever in it
                        targets[row] |= pairs.passage[row]
                    else:
                        targets[row, place + shift] = True
                answered[owner] = True
        return PassageBatch(
            pairs,
            torch.tensor(owners),
            starts,
            ends,
            answered,
            torch.tensor([q.answer_type for q in drawn]),
            torch.tensor([q.verdict for q in drawn]),
        )

    def _windows(self, question: PassageQuestion, rng: random.Random) -> list[tuple[int, int, int]]:
        """Choose a passage with evidence, unless it is hidden, and hard negatives."""
        margin = rng.choice(self.config.margins)
        count = rng.choice(self.config.passages)
        chosen: list[tuple[int, int]] = []  # document, chunk
        if question.spans and rng.random() >= self.config.hidden:
            span = rng.choice(question.spans)
            place = span[rng.random() < self.config.by_end]
            chosen.append((question.document, place // self.chunk))
        chosen += self._negatives(question, rng, count - len(chosen))
        if not chosen:  # nothing shares a word with the question
            every = range(len(self.documents[question.document].chunks))
            rest = [c for c in every if c not in self._evidence(question)] or every
            chosen.append((question.document, rng.choice(rest)))
        return [self._window(d, c, margin) for d, c in chosen]

    def _evidence(self, question: PassageQuestion) -> set[int]:
        """The chunks of the question's document that its evidence touches."""
        size = self.chunk
        return {c for a, b in question.spans for c in range(a // size, b // size + 1)}

    def _window(self, document: int, chunk: int, margin: int) -> tuple[int, int, int]:
        first, last = chunk * self.chunk - margin, (chunk + 1) * self.chunk + margin
        return document, max(0, first), min(len(self.documents[document].ids), last)

    def _negatives(
        self, question: PassageQuestion, rng: random.Random, count: int
    ) -> list[tuple[int, int]]:
        """Draw chunks that rank high for the question and do not hold its answer."""
        collection = self.collections[self.documents[question.document].collection]
        evidence = self._evidence(question)
        answer = question.answer.lower() if len(question.answer) > 3 else None
        ranked: list[tuple[int, int]] = []
        for document, chunk in self._search(collection, question.text):
            if document == question.document and chunk in evidence:
                continue
            if answer and answer in self.documents[document].chunks[chunk].lower():
                continue  # perhaps an answer that nobody marked
            ranked.append((document, chunk))
            if len(ranked) == self.config.candidates:
                break
        if len(ranked) <= count:
            return ranked
        return rng.sample(ranked, count)

    def _search(self, collection: Collection, text: str) -> Iterator[tuple[int, int]]:
        """Documents and chunks of a collection, best first by BM25."""
        if collection.index is None:
            texts = [c for d in collection.documents for c in self.documents[d].chunks]
            collection.index = LexicalIndex(texts)
        for number, _ in collection.index.search(text, 2 * self.config.candidates):
            place = bisect_right(collection.starts, number) - 1
            yield collection.documents[place], number - collection.starts[place]

    def _altered(self, question: PassageQuestion, rng: random.Random) -> list[int]:
        """The question's tokens, sometimes as people type: key words only."""
        if rng.random() >= self.config.keywords:
            return question.ids
        words = re.findall(r"\w[\w'.-]*", question.text)
        kept = [word for word in words if word.lower() not in STOP_WORDS]
        if len(kept) < 2:
            return question.ids
        return self._encode([" ".join(kept)])[0]

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        room = self.reader.longest_question
        return [encoding.ids[-room:] for encoding in self.tokenizer.encode_batch(texts)]

    def _read_documents(
        self, rows: Sequence[_Row], tokenizer: Tokenizer
    ) -> tuple[dict[str, int], list[PassageDocument]]:
        """Tokenise the documents that are asked about; their numbers by id."""
        asked: dict[str, list[_Row]] = defaultdict(list)
        for row in rows:
            asked[row.document].append(row)
        numbers: dict[str, int] = {}
        documents: list[PassageDocument] = []
        records = (record for path in self.config.docs for record in read_records(path))
        texts = ((_document_id(record), record) for record in records)
        for group in _groups((i, record.string("text")) for i, record in texts if i in asked):
            encodings = tokenizer.encode_batch([text for _, text in group])
            for (name, text), encoding in zip(group, encodings, strict=True):
                if not len(encoding) or name in numbers:
                    continue
                numbers[name] = len(documents)
                ids = torch.tensor(encoding.ids, dtype=torch.int32)
                documents.append(PassageDocument(ids, chunk_texts(encoding, text, self.chunk)))
                for row in asked[name]:
                    spans = (token_span(encoding, a, b) for a, b in row.evidence)
                    row.spans = [span for span in spans if span is not None]
        return numbers, documents

    def _read_questions(
        self, rows: Sequence[_Row], numbers: dict[str, int]
    ) -> Iterator[tuple[_Row, PassageQuestion]]:
        rows = [row for row in rows if row.document in numbers]
        for row, ids in zip(rows, self._encode([row.text for row in rows]), strict=True):
            if not ids or (row.kind != "unanswerable" and not row.spans):
                continue
            long = any(b - a >= self.config.longest for a, b in row.spans)
            region = long or row.kind == "abstractive"
            yield (
                row,
                PassageQuestion(
                    row.text,
                    ids,
                    numbers[row.document],
                    row.spans,
                    "" if region else row.answer,
                    region,
                    ANSWER_TYPES.index(row.type) if row.type in ANSWER_TYPES else _IGNORED,
                    {"no": 0, "yes": 1}.get(row.yes_no, _IGNORED),
                ),
            )


@dataclass
class _Row:
    """A question as its file has it; ``spans`` are the evidence in tokens, once they are known."""

    text: str
    document: str
    evidence: tuple[tuple[int, int], ...]
    answer: str
    kind: str
    source: str
    type: str
    yes_no: str
    spans: list[tuple[int, int]] = field(default_factory=list)


def _row(record: Record) -> _Row:
    """Read a question; raises ConfigError naming file and line."""
    source, answers = record.string("source"), record.strings("answers")
    answer = answers[0].lower() if answers else ""
    kind = record.string("type") if "type" in record.fields else ""
    # The answers of BoolQ are the words yes and no themselves.
    kind = "yesno" if source == "BoolQ" else kind
    yes_no = record.string("yes_no") if "yes_no" in record.fields else answer
    return _Row(
        text=record.string("question"),
        document=record.string("doc_id"),
        evidence=record.spans("evidence"),
        answer=answer,
        kind=record.string("kind"),
        source=source,
        type=kind,
        yes_no=yes_no if kind == "yesno" else "",
    )


def _document_id(record: Record) -> str:
    """The id of a document; a corpus file calls it otherwise."""
    return record.string("doc_id" if "doc_id" in record.fields else "id")


def passage_loss(
    model: DRT, batch: PassageBatch, config: PassagesConfig
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of a batch and its parts: spans, answer types, verdicts."""
    assert model.span_reader is not None
    logits: PairLogits = model.span_reader(model.embedding, batch.pairs)
    count = len(batch.answered)
    spans = logits.start.new_zeros(())
    for side, (scores, right) in enumerate(
        ((logits.start, batch.starts), (logits.end, batch.ends))
    ):
        null = logits.null[:, side]
        # -log of the share of right tokens, or of null, among all tokens of all passages.
        every = torch.cat([scores, null[:, None]], dim=1).logsumexp(dim=1)
        hits = scores.masked_fill(~right, float("-inf"))
        unanswered = ~batch.answered[batch.question]
        right_null = null.masked_fill(~unanswered, float("-inf"))
        correct = torch.cat([hits, right_null[:, None]], dim=1)
        total = _logsumexp_by(every, batch.question, count)
        mass = _logsumexp_by(_safe_logsumexp(correct), batch.question, count)
        spans = spans + 0.5 * (total - mass).mean()
    first = _first_pair(batch.question, count)
    types = _cross_entropy(logits.types[first], batch.answer_type)
    # The verdict is read where the deciding clause is: in the first pair, if it is answered.
    verdict = _cross_entropy(
        logits.verdict[first], batch.verdict.masked_fill(~batch.answered, _IGNORED)
    )
    loss = spans + config.type_loss * types + config.verdict_loss * verdict
    values = {"span": spans, "type": types, "verdict": verdict}
    return loss, {name: float(value.detach()) for name, value in values.items()}


def _logsumexp_by(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Log of the summed exponentials of ``values`` [P] for each of ``count`` owners, [N]."""
    most = (
        values.detach().new_full((count,), -1e30).scatter_reduce(0, owner, values.detach(), "amax")
    )
    shifted = (values - most[owner]).exp()
    return torch.zeros_like(most).index_add(0, owner, shifted).log() + most


def _safe_logsumexp(values: Tensor) -> Tensor:
    """``logsumexp`` over the last axis; rows of only -inf give -1e9 and no gradient."""
    empty = torch.isinf(values).all(dim=1)
    filled = values.masked_fill(empty[:, None], 0.0)
    return filled.logsumexp(dim=1).masked_fill(empty, -1e9)


def _first_pair(owner: Tensor, count: int) -> Tensor:
    """The first row of each of ``count`` owners, [N]."""
    rows = torch.arange(len(owner), device=owner.device)
    return rows.new_full((count,), len(owner)).scatter_reduce(0, owner, rows, "amin")


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    if not (labels != _IGNORED).any():
        return logits.sum() * 0.0
    return F.cross_entropy(logits, labels, ignore_index=_IGNORED)


def _targets(
    question: PassageQuestion, window: tuple[int, int, int]
) -> Iterator[tuple[int | None, int | None]]:
    """First and last tokens of the evidence inside a window.

    None where a border is not known: both of a region, and the one that the window cuts off.
    Marking every token of the evidence instead blurred the borders of all quotes.
    """
    document, first, last = window
    if document != question.document:
        return
    for a, b in question.spans:
        if a < last and b >= first:
            yield (
                a if a >= first and not question.region else None,
                b if b < last and not question.region else None,
            )


def _collect(documents: Sequence[PassageDocument], size: int) -> list[Collection]:
    """Group documents in order until each group has ``size`` chunks or more."""
    collections: list[Collection] = []
    current = Collection()
    for number, document in enumerate(documents):
        target = Collection() if len(document.chunks) >= size else current
        document.collection = -1
        target.documents.append(number)
        target.starts.append(target.chunks)
        target.chunks += len(document.chunks)
        if target.chunks >= size:
            collections.append(target)
            current = Collection() if target is current else current
    if current.documents:
        collections.append(current)
    for place, collection in enumerate(collections):
        for number in collection.documents:
            documents[number].collection = place
    return collections


def _groups(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Collect pairs of id and text until their texts are long enough for a batch."""
    group: list[tuple[str, str]] = []
    for pair in pairs:
        group.append(pair)
        if sum(len(text) for _, text in group) >= _BATCH_CHARACTERS:
            yield group
            group = []
    if group:
        yield group


def _weight(weights: dict[str, float], row: _Row) -> float:
    """The weight of a question: that of its source and type or kind, of its source, or 1."""
    keys = (f"{row.source}/{row.type}", f"{row.source}/{row.kind}", row.source)
    return next((weights[key] for key in keys if key in weights), 1.0)


def _cumulative(weights: Sequence[float]) -> Iterator[float]:
    total = 0.0
    for weight in weights:
        total += weight
        yield total
