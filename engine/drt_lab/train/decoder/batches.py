"""Batches of questions with the chunks that they read.

Questions of one batch are neighbours in a document, or of documents that were joined because they
are short: the chunk memory of a batch is computed once for all of its questions, and the evidence
of one question is a hard negative for the others. Chunks are weighed by BM25.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import tokenizers
import torch
from torch import Tensor

from drt_engine.decoder.config import DecoderConfig
from drt_engine.decoder.prompt import END, NOT_SAID, Task, control_id, encode, prompt_ids
from drt_engine.text.lexical import LexicalIndex, normalised_bm25, with_neighbours
from drt_engine.text.sentences import Span, sentence_spans
from drt_lab.data.schema import QADocument, Question
from drt_lab.train.decoder.config import DecoderTraining
from drt_lab.train.decoder.summaries import SUMMARY

_NEIGHBOUR = 0.3  # share of a chunk's BM25 that the chunks beside it get, too
_JOINED = ("list", "compare", "twohop")  # types whose spans are one answer together
# Types that a sentence answers better than a span: at least half of them are written.
_WRITTEN = ("why", "how", "list", "compare")
_WITHOUT_QUOTE = 1 / 3  # of written answers
_OPEN_INDEXES = 256
_AROUND = 600  # characters beside the evidence in which its sentence is looked for
_SPARE = 4  # chunks of a batch beyond those that a question reads


@dataclass(frozen=True)
class TokenDocument:
    """A document's tokens as whole chunks [C, S], the last one padded, and where tokens are."""

    text: str
    ids: Tensor
    mask: Tensor
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def chunk_texts(self) -> list[str]:
        """Return the text of each chunk."""
        size = self.ids.shape[1]
        ends = self.ends[size - 1 :: size] + self.ends[-1:]
        return [
            self.text[first:last] for first, last in zip(self.starts[::size], ends, strict=False)
        ]

    def tokens_of(self, start: int, end: int) -> tuple[int, int]:
        """Return first and last-plus-one token that touch the characters ``start:end``."""
        return bisect_right(self.ends, start), bisect_left(self.starts, end)


@dataclass(frozen=True)
class Example:
    """A question: its prompt and answer, and the chunks of its document with the evidence."""

    question: Question
    document: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    evidence: tuple[int, ...]


@dataclass(frozen=True)
class Batch:
    """B examples that share P chunks (document, chunk number).

    ``relevance`` [B, P] is each chunk's BM25 within its document, 1 for the best; 0 for chunks of
    other documents. ``has_answer`` [B, P]: whether it holds the words of an example's answer.
    """

    examples: tuple[Example, ...]
    chunks: tuple[tuple[str, int], ...]
    relevance: Tensor
    has_answer: Tensor


def cut_document(
    tokenizer: tokenizers.Tokenizer, text: str, config: DecoderConfig
) -> TokenDocument:
    """Tokenise a text and cut it into chunks."""
    encoding = tokenizer.encode(text, add_special_tokens=False)
    ids = torch.tensor(encoding.ids or [config.end_id])
    count = -(-len(ids) // config.chunk)
    padded = torch.full((count * config.chunk,), config.end_id)
    padded[: len(ids)] = ids
    mask = torch.arange(len(padded)) < len(ids)
    starts, ends = zip(*encoding.offsets, strict=True) if encoding.offsets else ((), ())
    shape = (count, config.chunk)
    return TokenDocument(text, padded.view(shape), mask.view(shape), starts, ends)


def make_example(
    tokenizer: tokenizers.Tokenizer,
    question: Question,
    document: TokenDocument,
    config: DecoderConfig,
    *,
    longest_answer: int,
    written: bool = False,
) -> Example | None:
    """Return the example of a question; ``None`` where evidence is unknown or the answer too long.

    The answer to an extractive question is the document's own tokens; ``written``: the sentences
    that hold them.
    """
    written = written and question.kind == "extractive"
    chunks: tuple[int, ...] = ()
    if question.kind == "unanswerable":
        answer = encode(tokenizer, NOT_SAID)
    elif not question.evidence:
        return None
    else:
        spans = [document.tokens_of(*span) for span in question.evidence]
        if any(stop <= first for first, stop in spans):
            return None
        if written:
            answer = encode(tokenizer, " " + _sentences_of(document.text, question.evidence))
        elif question.kind == "extractive":
            if question.type in _JOINED and len(spans) > 1:
                return None
            first, stop = spans[0]
            answer = document.ids.flatten()[first:stop].tolist()
        else:
            answer = encode(tokenizer, " " + question.answers[0].strip())
        touched = {
            n for a, b in spans for n in range(a // config.chunk, (b - 1) // config.chunk + 1)
        }
        chunks = tuple(sorted(touched))
        if len(chunks) > 4:
            return None
    if len(answer) > longest_answer:
        return None
    task = Task.WRITE if written or question.kind == "abstractive" else Task.QUOTE
    task = Task.SUMMARISE if question.type == SUMMARY else task
    quote = _quote_of(question, document) if task == Task.WRITE else ""
    prompt = prompt_ids(tokenizer, question.question, task, quote=quote)
    answer = [*answer, control_id(tokenizer, END)]
    return Example(question, question.doc_id, tuple(prompt), tuple(answer), chunks)


def _quote_of(question: Question, document: TokenDocument) -> str:
    """Return what the prompt of a written answer quotes; nothing for one question in three."""
    if random.Random(f"quote {question.id}").random() < _WITHOUT_QUOTE:
        return ""
    return "; ".join(document.text[start:end] for start, end in question.evidence)


def _sentences_of(text: str, evidence: Sequence[tuple[int, int]]) -> str:
    """Return the sentences that hold the evidence, in the document's order, on one line."""
    sentences: dict[Span, None] = {}
    for start, end in sorted(evidence):
        first = max(0, start - _AROUND)
        for at, stop in sentence_spans(text[first : end + _AROUND]):
            if first + at < end and start < first + stop:
                sentences[first + at, first + stop] = None
    return " ".join(" ".join(text[at:stop].split()) for at, stop in sentences)


class Batches:
    """All examples in batches; ``epoch`` gives them in an order of its own.

    ``groups`` are batches of questions, ``summaries`` those of sentences to be rewritten.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        documents: dict[str, QADocument],
        tokenizer: tokenizers.Tokenizer,
        config: DecoderConfig,
        settings: DecoderTraining,
    ) -> None:
        used = [
            q
            for q in questions
            if (not settings.sources or q.source in settings.sources or q.type == SUMMARY)
            and len(documents[q.doc_id].text) <= settings.longest_document
        ]
        self.documents = {
            document_id: cut_document(tokenizer, documents[document_id].text, config)
            for document_id in dict.fromkeys(q.doc_id for q in used)
        }
        examples: dict[str, list[Example]] = defaultdict(list)
        for question in used:
            document = self.documents[question.doc_id]
            limit = settings.longest_answer
            example = make_example(tokenizer, question, document, config, longest_answer=limit)
            if example is None and settings.written:  # several spans, say
                example = make_example(
                    tokenizer, question, document, config, longest_answer=limit, written=True
                )
            if example is not None:
                examples[question.doc_id].append(example)

        def written(example: Example) -> Example:
            """Return a share of the examples with their sentences as the answer."""
            question, share = example.question, settings.written
            if share and question.type in _WRITTEN:
                share = max(share, 0.5)
            if random.Random(question.id).random() >= share:
                return example
            document = self.documents[example.document]
            limit = settings.longest_answer
            made = make_example(
                tokenizer, question, document, config, longest_answer=limit, written=True
            )
            return made or example

        order = random.Random(settings.seed)
        document_ids = sorted(examples)
        order.shuffle(document_ids)
        # Held out: whole documents, those with most questions among the first of the shuffle.
        many = sorted(document_ids[: 20 * settings.held_out], key=lambda d: -len(examples[d]))
        self.held_out_ids = set(many[: settings.held_out])
        held_out = [e for d in sorted(self.held_out_ids) for e in examples[d]]
        order.shuffle(held_out)
        self.held_out = held_out
        self.not_said = (*encode(tokenizer, NOT_SAID), control_id(tokenizer, END))
        self._size, self._retrieved = settings.batch, config.retrieved
        self._indexes: dict[str, LexicalIndex] = {}
        trained = [d for d in document_ids if d not in self.held_out_ids]
        summaries = [d for d in trained if examples[d][0].question.type == SUMMARY]
        self.summaries = self._grouped([examples[d] for d in summaries])
        self.groups = self._grouped(
            [[written(e) for e in examples[d]] for d in trained if d not in summaries]
        )

    def _grouped(self, by_document: Sequence[list[Example]]) -> list[list[Example]]:
        """Return runs of neighbouring questions, a batch each; short documents are joined."""
        groups: list[list[Example]] = []
        rest: list[Example] = []
        for examples in by_document:
            placed = sorted(examples, key=lambda e: (e.evidence or (1 << 30,))[0])
            cut = len(placed) - len(placed) % self._size
            groups += [placed[at : at + self._size] for at in range(0, cut, self._size)]
            rest += placed[cut:]
        groups += [rest[at : at + self._size] for at in range(0, len(rest), self._size)]
        return groups

    def epoch(self, number: int) -> list[list[Example]]:
        """Return all groups in the order of an epoch."""
        groups = list(self.groups)
        random.Random(f"epoch {number}").shuffle(groups)
        return groups

    def batch(self, examples: Sequence[Example]) -> Batch:
        """Return a batch with the chunks of its evidence, and the best others by BM25."""
        chunks = dict.fromkeys((e.document, n) for e in examples for n in e.evidence)
        found = [self._relevance(example) for example in examples]
        others: Counter[tuple[str, int]] = Counter()
        for example, scores in zip(examples, found, strict=True):
            best = sorted(scores, key=lambda n: -scores[n])[: self._retrieved]
            for number in best or range(min(2, len(self.documents[example.document].ids))):
                others[example.document, number] += 1
        missing = max(0, self._retrieved + _SPARE - len(chunks))
        kept = [key for key, _ in others.most_common() if key not in chunks][:missing]
        chunks |= dict.fromkeys(kept)
        relevance = torch.tensor(
            [
                [scores.get(n, 0.0) if d == example.document else 0.0 for d, n in chunks]
                for example, scores in zip(examples, found, strict=True)
            ]
        )
        texts = [self._chunk_text(*key) for key in chunks]
        has_answer = torch.tensor(
            [
                [any(a.casefold() in text for a in e.question.answers) for text in texts]
                for e in examples
            ]
        )
        return Batch(tuple(examples), tuple(chunks), relevance, has_answer)

    def _chunk_text(self, document: str, number: int) -> str:
        """Return the text of a chunk, case-folded."""
        cut = self.documents[document]
        size = cut.ids.shape[1]
        last = min((number + 1) * size, len(cut.ends)) - 1
        return cut.text[cut.starts[number * size] : cut.ends[last]].casefold()

    def _relevance(self, example: Example) -> dict[int, float]:
        """Return the BM25 of a document's chunks for a question, 1 for the best by words alone."""
        if example.document not in self._indexes:
            if len(self._indexes) >= _OPEN_INDEXES:
                self._indexes.pop(next(iter(self._indexes))).close()
            texts = self.documents[example.document].chunk_texts()
            self._indexes[example.document] = LexicalIndex(texts)
        found = self._indexes[example.document].search(example.question.question)
        last = len(self.documents[example.document].ids) - 1
        beside = {n: (n - 1 if n else None, n + 1 if n < last else None) for n, _ in found}
        return with_neighbours(normalised_bm25(dict(found)), beside, _NEIGHBOUR)
