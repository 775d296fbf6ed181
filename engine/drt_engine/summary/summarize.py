"""Summaries: sentences picked by the causal-retrieval graph over landmarks, or written text.

Of a document, some of its sections, or several documents. Extractive works for any length: the
text is cut into parts, the graph of each part is scored, and the picks of all parts compete for
the wanted length, which is never exceeded.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from drt_engine.answer.ask import feed_question, question_ids
from drt_engine.answer.citations import CitationResult, cite
from drt_engine.answer.support import Evidence
from drt_engine.errors import ConfigError, EmptyDocument, NotFound
from drt_engine.generate.decode import Decoder
from drt_engine.generate.sampling import SamplingConfig, write
from drt_engine.retrieval.library import LibrarySource
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkRow, DocumentRow, Store
from drt_engine.store.catalogue.catalog import nearest
from drt_engine.store.view import LibraryView
from drt_engine.text.sentences import is_heading, sentence_spans, split_sentences
from drt_engine.text.words import content_words

WORDS = {"short": 60, "medium": 150, "long": 400}
_POOL = 400  # sentences that compete for a place
_PART = 1024  # chunks whose graph is scored together
_NEXT_OF_DOCUMENT = 0.7  # weight of each further sentence, so that every document has its say
_LONGEST_PART = 96  # tokens written for one prompt
_ABSTRACT_QUESTION = "What is this text about?"


@dataclass(frozen=True)
class SummaryOptions:
    """How documents are summarised; ``focus`` is a question or topic that steers the choice.

    ``length`` None is "medium" for a summary and no limit for a list of changes. ``words`` is the
    longest length, in place of that of ``length``; ``section`` keeps to sections
    whose name, or one they stand in, begins like this. ``first_whole`` lets the best sentence pass
    the length, as the usual baselines do, which evaluation needs to compare alike.
    """

    mode: Literal["auto", "extractive", "abstractive"] = "auto"
    length: Literal["short", "medium", "long"] | None = None
    focus: str | None = None
    words: int | None = None
    section: str | None = None
    first_whole: bool = False

    def __post_init__(self) -> None:
        if self.mode not in ("auto", "extractive", "abstractive"):
            raise ConfigError(
                f"mode is {self.mode!r}, expected 'auto', 'extractive' or 'abstractive'"
            )
        if self.length is not None and self.length not in WORDS:
            raise ConfigError(f"length is {self.length!r}, expected one of {', '.join(WORDS)}")
        if self.words is not None and self.words < 1:
            raise ConfigError(f"words is {self.words}, expected 1 or more")

    @property
    def budget(self) -> int:
        """Wanted length in words."""
        return self.words or WORDS[self.length or "medium"]

    @property
    def is_limited(self) -> bool:
        """Whether the caller set a length."""
        return self.words is not None or self.length is not None

    @property
    def longest(self) -> float:
        """Words of the longest sentence that may be taken."""
        return math.inf if self.first_whole else self.budget


@dataclass(frozen=True)
class ChangeResult:
    """A sentence that differs between two versions: where it stands now, and how it was."""

    kind: Literal["added", "changed", "removed"]
    old: str
    new: CitationResult | None


@dataclass(frozen=True)
class SummaryResult:
    """A summary and, in order, the sentences it is made of or rests on.

    Their probability is the share of the document's retrievals that goes to their chunk.
    ``changes_omitted`` counts the changes that the length left no room for.
    """

    text: str
    mode: str
    sentences: tuple[CitationResult, ...]
    tokens_read: int
    changes: tuple[ChangeResult, ...] = ()
    changes_omitted: int = 0


@dataclass(frozen=True)
class Candidate:
    """A sentence that may be picked: its place, its words, and how much its chunk is retrieved.

    ``score`` decides which sentences of a long text compete, ``weight`` (how early, how near the
    focus) counts among those.
    """

    document: int
    start: int
    end: int
    words: frozenset[str]
    length: int
    score: float
    weight: float
    share: float
    prose: bool


def summarize(
    runtime: Runtime, store: Store, document_ids: str | Sequence[str], options: SummaryOptions
) -> SummaryResult:
    """Summarise documents of the library together.

    They stay what they are at this moment, whatever writers do meanwhile.
    Raises ``NotFound`` for an unknown document or section, ``QuestionError`` for a focus without
    words or too long, ``EmptyDocument`` where there is no sentence to take.
    """
    ids = [document_ids] if isinstance(document_ids, str) else list(document_ids)
    # Extractive is the default for every length: it measured best (see the model card).
    make = _abstractive if options.mode == "abstractive" else _extractive
    with store.snapshot() as view, runtime.computing():
        documents = [view.document(id) for id in dict.fromkeys(ids)]
        return make(runtime, view, documents, options)


def _extractive(
    runtime: Runtime, store: LibraryView, documents: Sequence[DocumentRow], options: SummaryOptions
) -> SummaryResult:
    candidates = _all_candidates(runtime, store, documents, options)
    chosen = _pick(candidates, options.budget, longest=options.longest)
    if not chosen:
        raise EmptyDocument(f"{_titles(documents)} holds no sentences, expected text to summarise")
    cited = tuple(cite_candidate(store, documents, c, options.longest) for c in chosen)
    text = " ".join(" ".join(c.quote.split()) for c in cited)
    return SummaryResult(text, "extractive", cited, _tokens(documents))


def cite_candidate(
    store: LibraryView, documents: Sequence[DocumentRow], candidate: Candidate, longest: float
) -> CitationResult:
    """Return a candidate's citation; one longer than ``longest`` words is cut after so many."""
    document, start, end = documents[candidate.document], candidate.start, candidate.end
    if candidate.length > longest:
        words = re.finditer(r"\S+", store.text(document.id, start, end))
        end = start + [word.end() for word in words][int(longest) - 1]
    return cite(store, document, start, end, candidate.share)


def _titles(documents: Sequence[DocumentRow]) -> str:
    return ", ".join(repr(document.title) for document in documents[:3])


def _tokens(documents: Sequence[DocumentRow]) -> int:
    return sum(document.tokens for document in documents)


def _all_candidates(
    runtime: Runtime, store: LibraryView, documents: Sequence[DocumentRow], options: SummaryOptions
) -> list[Candidate]:
    out: list[Candidate] = []
    known: list[str] = []
    for number, document in enumerate(documents):
        spans = None
        if options.section is not None:
            spans, names = section_spans(store, document, options.section)
            known += names
            if not spans:
                continue
        found = candidates(runtime, store, document, options.focus, spans=spans)
        out += [replace(c, document=number) for c in found]
    if options.section is not None and not out:
        hint = nearest(options.section, list(dict.fromkeys(known)))
        raise NotFound(f"no section {options.section!r} with text in {_titles(documents)}: {hint}")
    return out


def section_spans(
    store: LibraryView, document: DocumentRow, name: str
) -> tuple[list[tuple[int, int]], list[str]]:
    """Return where sections of this name stand, those below them included, and all names."""
    wanted = " ".join(name.casefold().split())
    text = "".join(store.iter_text(document.id))
    spans: list[tuple[int, int]] = []
    names: dict[str, None] = {}
    for start, end in sentence_spans(text):
        path = store.place(document.id, start)[1] or ""
        parts = path.split(" > ")
        names |= dict.fromkeys(part for part in parts if part)
        if path.casefold() == wanted or any(p.casefold().startswith(wanted) for p in parts):
            joined = bool(spans) and not text[spans[-1][1] : start].strip()
            spans[len(spans) - joined :] = [(spans[-1][0] if joined else start, end)]
    return spans, list(names)


def candidates(
    runtime: Runtime,
    store: LibraryView,
    document: DocumentRow,
    focus: str | None,
    *,
    spans: Sequence[tuple[int, int]] | None = None,
) -> list[Candidate]:
    """Return the sentences of a document, or of some spans of it, with their scores.

    Those that are no prose are left out, unless there are no others.
    """
    ids = store.chunk_ids([document.id])
    landmarks = torch.cat([part.float() for _, part in store.scan_landmarks([document.id])])
    wanted = None if focus is None else _focus_scores(runtime, store, document, focus, ids)
    out: list[Candidate] = []
    totals: list[float] = []
    for part in _parts(store, ids, spans):
        score = centrality(runtime, landmarks[part])
        near = torch.ones_like(score) if wanted is None else wanted[part]
        score = score * near
        totals.append(float(score.sum()))
        rows = store.chunk_rows(ids[part])
        found = _sentences(rows, score, near, first=part.start == 0)
        # A sentence at the border of two parts was cut by it.
        out += found[int(part.start > 0) : len(found) - int(part.stop < len(ids))]
    total = sum(totals)
    if spans is not None:
        out = [c for c in out if any(a <= c.start and c.end <= b for a, b in spans)]
    out = [replace(c, share=c.share / total) for c in out]
    # A document of tables, headings or scraps is summarised by what it has.
    return [c for c in out if c.prose] or out


def _parts(
    store: LibraryView, ids: Sequence[int], spans: Sequence[tuple[int, int]] | None
) -> list[slice]:
    """The runs of consecutive chunks whose graphs are scored together."""
    runs = [(0, len(ids))]
    if spans is not None:
        edges = [(row.start, row.start + len(row.text)) for row in store.chunk_rows(ids)]
        runs = []
        for a, b in spans:
            inside = [i for i, (low, high) in enumerate(edges) if low < b and a < high]
            # One more on each side, so that no sentence of the span is at a border.
            low, high = max(0, inside[0] - 1), min(len(ids), inside[-1] + 2)
            if runs and low <= runs[-1][1]:
                runs[-1] = (runs[-1][0], high)
            else:
                runs.append((low, high))
    return [
        slice(at, min(at + _PART, high)) for low, high in runs for at in range(low, high, _PART)
    ]


def centrality(runtime: Runtime, landmarks: Tensor) -> Tensor:
    """Landmarks [C, E] of consecutive chunks -> how much the others retrieve each, [C], mean 1.

    Each chunk retrieves among all others with the model's temperature; the scores are the
    stationary shares of a reader that follows retrievals (PageRank with restart), so what much of
    the text leans on comes first.
    """
    count = len(landmarks)
    if count < 3:
        return torch.ones(count)
    scale = runtime.model.scorer.log_scale
    heat = float(scale.detach().exp()) if scale is not None else landmarks.shape[1] ** -0.5
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
    runtime: Runtime, store: LibraryView, document: DocumentRow, focus: str, ids: Sequence[int]
) -> Tensor:
    """How much the focus, asked as a question, retrieves each chunk: 0..1 of the best."""
    encoded = question_ids(runtime, focus, what="focus")
    source = LibrarySource(
        runtime, store, focus, encoded, documents=(document.id,), count=64, reread=False
    )
    feed_question(Decoder(runtime.model, source, dtype=runtime.dtype), encoded)
    place = {chunk: i for i, chunk in enumerate(ids)}
    wanted = torch.full((len(ids),), 1e-3)
    best = max(p.score for p in source.passages[-1])
    for passage in source.passages[-1]:
        wanted[place[passage.row.id]] = float(torch.tensor(passage.score - best).exp()) + 1e-3
    return wanted


def _sentences(
    rows: Sequence[ChunkRow], score: Tensor, near: Tensor, *, first: bool
) -> list[Candidate]:
    """Sentences of consecutive chunks with their chunks' scores and how ``near`` the focus they
    are; a text's first are favoured.
    """
    text = "".join(row.text for row in rows)
    base = rows[0].start
    edges = torch.tensor([row.start - base for row in rows])
    out = []
    for number, (start, end) in enumerate(sentence_spans(text)):
        sentence = text[start:end]
        words = content_words(sentence)
        length = len(sentence.split())
        prose = 6 <= length <= 60 and not is_heading(sentence) and _is_prose(sentence)
        chunk = int(torch.searchsorted(edges, torch.tensor(start), right=True)) - 1
        position = 1 + 2.0 / (1 + number) if first else 1.0
        share = float(score[chunk])
        weight = position * float(near[chunk]) ** 0.5
        place = (start + base, end + base)
        retrieved = share**0.5 * position
        out.append(Candidate(0, *place, frozenset(words), length, retrieved, weight, share, prose))
    return out


def _is_prose(sentence: str) -> bool:
    letters = sum(c.isalpha() or c.isspace() for c in sentence)
    return letters > 0.75 * len(sentence) and "|" not in sentence


def _pick(
    candidates: Sequence[Candidate], budget: int, *, longest: float | None = None
) -> list[Candidate]:
    """Choose sentences of about ``budget`` words, best first; return them in document order.

    The sentences whose chunks are retrieved most compete. Each is then worth how central it is
    among them, times the words it says that are not yet said, weighed by how common they are: on
    summaries kept for training that beats counting retrievals again (examples/LOG.md). None is
    longer than ``longest`` words, by default ``budget``.
    """
    longest = budget if longest is None else longest
    counts = Counter(word for candidate in candidates for word in candidate.words)
    weight = {word: count**0.7 for word, count in counts.items() if count > 1} or dict(counts)
    # Where every sentence is too long, the best one is cut.
    fitting = [c for c in candidates if c.length <= longest] or list(candidates)
    pool = sorted(fitting, key=lambda c: -c.score * _said(c, weight))[:_POOL]
    worth = dict(zip(pool, _sentence_centrality(pool).sqrt().tolist(), strict=True))
    chosen: list[Candidate] = []
    said: frozenset[str] = frozenset()
    left = budget
    while pool:
        again = {d: _NEXT_OF_DOCUMENT**n for d, n in Counter(c.document for c in chosen).items()}
        value = {
            c: worth[c] * c.weight * _said(c, weight) * again.get(c.document, 1.0) for c in pool
        }
        best = max(pool, key=value.__getitem__)
        chosen.append(best)
        left -= best.length
        for word in best.words & weight.keys():
            weight[word] *= 0.5
        said |= best.words
        pool = [c for c in pool if c.length <= left and _news(c, said) > 0.3]
    return sorted(chosen, key=lambda c: (c.document, c.start))


def _news(candidate: Candidate, said: frozenset[str]) -> float:
    return len(candidate.words - said) / max(1, len(candidate.words))


def _said(candidate: Candidate, weight: Mapping[str, float]) -> float:
    said = sum(weight.get(word, 0.0) for word in candidate.words)
    return said / float(candidate.length**0.3)


def _sentence_centrality(sentences: Sequence[Candidate]) -> Tensor:
    """Shares of a reader who walks between sentences by common words (TextRank), [n], mean 1."""
    count = len(sentences)
    graph = torch.zeros(count, count)
    for i, one in enumerate(sentences):
        for j, other in enumerate(sentences[:i]):
            if common := len(one.words & other.words):
                scale = math.log(1 + one.length) + math.log(1 + other.length)
                graph[i, j] = graph[j, i] = common / scale
    graph = graph / graph.sum(dim=1, keepdim=True).clamp(min=1e-6)
    rank = torch.full((count,), 1.0)
    for _ in range(30):
        rank = 0.15 + 0.85 * (rank @ graph)
    return rank


def _abstractive(
    runtime: Runtime, store: LibraryView, documents: Sequence[DocumentRow], options: SummaryOptions
) -> SummaryResult:
    """Write part by part what the decoder says about the sentences an extract would take.

    Written sentences that nothing in the documents supports are left out; where none is left, the
    summary is extractive.
    """
    question = options.focus or _ABSTRACT_QUESTION
    rows = {row.id: row for row in documents}
    evidence = Evidence(store, rows.__getitem__)
    pieces: list[str] = []
    for topic in _topics(runtime, store, documents, options):
        left = options.budget - sum(len(piece.split()) for piece in pieces)
        if left <= 0:
            break
        prompt = f"{question} {topic}"
        pieces += _write_part(runtime, store, tuple(rows), prompt, words=left, evidence=evidence)
    if not pieces:  # a decoder that has nothing to say leaves it to the document
        return _extractive(runtime, store, documents, options)
    return SummaryResult(" ".join(pieces), "abstractive", evidence.citations, _tokens(documents))


def _topics(
    runtime: Runtime, store: LibraryView, documents: Sequence[DocumentRow], options: SummaryOptions
) -> list[str]:
    """The sentences an extractive summary would take: each opens a part of the written one."""
    chosen = _pick(_all_candidates(runtime, store, documents, options), options.budget)
    most = max(1, options.budget // 50)
    return [store.text(documents[c.document].id, c.start, c.end) for c in chosen[:most]]


def _write_part(
    runtime: Runtime,
    store: LibraryView,
    documents: tuple[str, ...],
    prompt: str,
    *,
    words: int,
    evidence: Evidence,
) -> list[str]:
    """Write up to ``words`` words for a prompt; return the sentences that ``evidence`` supports."""
    ids = question_ids(runtime, prompt, what="focus")
    source = LibrarySource(
        runtime, store, prompt, ids, documents=documents, reread=runtime.config.reads_passages
    )
    decoder = Decoder(runtime.model, source, dtype=runtime.dtype)
    state = feed_question(decoder, ids)
    texts = [p.row.text for p in source.passages[-1]]
    sampling = SamplingConfig(max_tokens=min(_LONGEST_PART, 2 * words))
    text = "".join(write(runtime, decoder, state, sampling, sources=texts))
    for passages in source.passages:
        evidence.add(passages)
    kept: list[str] = []
    for sentence in split_sentences(text):
        words -= len(sentence.text.split())
        if words >= 0 and evidence.supports(sentence.text):
            kept.append(sentence.text)
    return kept
