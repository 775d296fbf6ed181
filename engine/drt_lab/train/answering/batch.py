"""A batch of questions over one pool of chunks, and the tokenised documents it is cut from.

The pool holds several windows of consecutive chunks, each of one document. Knows nothing of where
questions come from: files, needles and clozes all end here.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.text.lexical import LexicalIndex
from drt_engine.text.tokenizer import Encoding
from drt_lab.data.schema import read_texts


@dataclass(frozen=True)
class QuestionItem:
    """A tokenised question on a document.

    ``ids`` and ``answer`` are token ids, ``spans`` the evidence as token spans (inclusive) of the
    document. ``support`` are spans that an answer needs besides: the first statement of two hops.
    """

    text: str
    ids: list[int]
    answer: list[int]
    spans: list[tuple[int, int]]
    kind: str
    support: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class TokenDocument:
    """A tokenised document with its questions: ``ids`` [n] int32 and the texts of its chunks.

    Its BM25 index over the chunks is made on first use.
    """

    ids: Tensor
    chunks: list[str]
    source: str
    items: list[QuestionItem] = field(default_factory=list)
    index: LexicalIndex | None = None

    @classmethod
    def of(
        cls,
        encoding: Encoding,
        text: str,
        source: str,
        items: Sequence[QuestionItem] = (),
        *,
        chunk: int,
    ) -> TokenDocument:
        """Return the document of an encoded text, in chunks of ``chunk`` tokens."""
        ids = torch.tensor(encoding.ids, dtype=torch.int32)
        return cls(ids, chunk_texts(encoding, text, chunk), source, list(items))

    def lexical(self) -> LexicalIndex:
        """Return the BM25 index over the document's chunks."""
        if self.index is None:
            self.index = LexicalIndex(self.chunks)
        return self.index


@dataclass(frozen=True)
class QuestionBatch:
    """N questions over a pool of P chunks of S tokens.

    ``windows``: first chunk and number of chunks of each window; ``ids``, ``valid`` [P, S];
    ``window_of`` [P]; ``lexical`` [N, P] normalised BM25; ``gold`` [N, P] evidence chunks;
    ``spans`` [N, O, 2] pool token numbers (chunk * S + slot) or -1; ``answerable`` [N]: 1 quoted
    evidence, 0 not in the document, -1 no exact span known; ``allowed`` [N, P] chunks that a
    question may retrieve (``None``: all). The first ``readers`` questions are read for, the others
    only retrieve (``None``: all are read for). ``support`` [N, P] are chunks that must be retrieved
    besides the evidence (``None``: none).
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


def token_spans(encoding: Encoding, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the token spans of character spans, without those that touch no token."""
    pairs = (token_span(encoding, start, end) for start, end in spans)
    return [pair for pair in pairs if pair is not None]


def fit_prompt(
    question: Sequence[int], answer: Sequence[int], chunk: int
) -> tuple[list[int], list[int]]:
    """Cut question and answer so that both, ``<answer>`` and the end token fit one chunk."""
    room = chunk - 2
    ids = list(question[:room])
    return ids, list(answer[: max(0, room - len(ids))])


def load_texts(corpus: Sequence[Path], section: str) -> list[str]:
    """Return the texts of corpus files; ``ConfigError`` names the section where there are none."""
    texts = list(read_texts(corpus))
    if not texts:
        raise ConfigError(f"{section}.corpus holds no documents, expected .jsonl files with texts")
    return texts
