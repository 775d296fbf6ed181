"""One search: score the chunks, join neighbours to passages, mark the best sentence of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drt_engine.answer.documents import DocumentRows, documents_to_ask
from drt_engine.documents.source_map import place_in_source
from drt_engine.errors import ConfigError, QuestionError
from drt_engine.results import ScanInfo, SearchHit
from drt_engine.retrieval.filters import NO_FILTERS, Filters, Scope, resolve_scope
from drt_engine.search.chunks import FoundPassage, ScoredChunk, cut_passage, join_neighbours
from drt_engine.store.view import LibraryView
from drt_engine.text.lexical import LexicalIndex, normalised_bm25, search_terms

if TYPE_CHECKING:
    from drt_engine.retrieval.candidates import RetrieverName
    from drt_engine.runtime import Runtime
    from drt_engine.search.by_model import ModelSearch

TOP_K = 10
MOST_PASSAGES = 50
_CHUNKS_PER_PASSAGE = 3  # that are looked at: neighbours become one passage
_BM25_WEIGHT = 2.0  # of a sentence's normalised BM25, beside its late interaction


@dataclass(frozen=True)
class SearchRequest:
    """How a library is searched; ``documents`` are ids (``None``: all).

    ``top_k`` is the largest number of passages. ``lexical`` needs no model. ``filters`` restrict
    the documents, and the parts of them. ``approximate`` is as in ``SearchOptions``.
    """

    documents: tuple[str, ...] | None = None
    top_k: int = TOP_K
    retriever: RetrieverName = "hybrid"
    filters: Filters = NO_FILTERS
    approximate: bool = False

    def __post_init__(self) -> None:
        if self.retriever not in ("hybrid", "landmark", "lexical"):
            raise ConfigError(
                f"retriever is {self.retriever!r}, expected 'hybrid', 'landmark' or 'lexical'"
            )
        if not 1 <= self.top_k <= MOST_PASSAGES:
            raise ConfigError(f"top_k is {self.top_k}, expected 1 to {MOST_PASSAGES}")


def search(
    runtime: Runtime | None,
    store: LibraryView,
    query: str,
    request: SearchRequest,
    *,
    note_scan: Callable[[ScanInfo], None] | None = None,
) -> tuple[SearchHit, ...]:
    """Return the passages that fit a query best, best first.

    ``note_scan`` is given what was scanned, where it might have been approximate. ``runtime`` may
    be ``None`` where the retriever is ``lexical``. Reads a snapshot. Raises ``QuestionError`` for a
    query without words or too long, or a library without documents, ``NotFound`` for a document
    that is not there or filters that leave nothing, ``StoreError`` for a damaged library.
    """
    with store.snapshot() as view:
        documents = documents_to_ask(view, request.documents)
        if request.retriever == "lexical":
            scope = resolve_scope(view, request.documents, request.filters)
            chunks = _by_words(view, query, scope, limit=_CHUNKS_PER_PASSAGE * request.top_k)
            passages = _passages(view, documents, chunks, scope, top_k=request.top_k)
            return _hits(view, query, passages)
        if runtime is None:
            raise ConfigError("only the lexical retriever searches without a model")
        from drt_engine.retrieval.library import SearchOptions
        from drt_engine.search.by_model import search_by_model

        options = SearchOptions(
            request.documents,
            None,
            request.retriever,
            reader_pass=False,
            filters=request.filters,
            approximate=request.approximate,
        )
        with runtime.computing():
            by_model = search_by_model(runtime, view, query, options)
            scope = by_model.library.scope
            scan = by_model.library.scan_info
            if note_scan is not None and scan is not None:
                note_scan(scan)
            chunks = by_model.chunks(_CHUNKS_PER_PASSAGE * request.top_k)
            passages = _passages(view, documents, chunks, scope, top_k=request.top_k)
            return _hits(view, query, passages, by_model)


def _by_words(view: LibraryView, query: str, scope: Scope, *, limit: int) -> list[ScoredChunk]:
    """Return the chunks with words of the query, best first; their scores are normalised BM25."""
    if not search_terms(query):
        raise QuestionError("the query has no words, expected plain language")
    ranking = view.search_text(
        query, documents=scope.document_ids, chunks=scope.chunk_ids, limit=limit
    )
    scores = normalised_bm25(dict(ranking))
    rows = view.chunk_rows(list(scores))
    return [ScoredChunk(row, scores[row.id], lexical=scores[row.id]) for row in rows]


def _passages(
    view: LibraryView,
    documents: DocumentRows,
    chunks: Sequence[ScoredChunk],
    scope: Scope,
    *,
    top_k: int,
) -> list[FoundPassage]:
    """Join chunks, given best first, to the best passages."""
    passages = []
    for group in join_neighbours(chunks)[:top_k]:
        document = documents.row(group[0].row.document_id)
        spans = None if scope.spans is None else scope.spans[document.id]
        passage = cut_passage(view, document, group, spans=spans)
        if passage is not None:
            passages.append(passage)
    return passages


def _hits(
    view: LibraryView,
    query: str,
    passages: Sequence[FoundPassage],
    by_model: ModelSearch | None = None,
) -> tuple[SearchHit, ...]:
    scores = _sentence_scores(query, passages, by_model)
    return tuple(
        _hit(view, passage, max(range(len(values)), key=values.__getitem__))
        for passage, values in zip(passages, scores, strict=True)
    )


def _sentence_scores(
    query: str, passages: Sequence[FoundPassage], by_model: ModelSearch | None
) -> list[list[float]]:
    """Score each sentence of each passage by its words, and by late interaction with a model."""
    texts = [p.sentence(number) for p in passages for number in range(len(p.sentences))]
    index = LexicalIndex(texts)
    bm25 = dict(index.search(query))
    index.close()
    late = None if by_model is None else by_model.sentence_scores(passages)
    scores, first = [], 0
    for number, passage in enumerate(passages):
        count = len(passage.sentences)
        words = [bm25.get(first + sentence, 0.0) for sentence in range(count)]
        first += count
        # Normalised in its passage: both then decide between its sentences, and nothing else.
        weight = _BM25_WEIGHT / (max(words) or 1.0)
        similar = [0.0] * count if late is None else late[number]
        scores.append([s + weight * w for s, w in zip(similar, words, strict=True)])
    return scores


def _hit(view: LibraryView, passage: FoundPassage, sentence: int) -> SearchHit:
    """Return a passage as a result; page, section and line are those of its best sentence."""
    start, end = passage.sentences[sentence]
    document, best = passage.document, passage.best
    page, section = view.place(document.id, start)
    return SearchHit(
        document=document.id,
        title=document.title,
        source=document.source,
        start=passage.start,
        end=passage.start + len(passage.text),
        text=passage.text,
        sentence_start=start,
        sentence_end=end,
        page=page,
        section=section,
        line=place_in_source(view, document, start, end).line,
        score=best.score,
        landmark=best.landmark,
        lexical=best.lexical,
        late=best.late,
    )
