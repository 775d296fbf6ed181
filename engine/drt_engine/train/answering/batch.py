"""Batches of questions on windows of documents: what to read, what to ask, where the evidence is.

A batch shares one pool of chunks: several windows of consecutive chunks, each of one document.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.data.json_lines import read_records
from drt_engine.errors import ConfigError
from drt_engine.text.lexical import LexicalIndex, normalised_bm25, with_neighbours
from drt_engine.text.tokenizer import Encoding, Tokenizer


@dataclass(frozen=True)
class Item:
    """A question's token ids, words, answer token ids, and evidence as token spans (inclusive) of
    its document.

    ``support`` are spans that an answer needs besides: the first statement of two hops.
    """

    text: str
    ids: list[int]
    answer: list[int]
    spans: list[tuple[int, int]]
    kind: str
    support: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class TokenDocument:
    """A tokenised document with its questions; the BM25 index over its chunks is made on first
    use.
    """

    encoding: Encoding
    text: str
    source: str
    items: list[Item] = field(default_factory=list)
    index: LexicalIndex | None = None

    def lexical(self, chunk: int) -> LexicalIndex:
        """Return the BM25 index over the document's chunks of ``chunk`` tokens."""
        if self.index is None:
            self.index = LexicalIndex(chunk_texts(self.encoding, self.text, chunk))
        return self.index


@dataclass(frozen=True)
class QuestionBatch:
    """N questions over a pool of P chunks.

    ``windows``: chunk ids [C_i, S] of each window; ``ids``, ``valid`` [P, S]; ``window_of`` [P];
    ``lexical`` [N, P]; ``gold`` [N, P] evidence chunks; ``spans`` [N, O, 2] pool token numbers
    (chunk * S + slot) or -1; ``answerable`` [N]: 1 quoted evidence, 0 not in the document, -1 no
    exact span known; ``allowed`` [N, P] chunks that a question may retrieve (``None``: all). The
    first ``readers`` questions are read for, the rest only retrieve (``None``: all are read for).
    ``support`` [N, P] are chunks that must be retrieved besides the evidence (``None``: none).
    """

    windows: list[tuple[int, int]]
    ids: Tensor
    valid: Tensor
    window_of: Tensor
    questions: list[list[int]]
    answers: list[list[int]]
    lexical: Tensor
    gold: Tensor
    spans: Tensor
    answerable: Tensor
    allowed: Tensor | None = None
    readers: int | None = None
    support: Tensor | None = None

    def to(self, device: torch.device) -> QuestionBatch:
        """Return the batch with its tensors on ``device``; token ids of questions stay lists."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        moved = {k: v.to(device) for k, v in values.items() if isinstance(v, Tensor)}
        return replace(self, **moved)  # type: ignore[arg-type]

    def rows(self, first: int, last: int) -> QuestionBatch:
        """Return the same pool with the questions ``first:last`` only, all of them read for."""
        cut = slice(first, last)
        return replace(
            self,
            questions=self.questions[cut],
            answers=self.answers[cut],
            lexical=self.lexical[cut],
            gold=self.gold[cut],
            spans=self.spans[cut],
            answerable=self.answerable[cut],
            allowed=None if self.allowed is None else self.allowed[cut],
            readers=None,
            support=None if self.support is None else self.support[cut],
        )


def chunk_texts(encoding: Encoding, text: str, chunk: int) -> list[str]:
    """Return the slices of ``text`` that partition it at the first token of each chunk."""
    edges = [0, *encoding.starts[chunk::chunk], len(text)]
    return [text[a:b] for a, b in zip(edges, edges[1:], strict=False)]


def token_span(encoding: Encoding, start: int, end: int) -> tuple[int, int] | None:
    """Return first and last token (inclusive) that touch characters ``start:end``, or ``None``."""
    first = bisect.bisect_right(encoding.ends, start)
    last = bisect.bisect_left(encoding.starts, end) - 1
    return (first, last) if first <= last else None


def read_lines(path: Path) -> Iterator[dict[str, object]]:
    """Yield the objects of a .jsonl or .jsonl.xz file."""
    return (dict(record.fields) for record in read_records(path))


def read_texts(corpus: Sequence[Path], section: str) -> list[str]:
    """Return the texts of corpus files; ``ConfigError`` names the section where there are none."""
    texts = [r.string("text", empty=True) for path in corpus for r in read_records(path)]
    if not texts:
        raise ConfigError(f"{section}.corpus holds no documents, expected .jsonl files with texts")
    return texts


class QuestionSource:
    """Questions of a pair of files in the project's schema, sampled into batches by a seed and a
    step number.
    """

    def __init__(
        self,
        qa: Path,
        docs: Path,
        *,
        tokenizer: Tokenizer,
        config: ModelConfig,
        weights: dict[str, float] | None = None,
        cap: int = 40,
    ) -> None:
        self.config = config
        self.documents = _load(qa, docs, tokenizer, config.chunk)
        scale = weights or {}
        # A document counts by its questions, up to a cap, so that a few articles do not crowd out
        # the rest.
        self._mass = [min(len(d.items), cap) * scale.get(d.source, 1.0) for d in self.documents]

    def batch(
        self, rng: random.Random, *, questions: int, window: int, pool: int, more: int = 0
    ) -> QuestionBatch:
        """Return a batch of up to ``questions`` on windows of ``window`` chunks, about ``pool``
        chunks in all, and up to ``more`` further questions on them that only retrieve.
        """
        builder = BatchBuilder(self.config, rng)
        while len(builder.items) < questions and builder.chunks < pool:
            document = rng.choices(self.documents, self._mass)[0]
            room = min(questions - len(builder.items), max(4, questions * 2 // 3))
            chosen = rng.sample(document.items, min(len(document.items), room))
            taken = {id(item) for item in chosen}
            rest = [item for item in document.items if id(item) not in taken and item.spans]
            some = rng.sample(rest, min(len(rest), 8 * more))  # most lie outside the window
            builder.add(document, chosen, window, more=some)
        return builder.build(most=more)


def hide_evidence(batch: QuestionBatch, rng: random.Random, share: float) -> QuestionBatch:
    """Make about ``share`` of the questions unanswerable: their evidence, with its neighbours,
    cannot be retrieved.
    """
    hidden = torch.tensor([rng.random() < share for _ in batch.questions])
    hidden &= batch.gold.any(dim=1) & (batch.answerable == 1)
    near = batch.gold | batch.gold.roll(1, dims=1) | batch.gold.roll(-1, dims=1)
    rows = hidden[:, None]
    return replace(
        batch,
        allowed=~(near & rows),
        gold=batch.gold & ~rows,
        spans=batch.spans.masked_fill(rows[..., None], -1),
        answers=[[] if gone else a for a, gone in zip(batch.answers, hidden.tolist(), strict=True)],
        answerable=batch.answerable.masked_fill(hidden, 0),
    )


class BatchBuilder:
    """Collects windows of documents and questions on them into one batch."""

    def __init__(self, config: ModelConfig, rng: random.Random) -> None:
        self.config, self.rng = config, rng
        self.windows: list[
            tuple[TokenDocument, int, int, int]
        ] = []  # document, first, count, pool offset
        self.items: list[tuple[Item, int]] = []  # item, window number
        self.more: list[tuple[Item, int]] = []  # those that only retrieve
        self.chunks = 0

    def add(
        self,
        document: TokenDocument,
        items: Sequence[Item],
        window: int,
        *,
        more: Sequence[Item] = (),
    ) -> None:
        """Read a window around the evidence of one of ``items``, which are read for; ``more`` only
        retrieve.
        """
        size = self.config.chunk
        total = -(-len(document.encoding) // size)
        count = min(total, window)
        first = 0
        if total > window:
            known = [s[0] // size for item in items for s in item.spans[:1]]
            around = self.rng.choice(known) if known else self.rng.randrange(total)
            first = max(0, min(total - window, around - self.rng.randrange(window)))
        inside = [i for i in items if self._usable(i, first, count)]
        if not inside:
            return
        self.windows.append((document, first, count, self.chunks))
        number = len(self.windows) - 1
        self.items += [(item, number) for item in inside]
        self.more += [(item, number) for item in more if self._usable(item, first, count)]
        self.chunks += count

    def _usable(self, item: Item, first: int, count: int) -> bool:
        if item.kind == "unanswerable":
            return True
        return any(first <= a // self.config.chunk < first + count for a, _ in item.spans)

    def build(self, *, most: int | None = None) -> QuestionBatch:
        """Return the batch; of the questions that only retrieve, at most ``most``."""
        readers = len(self.items)
        if most is not None and len(self.more) > most:
            self.more = self.rng.sample(self.more, most)
        self.items, self.more = self.items + self.more, []
        size, count = self.config.chunk, len(self.items)
        ids = torch.full((self.chunks, size), self.config.pad_id)
        valid = torch.zeros(self.chunks, size, dtype=torch.bool)
        window_of = torch.zeros(self.chunks, dtype=torch.long)
        for number, (document, first, chunks, at) in enumerate(self.windows):
            tokens = document.encoding.ids[first * size : (first + chunks) * size]
            ids[at : at + chunks].view(-1)[: len(tokens)] = torch.tensor(tokens)
            valid[at : at + chunks].view(-1)[: len(tokens)] = True
            window_of[at : at + chunks] = number
        gold = torch.zeros(count, self.chunks, dtype=torch.bool)
        spans = [self._spans(item.spans, window) for item, window in self.items]
        width = max(1, *(len(s) for s in spans))
        table = torch.full((count, width, 2), -1)
        for row, found in enumerate(spans):
            for column, (a, b) in enumerate(found):
                table[row, column] = torch.tensor((a, b))
            _mark(gold[row], found, size)
        support = torch.zeros_like(gold)
        for row, (item, window) in enumerate(self.items):
            _mark(support[row], self._spans(item.support, window), size)
        kinds = {"extractive": 1, "unanswerable": 0}
        answerable = torch.tensor([kinds.get(item.kind, -1) for item, _ in self.items])
        return QuestionBatch(
            windows=[(at, chunks) for _, _, chunks, at in self.windows],
            ids=ids,
            valid=valid,
            window_of=window_of,
            questions=[item.ids for item, _ in self.items],
            answers=[item.answer for item, _ in self.items],
            lexical=self._lexical(),
            gold=gold,
            spans=table,
            answerable=answerable,
            readers=readers,
            support=support if support.any() else None,
        )

    def _spans(self, spans: Sequence[tuple[int, int]], window: int) -> list[tuple[int, int]]:
        """Spans of a document inside its window, in pool token numbers; an end beyond it is -1."""
        size = self.config.chunk
        _, first, count, at = self.windows[window]
        low, high = first * size, (first + count) * size - 1
        shift = (at - first) * size
        return [(a + shift, b + shift if b <= high else -1) for a, b in spans if low <= a <= high][
            :16
        ]

    def _lexical(self) -> Tensor:
        table = torch.zeros(len(self.items), self.chunks)
        part = self.config.lexical_neighbours
        for row, (item, _) in enumerate(self.items):
            found: dict[int, float] = {}
            for document, first, count, at in self.windows:
                for chunk, score in document.lexical(self.config.chunk).search(item.text):
                    if first <= chunk < first + count:
                        found[at + chunk - first] = score
            scores = normalised_bm25(found)
            neighbours = {chunk: self._beside(chunk) for chunk in scores}
            for chunk, share in with_neighbours(scores, neighbours, part).items():
                table[row, chunk] = share
        return table

    def _beside(self, chunk: int) -> list[int]:
        """The chunks before and after one of the pool, in the same window."""
        _, _, count, at = next(w for w in self.windows if w[3] <= chunk < w[3] + w[2])
        return [near for near in (chunk - 1, chunk + 1) if at <= near < at + count]


def _mark(row: Tensor, spans: Sequence[tuple[int, int]], size: int) -> None:
    """Mark the chunks [P] of ``size`` tokens that spans touch."""
    for a, b in spans:
        row[a // size : max(a, b) // size + 1] = True


def _load(qa: Path, docs: Path, tokenizer: Tokenizer, chunk: int) -> list[TokenDocument]:
    questions = list(read_records(qa))
    asked_of = {question.string("doc_id") for question in questions}
    texts = {}
    for record in read_records(docs):
        if record.string("doc_id") in asked_of:
            texts[record.string("doc_id")] = record.string("text", empty=True)
    documents = {
        document_id: TokenDocument(encoding, text, "")
        for (document_id, text), encoding in zip(
            texts.items(), tokenizer.encode_batch(list(texts.values())), strict=True
        )
        if len(encoding)
    }
    asked = tokenizer.encode_batch([q.string("question", empty=True) for q in questions])
    answered = tokenizer.encode_batch([next(iter(q.strings("answers")), "") for q in questions])
    for record, question, answer in zip(questions, asked, answered, strict=True):
        document = documents.get(record.string("doc_id"))
        if document is None or not question.ids:
            continue
        document.source = record.string("source")
        kind = record.string("kind")
        found = [token_span(document.encoding, a, b) for a, b in record.spans("evidence")]
        spans = [s for s in found if s is not None]
        if kind != "unanswerable" and not spans:
            continue
        room = chunk - 2
        ids = question.ids[:room]
        answer_ids = answer.ids[: max(0, room - len(ids))]
        document.items.append(Item(record.string("question"), ids, answer_ids, spans, kind))
    return [d for d in documents.values() if d.items]
