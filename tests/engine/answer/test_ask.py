"""Questions asked of a library, by a model that knows nothing: what holds for every answer."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.errors import ConfigError, CorruptStore, NotFound, QuestionError
from drt_engine.retrieval.candidates import RetrieverName
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from tests.engine.answer.asking import (
    ANY,
    QUESTION,
    QUESTIONS,
    assert_exact,
    beside,
    document,
    same,
)
from tests.model_folder import MANUAL, library, read, read_text
from tests.model_folder import quoting as runtime
from tests.sampling import sampled
from tests.tables import each_row


def test_only_the_chosen_documents_are_asked(store: Store) -> None:
    for row in store.documents():
        options = dataclasses.replace(ANY, documents=(row.id,))
        answer = ask(runtime(), store, QUESTION, options)
        documents = [e.document for group in answer.trace.groups for e in group.entries]
        assert {*documents, *(c.document for c in answer.citations)} == {row.id}


@pytest.mark.thorough
def test_a_document_answers_alike_whatever_else_the_library_holds(
    store: Store, tmp_path: Path
) -> None:
    row = document(store, "manual.md")
    file = Path(row.source)
    with library(tmp_path / "alone") as alone:
        read(alone, file)
        options = dataclasses.replace(ANY, documents=(row.id,), retriever="landmark")
        for question in QUESTIONS:
            mine = ask(runtime(), alone, question, options)
            assert same(mine, ask(runtime(), store, question, options))


@pytest.mark.few(1)
@pytest.mark.parametrize("count", [1, 2, 5, 64])
def test_top_k_is_how_many_chunks_are_retrieved(store: Store, count: int) -> None:
    trace = ask(runtime(), store, QUESTION, dataclasses.replace(ANY, top_k=count)).trace
    total = len(store.chunk_ids())
    assert all(len(group.entries) == min(count, total) for group in trace.groups)


@each_row("reread", [True, False])
@each_row("retriever", ["hybrid", "landmark", "lexical"])
def test_retrievers(store: Store, retriever: RetrieverName, reread: bool) -> None:
    options = dataclasses.replace(ANY, retriever=retriever, reread=reread, top_k=4)
    answer = ask(runtime(), store, "whale oil in the lamp", options)
    for citation in answer.citations:
        assert_exact(store, citation)
    entries = [entry for group in answer.trace.groups for entry in group.entries]
    words = {"whale", "oil", "lamp"}
    share = [bool(words & set(beside(store, entry.chunk).lower().split())) for entry in entries]
    if retriever == "lexical":
        assert all(share) and {entry.source for entry in entries} == {"lexical"}
    elif retriever == "landmark":
        assert {entry.source for entry in entries} == {"landmark"}
    else:
        assert {entry.source for entry in entries} <= {"landmark", "both"}
        assert all(
            entry.source == "both" for entry, shared in zip(entries, share, strict=True) if shared
        )


def test_each_switch_changes_the_answer(store: Store) -> None:
    plain = ask(runtime(), store, QUESTION, ANY)
    stored = ask(runtime(), store, QUESTION, dataclasses.replace(ANY, reread=False))
    assert stored.confidence != plain.confidence
    assert stored.tokens_read < plain.tokens_read
    landmark = ask(runtime(), store, QUESTION, dataclasses.replace(ANY, retriever="landmark"))
    assert landmark.trace != plain.trace


def test_lexical_words_that_stand_nowhere_still_give_an_answer(store: Store) -> None:
    options = dataclasses.replace(ANY, retriever="lexical")
    assert ask(runtime(), store, "xylophone", options).citations


@pytest.mark.parametrize("tokens", sampled([7, 8, 9, 160], {1}, thorough={3}))
def test_long_questions(store: Store, tokens: int) -> None:
    question = " ".join(["oil"] * tokens)
    answer = ask(runtime(), store, question, ANY)
    for citation in answer.citations:
        assert_exact(store, citation)


def test_questions_that_cannot_be_asked(store: Store, tmp_path: Path) -> None:
    with pytest.raises(QuestionError, match="161 tokens, expected at most 160"):
        ask(runtime(), store, " ".join(["oil"] * 161), ANY)
    for nothing in ("", "  \n", "?!", "\u200b", "—"):
        with pytest.raises(QuestionError, match="no words"):
            ask(runtime(), store, nothing, ANY)
    with pytest.raises(NotFound, match="0123456789abcdef"):
        ask(runtime(), store, QUESTION, AskOptions(documents=("0123456789abcdef",)))
    with (
        library(tmp_path / "empty") as empty,
        pytest.raises(QuestionError, match="no document to ask"),
    ):
        ask(runtime(), empty, QUESTION, ANY)
    with pytest.raises(QuestionError, match="no document to ask"):
        ask(runtime(), store, QUESTION, AskOptions(documents=()))


@each_row(
    "wrong",
    [{"mode": "x"}, {"retriever": "x"}, {"top_k": 0}, {"threshold": 1.1}, {"max_tokens": 0}],
)
def test_options_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        AskOptions(**wrong)  # type: ignore[arg-type]


@pytest.mark.thorough
def test_cold_warm_and_reopened_give_the_same_answer(store: Store) -> None:
    first = ask(runtime(), store, QUESTION, ANY)
    assert ask(runtime(), store, QUESTION, ANY) == first
    with library(store.path) as reopened:
        assert ask(runtime(), reopened, QUESTION, ANY) == first
    again = Runtime.load(runtime().folder, device="cpu", threads=1, dtype="fp32")
    assert ask(again, store, QUESTION, ANY) == first


def test_a_document_of_one_token(tmp_path: Path) -> None:
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="a.txt", text="\n oil \n")
        answer = ask(runtime(), store, QUESTION, ANY)
        assert answer.text == "oil"
        assert_exact(store, answer.citations[0])


def test_a_damaged_segment_is_named(tmp_path: Path) -> None:
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="manual.md", text=MANUAL)
    segment = next((tmp_path / "library" / "segments").glob("*.seg"))
    data = bytearray(segment.read_bytes())
    for at in range(len(data) // 2, len(data)):
        data[at] ^= 0xFF
    segment.write_bytes(data)
    model = runtime()
    with Store.open(
        tmp_path / "library", fingerprint=model.fingerprint, layout=model.layout
    ) as damaged:
        with pytest.raises(CorruptStore, match=segment.stem):
            ask(model, damaged, QUESTION, ANY)
        assert [f.severity for f in damaged.check()][:1] == ["error"]


@pytest.mark.thorough
def test_a_source_that_is_switched_off_proposes_nothing(tmp_path: Path) -> None:
    text = (
        "---\nauthor: Ann Lee\n---\n\n| ship | tons |\n| --- | --- |\n| Dag | 12 |\n| Eli | 30 |\n"
    )
    asked = {
        "Who is the author?": ("metadata", "Ann Lee"),
        "How many tons are there in total?": ("table", "42"),
        "Which ship has the most tons?": ("table", "Eli"),
    }
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="ships.md", text=text)
        for question, (origin, expected) in asked.items():
            answer = ask(runtime(), store, question, AskOptions())
            assert (answer.origin, answer.text) == (origin, expected)
            assert answer.quote_probability is None
            rest = AskOptions(sources=AskOptions().sources - {origin})
            assert ask(runtime(), store, question, rest).origin == "reader"
        nothing = ask(runtime(), store, "Where?", AskOptions(sources=frozenset(), threshold=0.0))
        assert (nothing.found, nothing.text) == (False, "") and nothing.citations
    with pytest.raises(ConfigError, match="no source of answers is called 'lists'"):
        AskOptions(sources=frozenset({"lists"}))  # type: ignore[arg-type]


@pytest.mark.thorough
def test_a_threshold_restricts_what_is_looked_up_by_the_confidence_of_the_reader(
    tmp_path: Path,
) -> None:
    with library(tmp_path / "library") as store:
        read_text(
            store, tmp_path, name="a.md", text="---\nauthor: Ann Lee\n---\n\nLamps are lit.\n"
        )
        plain = ask(runtime(), store, "Who is the author?", AskOptions())
        assert plain.origin == "metadata" and 0 < plain.confidence < 1
        for step, origin in ((-1e-6, "metadata"), (1e-6, "reader")):
            options = AskOptions(threshold=plain.confidence + step)
            assert ask(runtime(), store, "Who is the author?", options).origin == origin
