"""Searches of a library, by words and by a model that knows nothing: what holds for every hit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drt_engine.errors import ConfigError, NotFound, QuestionError
from drt_engine.results import SearchHit
from drt_engine.retrieval.candidates import RetrieverName
from drt_engine.search.chunks import MOST_JOINED, ScoredChunk, join_neighbours
from drt_engine.search.search import SearchRequest, search
from drt_engine.store import ChunkRow, Store
from tests.model_folder import LETTERS, MANUAL, library, read_text, runtime
from tests.tables import each_row

RETRIEVERS: tuple[RetrieverName, ...] = ("hybrid", "landmark", "lexical")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("search")
    with library(folder / "library") as opened:
        read_text(opened, folder, name="manual.md", text=MANUAL)
        read_text(opened, folder, name="letters.txt", text=LETTERS)
        yield opened


def hits_of(store: Store, query: str, **options: object) -> tuple[SearchHit, ...]:
    return search(runtime(), store, query, SearchRequest(**options))  # type: ignore[arg-type]


@each_row("retriever", RETRIEVERS)
def test_hits_are_slices_of_their_documents(store: Store, retriever: RetrieverName) -> None:
    hits = hits_of(store, "notice period of the keeper", retriever=retriever)
    assert hits and [hit.score for hit in hits] == sorted((h.score for h in hits), reverse=True)
    for hit in hits:
        assert hit.text == store.text(hit.document, hit.start, hit.end)
        assert hit.start <= hit.sentence_start < hit.sentence_end <= hit.end
        assert hit.sentence == store.text(hit.document, hit.sentence_start, hit.sentence_end)
        assert hit.score == pytest.approx(hit.landmark + hit.lexical + hit.late, rel=1e-4)
        assert (hit.page, hit.section) == store.place(hit.document, hit.sentence_start)


@pytest.mark.parametrize("retriever", ["hybrid", "lexical"])
def test_the_sentence_with_the_words_is_marked(store: Store, retriever: RetrieverName) -> None:
    (best, *_) = hits_of(store, "notice period of a keeper thirty days", retriever=retriever)
    assert best.sentence == "The notice period for a keeper is thirty days."
    assert best.section == "Lighthouse manual > Leave" and best.line == 18


def test_words_alone_need_no_model(store: Store) -> None:
    request = SearchRequest(retriever="lexical", top_k=1)
    (hit,) = search(None, store, "harvest", request)
    assert "the harvest of 1902 was poor" in hit.sentence and hit.score == 1.0
    assert search(None, store, "zeppelin", request) == ()
    with pytest.raises(ConfigError, match="without a model"):
        search(None, store, "harvest", SearchRequest())


def test_documents_and_top_k_restrict(store: Store) -> None:
    letters = store.document("letters.txt").id
    assert len(hits_of(store, "keeper", top_k=2)) == 2
    assert {hit.document for hit in hits_of(store, "keeper", documents=(letters,))} == {letters}
    with pytest.raises(NotFound):
        hits_of(store, "keeper", documents=("0" * 16,))


@each_row("retriever", RETRIEVERS)
def test_a_query_must_have_words(store: Store, retriever: RetrieverName) -> None:
    with pytest.raises(QuestionError, match="the query has no words"):
        hits_of(store, "?!", retriever=retriever)


@each_row("wrong", [{"top_k": 0}, {"top_k": 51}, {"retriever": "magic"}])
def test_options_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        SearchRequest(**wrong)  # type: ignore[arg-type]


def test_neighbours_are_joined_up_to_a_length() -> None:
    def chunk(document: str, ordinal: int) -> ScoredChunk:
        return ScoredChunk(ChunkRow(ordinal, document, ordinal, 0, "", None, None), -ordinal)

    best_first = [chunk("a", 1), chunk("b", 2), chunk("a", 2), chunk("a", 3), chunk("a", 4)]
    groups = join_neighbours(best_first)
    numbers = [[(c.row.document_id, c.row.ordinal) for c in group] for group in groups]
    assert numbers == [[("a", 1), ("a", 2), ("a", 3)], [("b", 2)], [("a", 4)]]
    assert len(groups[0]) == MOST_JOINED
