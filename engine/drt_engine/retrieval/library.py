"""Retrieval over a library: candidates, late interaction, choice, and the reader pass, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.model.gca_layer import ChunkMemory, Retrieved
from drt_engine.model.quote_head import Reread
from drt_engine.model.reader import context_ids
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.model.selection import select
from drt_engine.progress import note_passages
from drt_engine.results import ScanInfo
from drt_engine.retrieval.candidates import (
    LEXICAL_CANDIDATES,
    Candidates,
    LandmarkScan,
    LexicalScores,
    RetrieverName,
    find_candidates,
    landmarks_needed,
    lexical_scores,
    scan_index,
    scan_scope,
)
from drt_engine.retrieval.filters import NO_FILTERS, Filters, Scope, resolve_scope
from drt_engine.retrieval.passages import Passage, read_windows, within
from drt_engine.retrieval.reader_pass import (
    PassageLogits,
    encode_passages,
    read_passages,
    read_until,
)
from drt_engine.retrieval.rerank import memory_of_records, rerank
from drt_engine.retrieval.sources import Retrieval, join_memories, merge_chunks
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch
from drt_engine.store.lookup import Lookup
from drt_engine.store.view import LibraryView

MOST_CHUNKS = 64  # retrieved at a time
_SHARE_BY_WORDS = 0.25  # of the chunks that are retrieved, where words count
RESTRICTED = "documents or parts of them were named, which are scanned in full"


@dataclass(frozen=True)
class SearchOptions:
    """How a library is searched; ``document_ids`` ``None`` means all documents.

    ``filters`` restrict it further, to parts of documents, too.
    ``top_k`` ``None`` is the model's own number of retrieved chunks. ``reader_pass`` reads the
    retrieved passages with the question, where the model can, and with ``until_sure`` no more of
    them than the calibration finds necessary. ``approximate`` scans only what the
    library's approximate index has near the query, where it has one and all of it is searched.
    """

    document_ids: Sequence[str] | None = None
    top_k: int | None = None
    retriever: RetrieverName = "hybrid"
    reader_pass: bool = True
    until_sure: bool = False
    filters: Filters = NO_FILTERS
    approximate: bool = False

    def __post_init__(self) -> None:
        if self.retriever not in ("hybrid", "landmark", "lexical"):
            raise ConfigError(
                f"retriever is {self.retriever!r}, expected 'hybrid', 'landmark' or 'lexical'"
            )
        if self.top_k is not None and not 1 <= self.top_k <= MOST_CHUNKS:
            raise ConfigError(f"top_k is {self.top_k}, expected 1 to {MOST_CHUNKS}")


@dataclass
class LibraryQuery:
    """A question of a library: what is the same for all landmarks of its prompt and answer.

    ``lexical`` is ``None`` until the first landmark has searched the words of ``question``.
    ``scans`` logs each scan that might use the approximate index.
    """

    runtime: Runtime
    store: LibraryView
    question_ids: Sequence[int]
    options: SearchOptions
    lexical: LexicalScores | None = None
    scope: Scope = Scope()
    question: str = ""
    scans: list[ScanInfo] = field(default_factory=list, compare=False)

    @property
    def scan_info(self) -> ScanInfo | None:
        """What the scans were that might have been approximate; ``None`` where none might."""
        if not self.scans:
            return None
        notes = dict.fromkeys(note for scan in self.scans for note in scan.notes)
        largest = max(self.scans, key=lambda scan: scan.lists)  # each landmark of a prompt scans
        return replace(largest, notes=tuple(notes))

    @property
    def top_k(self) -> int:
        """Chunks retrieved at a time."""
        return self.options.top_k or self.runtime.config.retrieved

    @property
    def reads_passages(self) -> bool:
        """Whether retrieved passages are read together with the question."""
        return self.options.reader_pass and self.runtime.config.reads_passages


def query_library(
    runtime: Runtime,
    store: LibraryView,
    question: str,
    question_ids: Sequence[int],
    *,
    options: SearchOptions,
) -> LibraryQuery:
    """Return a question of what its filters leave of a library; ``NotFound`` for nothing."""
    scope = resolve_scope(store, options.document_ids, options.filters)
    lexical = LexicalScores() if options.retriever == "landmark" else None
    return LibraryQuery(runtime, store, question_ids, options, lexical, scope, question)


@dataclass
class LibrarySource:
    """Retrieves chunks of a library for one landmark at a time, and keeps the stream's own.

    Late interaction compares all query chunks since the last retrieval with the candidates.
    ``passages`` logs what each retrieval took from the library, best first; ``tokens_read`` counts
    what was read of it.
    """

    query: LibraryQuery
    own_chunks: list[ChunkMemory] = field(default_factory=list)
    passages: list[tuple[Passage, ...]] = field(default_factory=list)
    tokens_read: int = 0
    _query_chunks: list[ChunkMemory] = field(default_factory=list)

    def add(self, memory: ChunkMemory) -> None:
        """Keep a closed chunk of the stream, a query chunk together with those after it."""
        self.own_chunks.append(memory)
        self._query_chunks.append(memory)

    def find(
        self, query: Tensor, scorer: LandmarkScorer, query_chunk: ChunkMemory
    ) -> Retrieval | None:
        """Retrieve for the query vector [E] of ``query_chunk``; ``None`` where nothing is."""
        question = merge_chunks(join_memories([*self._query_chunks, query_chunk]))
        self._query_chunks = []
        retrieval = retrieve(self.query, query, scorer, question)
        self.passages.append(() if retrieval is None else retrieval.passages)
        self.tokens_read += 0 if retrieval is None else retrieval.tokens_read
        return retrieval


class _Choice(NamedTuple):
    """A chosen chunk: its number among the candidates."""

    number: int
    score: float
    probability: float


def retrieve(
    library: LibraryQuery, query: Tensor, scorer: LandmarkScorer, question: ChunkMemory
) -> Retrieval | None:
    """Retrieve the best chunks of a library for a query vector [E].

    ``question`` is the memory of the query chunks as one (P = 1).
    """
    candidates = library_candidates(library, query.float().cpu(), scorer, question)
    if not candidates.chunk_ids:
        return None
    scores = candidates.scores
    choices = choose_chunks(scores.total, library.top_k, scores.lexical)
    passages = _passages(library, candidates, choices)
    reading = _read(library, candidates, choices, passages)
    memories = [] if reading.memory is None else [reading.memory]
    device = library.runtime.device
    retrieved = Retrieved(
        join_memories(memories),
        torch.arange(len(choices), device=device)[None, None],
        torch.tensor([[[choice.score for choice in choices]]], device=device),
        torch.tensor([[[choice.probability for choice in choices]]], device=device),
    )
    return Retrieval(
        retrieved,
        tuple(passage.row.id for passage in passages),
        passages=tuple(passages),
        reread=reading.reread,
        passage_logits=reading.logits,
        tokens_read=reading.tokens_read,
    )


def library_candidates(
    library: LibraryQuery, query: Tensor, scorer: LandmarkScorer, question: ChunkMemory
) -> Candidates:
    """Return the candidates of a library for a query vector [E] on the CPU.

    They are reranked with late interaction where the model has it. The first searches the
    question's words for all.
    """
    options, scope = library.options, library.scope
    count = library.top_k
    if scorer.late is not None:
        count = max(count, library.runtime.config.late_candidates)
    # Words and landmarks at once: several libraries may be on other machines.
    view = library.store.looked_up(_lookup(library, query, scorer, count))
    if library.lexical is None:
        weight = 0.0 if scorer.lexical is None else library.runtime.config.lexical_neighbours
        library.lexical = lexical_scores(view, library.question, scope, neighbour_weight=weight)
    lexical = library.lexical
    allowed: list[int] = []
    if options.retriever == "lexical":  # the best by words alone, and all where none has any
        best = sorted(lexical.matches, key=lambda chunk_id: -lexical.matches[chunk_id])
        allowed = best[: library.top_k]
    candidates = find_candidates(
        query,
        scorer,
        _scan(library, view, query),
        lexical.spread,
        count=count,
        allowed_chunk_ids=allowed,
    )
    if scorer.late is None or options.retriever == "lexical":
        return candidates
    return rerank(candidates, scorer.late, question, library.store, count=count)


def _scan(library: LibraryQuery, view: LibraryView, query: Tensor) -> LandmarkScan:
    """Return the landmarks to scan; the approximate index counts where nothing is restricted.

    It is read here where ``view`` is of libraries elsewhere.
    """
    scope = library.scope
    if not library.options.approximate or library.options.retriever == "lexical":
        return scan_scope(view, scope)
    if scope.document_ids is not None or scope.chunk_ids is not None:
        library.scans.append(ScanInfo(0, 0, (RESTRICTED,)))
        return scan_scope(view, scope)
    scan, info = scan_index(library.store, query)
    library.scans.append(info)
    return scan


def _lookup(library: LibraryQuery, query: Tensor, scorer: LandmarkScorer, count: int) -> Lookup:
    """Return what the candidates for a query [E] are found with."""
    return Lookup(
        library.question if library.lexical is None else None,
        LEXICAL_CANDIDATES,
        query,
        landmarks_needed(scorer, count),
        library.scope.document_ids,
        library.scope.chunk_ids,
    )


def choose_chunks(scores: Tensor, top_k: int, lexical: Tensor | None) -> list[_Choice]:
    """Choose among all scores [P], best first.

    The best by words alone (``lexical`` [P]) are among the chosen: a rare name of the question
    stands there, however alike other chunks are to it.
    """
    ranking = scores.clone()
    if lexical is not None:
        best = lexical.topk(min(round(_SHARE_BY_WORDS * top_k), len(scores)))
        ranking[best.indices[best.values > 0]] = torch.inf
    allowed = torch.ones(1, len(scores), dtype=torch.bool)
    selection = select(scores[None], allowed, top_k, ranking=ranking[None])
    parts = (selection.index[0], selection.scores[0], selection.probabilities[0])
    choices = [_Choice(*values) for values in zip(*(part.tolist() for part in parts), strict=True)]
    choices = [choice for choice in choices if choice.probability > 0]
    return sorted(choices, key=lambda choice: -choice.score)


def _passages(
    library: LibraryQuery, candidates: Candidates, choices: Sequence[_Choice]
) -> list[Passage]:
    """Read the windows of the chosen candidates, best first."""
    if not choices:
        return []
    margin = library.runtime.config.passage_margin if library.reads_passages else 0
    chunk_ids = [candidates.chunk_ids[choice.number] for choice in choices]
    scores = candidates.scores.at(torch.tensor([choice.number for choice in choices]))
    windows = read_windows(library.store, chunk_ids, margin)
    if library.scope.spans is not None:
        windows = [within(window, library.scope.spans) for window in windows]
    parts = {
        "landmark": scores.landmark.tolist(),
        "lexical": _values(scores.lexical, len(choices)),
        "late": _values(scores.late, len(choices)),
    }
    return [
        Passage(
            **vars(window),
            score=choice.score,
            probability=choice.probability,
            by=_matched_by(library, window.row.id),
            **{name: values[place] for name, values in parts.items()},
        )
        for place, (window, choice) in enumerate(zip(windows, choices, strict=True))
    ]


def _values(part: Tensor | None, count: int) -> list[float]:
    return [0.0] * count if part is None else part.tolist()


def _matched_by(library: LibraryQuery, chunk_id: int) -> Literal["landmark", "lexical", "both"]:
    assert library.lexical is not None
    if chunk_id not in library.lexical.matches:
        return "landmark"
    return "lexical" if library.options.retriever == "lexical" else "both"


@dataclass(frozen=True)
class _Reading:
    """What the decoder and the quote head read of the chosen chunks of a library."""

    memory: ChunkMemory | None = None
    reread: Reread | None = None
    logits: PassageLogits | None = None
    tokens_read: int = 0


def _read(
    library: LibraryQuery,
    candidates: Candidates,
    choices: Sequence[_Choice],
    passages: Sequence[Passage],
) -> _Reading:
    """Read the passages with the question, or only the stored memory of their chunks."""
    model, device = library.runtime.model, library.runtime.device
    if not choices:
        return _Reading()
    if library.reads_passages:
        note_passages(library, passages, 0)
    if library.reads_passages and model.span_reader is None:
        reread, memory, tokens_read = encode_passages(model, library.question_ids, passages, device)
        return _Reading(memory, reread=reread, tokens_read=tokens_read)
    memory = memory_of_records(_records(library, candidates, choices), device)
    if not library.reads_passages:
        return _Reading(memory, tokens_read=int(memory.mask.sum()))
    contexts, headers = _contexts(library, passages), _header_ids(library, passages)
    enough = _enough(library, choices, passages)
    ids = library.question_ids
    note = partial(note_passages, library, passages)
    if enough is None:
        logits, tokens_read = read_passages(model, ids, passages, contexts, headers, note=note)
    else:
        logits, tokens_read = read_until(model, ids, passages, contexts, enough, headers, note=note)
    return _Reading(memory, logits=logits, tokens_read=tokens_read)


def _enough(
    library: LibraryQuery, choices: Sequence[_Choice], passages: Sequence[Passage]
) -> Callable[[PassageLogits], bool] | None:
    """Return what says that the passages read so far are enough; ``None``: all are to be read."""
    calibration = library.runtime.calibration.get("reread")
    limit = None if calibration is None else calibration.enough
    reader = library.runtime.config.reader
    if limit is None or reader is None or not library.options.until_sure:
        return None
    scores = torch.tensor([choice.score for choice in choices])
    log_probability = torch.log_softmax(scores, dim=0)

    def is_enough(logits: PassageLogits) -> bool:
        count = len(logits.null)
        score = logits.best_span(passages[:count], log_probability[:count], reader.prior)
        return score >= limit

    return is_enough


def _contexts(library: LibraryQuery, passages: Sequence[Passage]) -> list[list[int]]:
    """Return the token ids of title and section path in front of each passage, if they are read."""
    reader = library.runtime.config.reader
    if reader is None or not reader.context:
        return []
    documents = library.store.documents_by_id([p.row.document_id for p in passages])
    titles = {document.id: document.title for document in documents}
    texts = [titles.get(passage.row.document_id, "") for passage in passages]
    texts += [passage.row.section or "" for passage in passages]
    ids = [encoding.ids for encoding in library.runtime.tokenizer.encode_batch(texts)]
    count = len(passages)
    return [context_ids(reader, ids[n], ids[count + n]) for n in range(count)]


def _header_ids(library: LibraryQuery, passages: Sequence[Passage]) -> dict[str, list[int]]:
    """Return the token ids of the headers of all parts."""
    headers = [header for p in passages for part in p.parts() for _, header in part.headers]
    texts = list(dict.fromkeys(headers))
    encodings = library.runtime.tokenizer.encode_batch(texts)
    return {text: encoding.ids for text, encoding in zip(texts, encodings, strict=True)}


def _records(
    library: LibraryQuery, candidates: Candidates, choices: Sequence[_Choice]
) -> ChunkBatch:
    """Return the records of the chosen candidates, which late interaction has read already."""
    if candidates.records is None:
        return library.store.read_chunks([candidates.chunk_ids[c.number] for c in choices])
    index = torch.tensor([choice.number for choice in choices])
    return ChunkBatch(*(getattr(candidates.records, f.name)[index] for f in fields(ChunkBatch)))
