"""Summaries: sentences picked by the causal-retrieval graph over landmarks, or text written from the best chunks.

Extractive works for any length: the document is cut into parts, the graph of each part is scored, and the picks of
all parts compete for the wanted length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from drt_engine.answer.citations import CitationResult, cite
from drt_engine.answer.support import UNSUPPORTED, support
from drt_engine.errors import ConfigError, EmptyDocument
from drt_engine.generate.decode import Decoder
from drt_engine.generate.sampling import SamplingConfig, write
from drt_engine.retrieval.library import LibrarySource
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkRow, DocumentRow, Store
from drt_engine.text_units import content_words, is_heading, sentence_spans

WORDS = {"short": 60, "medium": 150, "long": 400}
_PART = 1024  # chunks whose graph is scored together
_ABSTRACT_QUESTION = "What is this text about?"


@dataclass(frozen=True)
class SummaryOptions:
    """How a document is summarised; ``focus`` is a question or topic that steers the choice."""

    mode: Literal["auto", "extractive", "abstractive"] = "auto"
    length: str = "medium"
    focus: str | None = None
    words: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("auto", "extractive", "abstractive"):
            raise ConfigError(
                f"mode is {self.mode!r}, expected 'auto', 'extractive' or 'abstractive'"
            )
        if self.length not in WORDS:
            raise ConfigError(f"length is {self.length!r}, expected one of {', '.join(WORDS)}")
        if self.words is not None and self.words < 1:
            raise ConfigError(f"words is {self.words}, expected 1 or more")

    @property
    def budget(self) -> int:
        """Wanted length in words."""
        return self.words or WORDS[self.length]


@dataclass(frozen=True)
class SummaryResult:
    """A summary and, in order, the sentences it is made of or rests on."""

    text: str
    mode: str
    sentences: tuple[CitationResult, ...]
    tokens_read: int


@dataclass(frozen=True)
class _Candidate:
    start: int
    end: int
    words: frozenset[str]
    length: int
    score: float


def summarize(
    runtime: Runtime, store: Store, document_id: str, options: SummaryOptions
) -> SummaryResult:
    """Summarise one document of the library; raises ``ConfigError``, ``NotFound`` or ``EmptyDocument``."""
    document = store.document(document_id)
    # Extractive is the default for every length: it measured best (see the model card).
    if options.mode == "abstractive":
        return _abstractive(runtime, store, document, options)
    with runtime.computing():
        return _extractive(runtime, store, document, options)


def _extractive(
    runtime: Runtime, store: Store, document: DocumentRow, options: SummaryOptions
) -> SummaryResult:
    chosen = _pick(_candidates(runtime, store, document, options.focus), options.budget)
    if not chosen:
        raise EmptyDocument(f"{document.title!r} holds no sentences, expected text to summarise")
    cited = tuple(cite(store, document, c.start, c.end, c.score) for c in chosen)
    text = " ".join(" ".join(c.quote.split()) for c in cited)
    return SummaryResult(text, "extractive", cited, document.tokens)


def _candidates(
    runtime: Runtime, store: Store, document: DocumentRow, focus: str | None
) -> list[_Candidate]:
    ids = store.chunk_ids([document.id])
    landmarks = torch.cat([part.float() for _, part in store.scan_landmarks([document.id])])
    wanted = None if focus is None else _focus_scores(runtime, store, document, focus, ids)
    out: list[_Candidate] = []
    for at in range(0, len(ids), _PART):
        part = slice(at, at + _PART)
        score = centrality(runtime, landmarks[part])
        if wanted is not None:
            score = score * wanted[part]
        rows = store.chunk_rows(ids[part])
        out += _sentences(rows, score, first=at == 0)
    return out


def centrality(runtime: Runtime, landmarks: Tensor) -> Tensor:
    """Landmarks [C, E] of consecutive chunks -> how much later chunks retrieve each, and how much it retrieves, [C].

    Each chunk retrieves among all others with the model's temperature; the scores are the stationary shares of a
    reader that follows retrievals (PageRank with restart), so what much of the text leans on comes first.
    """
    count = len(landmarks)
    if count < 3:
        return torch.ones(count)
    scale = runtime.model.scorer.log_scale
    heat = float(scale.exp()) if scale is not None else landmarks.shape[1] ** -0.5
    scores = (landmarks @ landmarks.T) * heat
    scores.fill_diagonal_(float("-inf"))
    keep = min(runtime.config.retrieved, count - 1)
    best = scores.topk(keep, dim=1)
    graph = torch.zeros(count, count).scatter_(1, best.indices, torch.softmax(best.values, dim=1))
    rank = torch.full((count,), 1 / count)
    for _ in range(50):
        rank = 0.15 / count + 0.85 * (rank @ graph)
    return rank * count


def _focus_scores(
    runtime: Runtime, store: Store, document: DocumentRow, focus: str, ids: Sequence[int]
) -> Tensor:
    """How much the focus, asked as a question, retrieves each chunk: 0..1 of the best."""
    encoded = runtime.tokenizer.encode(focus).ids[: runtime.config.chunk]
    if not encoded:
        raise ConfigError("focus has no words, expected a topic or question")
    source = LibrarySource(
        runtime, store, focus, encoded, documents=(document.id,), count=64, reread=False
    )
    decoder = Decoder(runtime.model, source, dtype=runtime.dtype)
    decoder.feed(encoded)
    decoder.close()
    place = {chunk: i for i, chunk in enumerate(ids)}
    wanted = torch.full((len(ids),), 1e-3)
    best = max(p.score for p in source.passages[-1])
    for passage in source.passages[-1]:
        wanted[place[passage.row.id]] = float(torch.tensor(passage.score - best).exp()) + 1e-3
    return wanted


def _sentences(rows: Sequence[ChunkRow], score: Tensor, *, first: bool) -> list[_Candidate]:
    """Sentences of consecutive chunks with the score of the chunks they stand in, those that open a text favoured."""
    text = "".join(row.text for row in rows)
    base = rows[0].start
    edges = torch.tensor([row.start - base for row in rows])
    out = []
    for number, (start, end) in enumerate(sentence_spans(text)):
        sentence = text[start:end]
        words = content_words(sentence)
        length = len(sentence.split())
        if length < 6 or length > 60 or is_heading(sentence) or not _is_prose(sentence):
            continue
        chunk = int(torch.searchsorted(edges, torch.tensor(start), right=True)) - 1
        position = 1 + 2.0 / (1 + number) if first else 1.0
        value = float(score[chunk]) * position
        out.append(_Candidate(start + base, end + base, frozenset(words), length, value))
    return out


def _is_prose(sentence: str) -> bool:
    letters = sum(c.isalpha() or c.isspace() for c in sentence)
    return letters > 0.75 * len(sentence) and "|" not in sentence


def _pick(candidates: Sequence[_Candidate], budget: int) -> list[_Candidate]:
    """Choose sentences up to ``budget`` words, best first, against repetition; return them in document order.

    A sentence is worth its chunk's score times the share of its words that are not yet said, weighed by how common
    they are in the document.
    """
    weight: dict[str, float] = {}
    for candidate in candidates:
        for word in candidate.words:
            weight[word] = weight.get(word, 0.0) + 1.0
    weight = {word: min(count, 50.0) ** 0.5 for word, count in weight.items() if count > 1}
    pool = sorted(candidates, key=lambda c: -c.score * _value(c, weight))[:400]
    chosen: list[_Candidate] = []
    left = budget
    while pool and left > 0:
        best = max(pool, key=lambda c: c.score * _value(c, weight))
        pool.remove(best)
        if best.length > left and chosen:
            continue
        chosen.append(best)
        left -= best.length
        for word in best.words:
            weight[word] = weight.get(word, 0.0) * 0.2
    return sorted(chosen, key=lambda c: c.start)


def _value(candidate: _Candidate, weight: dict[str, float]) -> float:
    return sum(weight.get(w, 0.0) for w in candidate.words) / max(candidate.length, 12)


def _abstractive(
    runtime: Runtime, store: Store, document: DocumentRow, options: SummaryOptions
) -> SummaryResult:
    """Write section by section from what a question about the text retrieves; the decoder's words, marked if unsupported."""
    question = options.focus or _ABSTRACT_QUESTION
    pieces: list[str] = []
    cited: list[CitationResult] = []
    with runtime.computing():
        for topic in _topics(runtime, store, document, options):
            text, found = _write_part(runtime, store, document, f"{question} {topic}", options.budget)
            pieces.append(text)
            cited += found
    return SummaryResult(" ".join(p for p in pieces if p), "abstractive", tuple(cited), document.tokens)


def _topics(
    runtime: Runtime, store: Store, document: DocumentRow, options: SummaryOptions
) -> list[str]:
    """The sentences an extractive summary would take: each opens a part of the written one."""
    chosen = _pick(_candidates(runtime, store, document, options.focus), options.budget)
    most = max(1, options.budget // 50)
    return [store.text(document.id, c.start, c.end) for c in chosen[:most]]


def _write_part(
    runtime: Runtime, store: Store, document: DocumentRow, prompt: str, budget: int
) -> tuple[str, tuple[CitationResult, ...]]:
    config = runtime.config
    ids = runtime.tokenizer.encode(prompt).ids[: config.chunk]
    source = LibrarySource(
        runtime, store, prompt, ids, documents=(document.id,), reread=config.reread
    )
    decoder = Decoder(runtime.model, source, dtype=runtime.dtype)
    decoder.feed(ids)
    encoded = decoder.close()
    added = None
    if runtime.model.question_map is not None:
        states = runtime.model.question_map(encoded.states[0])
        added = torch.cat([states, states.new_zeros(1, states.shape[-1])])
    state = decoder.feed([*ids, config.answer_id], added)[-1]
    passages = source.passages[-1]
    sources = [p.row.text for p in passages]
    sampling = SamplingConfig(max_tokens=min(96, 2 * budget))
    text = "".join(write(runtime, decoder, state, sampling, sources=sources))
    judged = support(text, store, {document.id: document}, passages)
    return judged.text.replace(f" {UNSUPPORTED}", ""), judged.citations
