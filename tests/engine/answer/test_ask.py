"""Questions asked of a library, by a model that knows nothing: what holds for every answer."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from drt_engine.answer.ask import AskOptions, ask, stream
from drt_engine.answer.parts import question_parts
from drt_engine.answer.result import AnswerResult, Draft
from drt_engine.answer.support import UNSUPPORTED
from drt_engine.errors import ConfigError, CorruptStore, NotFound, QuestionError
from drt_engine.generate.decode import Decoder
from drt_engine.model.calibration import Calibration, QuoteCalibration, logistic
from drt_engine.results import Citation
from drt_engine.retrieval.candidates import RetrieverName
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow, Store
from drt_engine.text.sentences import split_sentences
from drt_engine.trace.text import trace_text
from tests.engine.documents.helpers import make_pdf
from tests.model_folder import LETTERS, MANUAL, library, read, read_text, runtime, text_of
from tests.sampling import sampled

QUESTION = "How long is the notice period for a keeper?"
QUESTIONS = (QUESTION, "bell?", "Who teaches at the school in Bergen", "zzz qqq " * 4, "Öl? 油?")
ANY = AskOptions(threshold=0.0)
PAGE = """<html><head><title>Rules</title></head><body><h1>Rules</h1><p>The harbour closes at
eight. Boats wait <b>outside</b> the wall &amp; pay two crowns.</p><h2>Fees</h2>
<p>A barrel of oil costs nine crowns in winter.</p></body></html>"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("ask")
    with library(folder / "library") as opened:
        read_text(opened, folder, name="manual.md", text=MANUAL)
        read_text(opened, folder, name="letters.txt", text=LETTERS)
        read_text(opened, folder, name="page.html", text=PAGE)
        yield opened


def document(store: Store, name: str) -> DocumentRow:
    return store.document(name)


def all_answers(store: Store) -> Iterator[AnswerResult]:
    for question in QUESTIONS:
        yield ask(runtime(), store, question, ANY)


def same(one: AnswerResult, other: AnswerResult) -> bool:
    """The same answer of two libraries, whose chunks have other numbers."""

    def places(answer: AnswerResult) -> list[object]:
        return [
            (group.group, group.chunk, e.document, e.start, e.score, e.probability)
            for group in answer.trace.groups
            for e in group.entries
        ]

    def without_trace(answer: AnswerResult) -> dict[str, object]:
        return {k: v for k, v in vars(answer).items() if k != "trace"}

    return without_trace(one) == without_trace(other) and places(one) == places(other)


def beside(store: Store, chunk: int) -> str:
    """The texts of a chunk and of those before and after it."""
    before, after = store.neighbours_of([chunk])[chunk]
    rows = store.chunk_rows([one for one in (before, chunk, after) if one is not None])
    return "".join(row.text for row in rows)


def assert_exact(store: Store, citation: Citation) -> None:
    row = store.document(citation.document)
    text = text_of(store, row)
    assert text[citation.start : citation.end] == citation.quote
    assert citation.quote and citation.quote == citation.quote.strip()
    assert citation.context in text
    assert citation.quote in citation.context or len(citation.quote) > len(citation.context)
    assert (citation.title, citation.source) == (row.title, row.source)
    assert (citation.page, citation.section) == store.place(row.id, citation.start)
    assert 0 < citation.probability <= 1


def test_every_quote_is_a_slice(store: Store) -> None:
    of_each: list[tuple[str, tuple[str, ...] | None]] = [
        (question, (row.id,))
        for question, row in zip(QUESTIONS[1:4], store.documents(), strict=True)
    ]
    cited = set()
    for question, documents in [*((question, None) for question in QUESTIONS), *of_each]:
        options = dataclasses.replace(ANY, documents=documents)
        answer = ask(runtime(), store, question, options)
        assert answer.found and answer.text == answer.citations[0].quote
        for citation in answer.citations:
            assert_exact(store, citation)
            cited.add(citation.source.rsplit(".")[-1])
    assert cited == {"md", "txt", "html"}


def test_each_part_of_a_question_is_answered_as_if_it_were_alone(store: Store) -> None:
    parts = ("Who keeps the bell?", "Which barrel costs nine crowns?")
    alone = [ask(runtime(), store, part, ANY) for part in parts]
    both = ask(runtime(), store, "Who keeps the bell and which barrel costs nine crowns?", ANY)
    texts = dict.fromkeys(answer.text for answer in alone)
    assert both.found and both.text == "; ".join(texts)
    assert {c.handle for c in both.citations} == {a.citations[0].handle for a in alone}
    assert both.tokens_read > sum(answer.tokens_read for answer in alone)  # the whole, too
    for citation in both.citations:
        assert_exact(store, citation)


@pytest.mark.parametrize("question", ["What?", "When does it ring and what is a bell?"])
def test_what_is_read_for_the_notes_of_a_release_counts(
    store: Store, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    plain = ask(runtime(), store, question, AskOptions()).tokens_read
    monkeypatch.setattr(
        "drt_engine.answer.ask._Asking._released",
        lambda *_: Draft("bell", False, 0.1, (), tokens_read=1_000),
    )
    parts = max(1, len(question_parts(question)))
    assert ask(runtime(), store, question, AskOptions()).tokens_read >= plain + 1_000 * parts


@pytest.mark.skipif(importlib.util.find_spec("pypdfium2") is None, reason="needs the pdf extra")
def test_quotes_of_a_pdf_name_their_page(tmp_path: Path) -> None:
    pages = ["The harbour closes at eight in the evening.", "A barrel of oil costs nine crowns."]
    file = tmp_path / "fees.pdf"
    file.write_bytes(make_pdf([[line] for line in pages]))
    with library(tmp_path / "library") as store:
        row = read(store, file)
        text, seen = text_of(store, row), set()
        for question in ("harbour", "barrel of oil", "crowns", "evening"):
            for citation in ask(runtime(), store, question, ANY).citations:
                assert_exact(store, citation)
                assert citation.page == (2 if citation.start >= text.index("A barrel") else 1)
                seen.add(citation.page)
        assert seen == {1, 2}


def test_quotes_share_no_character(store: Store) -> None:
    several = 0
    for answer in all_answers(store):
        places = sorted((c.document, c.start, c.end) for c in answer.citations)
        for (one, _, end), (other, start, _) in zip(places, places[1:], strict=False):
            assert one != other or end <= start
        several += len(places) > 1
        assert len(places) <= 3
    assert several


def test_no_quote_cuts_a_word(store: Store) -> None:
    for answer in all_answers(store):
        for citation in answer.citations:
            text = " " + text_of(store, document(store, citation.document)) + " "
            for at in (citation.start + 1, citation.end + 1):
                assert not (text[at - 1].isalnum() and text[at].isalnum())


def test_some_quotes_cross_a_border_of_chunks(store: Store) -> None:
    ids = store.chunk_ids()
    borders = {(row.document_id, row.start) for row in store.chunk_rows(ids)}
    assert any(
        c.document == document and c.start < start < c.end
        for answer in all_answers(store)
        for c in answer.citations
        for document, start in borders
    )


def test_numbers_are_probabilities_and_those_of_the_trace(store: Store) -> None:
    for answer in all_answers(store):
        assert 0 <= answer.confidence <= 1
        for group in answer.trace.groups:
            shares = [entry.probability for entry in group.entries]
            assert shares == sorted(shares, reverse=True)
            assert sum(shares) == pytest.approx(1)
        last = answer.trace.groups[-1].entries
        for citation in answer.citations:
            assert citation.probability in [entry.probability for entry in last]


def test_the_trace_holds_the_chunks_as_they_stand(store: Store) -> None:
    trace = ask(runtime(), store, QUESTION, ANY).trace
    assert trace.question == QUESTION
    for group in trace.groups:
        for entry in group.entries:
            text = text_of(store, document(store, entry.document))
            assert text[entry.start :].startswith(entry.text)
    best = trace.groups[-1].entries[0]
    assert " ".join(best.text.split())[:40] in trace_text(trace)
    assert trace.groups[-1].to_dict()["entries"][0]["probability"] == best.probability


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


@pytest.mark.parametrize("count", [1, 2, 5, 64])
def test_top_k_is_how_many_chunks_are_retrieved(store: Store, count: int) -> None:
    trace = ask(runtime(), store, QUESTION, dataclasses.replace(ANY, top_k=count)).trace
    total = len(store.chunk_ids())
    assert all(len(group.entries) == min(count, total) for group in trace.groups)


@pytest.mark.parametrize("reread", [True, False])
@pytest.mark.parametrize("retriever", ["hybrid", "landmark", "lexical"])
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


def test_the_threshold_decides_what_is_found(store: Store) -> None:
    found = ask(runtime(), store, QUESTION, ANY)
    refused = ask(runtime(), store, QUESTION, AskOptions(threshold=1.0))
    assert found.found and not refused.found
    assert refused.confidence == found.confidence
    assert refused.text == ""
    assert refused.citations == found.citations[:1]  # the closest passage
    exact = ask(runtime(), store, QUESTION, AskOptions(threshold=found.confidence))
    assert exact == found


def test_calibration_sets_threshold_and_confidence(store: Store) -> None:
    plain = ask(runtime(), store, QUESTION, AskOptions())
    assert plain.found == (plain.confidence >= 0.5)
    sure = Calibration(scale=0.0, shift=3.0, threshold=0.9)
    model = dataclasses.replace(runtime(), calibration={"reread": sure})
    answer = ask(model, store, QUESTION, AskOptions())
    assert answer.confidence == pytest.approx(0.952574) and answer.found
    assert ask(model, store, QUESTION, AskOptions(reread=False)).confidence != answer.confidence


@pytest.mark.parametrize(
    ("shift", "quote_shift", "state"),
    [(3.0, 3.0, "answer"), (3.0, -3.0, "likely"), (-3.0, -3.0, "none"), (-3.0, 3.0, "likely")],
)
def test_the_quote_is_judged_beside_the_documents(
    store: Store, shift: float, quote_shift: float, state: str
) -> None:
    quote = QuoteCalibration({"span": 0.0}, quote_shift, 0.8)
    calibration = {"reread": Calibration(scale=0.0, shift=shift, quote=quote)}
    model = dataclasses.replace(runtime(), calibration=calibration)
    answer = ask(model, store, QUESTION, AskOptions())
    assert (answer.state, answer.found) == (state, state == "answer")
    assert answer.quote_probability == pytest.approx(logistic(quote_shift))
    assert bool(answer.text) == answer.found
    first = answer.citations[0]
    assert first.quote in answer.passage and answer.passage in "".join(
        store.iter_text(first.document)
    )
    assert {citation.likely for citation in answer.citations} == {state == "likely"}
    # A threshold that is asked for decides alone, by the confidence.
    asked = ask(model, store, QUESTION, AskOptions(threshold=0.5))
    assert asked.found == (shift > 0) and asked.quote_probability == answer.quote_probability


@pytest.mark.parametrize(("shift", "state"), [(3.0, "likely"), (-3.0, "none")])
def test_a_second_place_is_well_apart_from_the_first(
    store: Store, shift: float, state: str
) -> None:
    quote = QuoteCalibration({"span": 0.0}, -3.0, 0.8)
    calibration = {"reread": Calibration(scale=0.0, shift=shift, quote=quote)}
    model = dataclasses.replace(runtime(), calibration=calibration)
    pairs = 0
    for question in QUESTIONS:
        answer = ask(model, store, question, AskOptions())
        assert answer.state == state and len(answer.citations) in (1, 2)
        assert bool(answer.second_passage) == (len(answer.citations) == 2)
        for first, second in zip(answer.citations, answer.citations[1:], strict=False):
            assert_exact(store, second)
            assert second.quote in answer.second_passage
            gap = max(second.start - first.end, first.start - second.end)
            assert first.document != second.document or gap >= 300
            pairs += 1
    assert pairs


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


@pytest.mark.parametrize(
    "wrong",
    [{"mode": "x"}, {"retriever": "x"}, {"top_k": 0}, {"threshold": 1.1}, {"max_tokens": 0}],
)
def test_options_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        AskOptions(**wrong)  # type: ignore[arg-type]


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


@pytest.mark.thorough
def test_bytes_of_a_lossless_tokenizer_never_show(tmp_path: Path) -> None:
    """Its tokens hold the space before a word, and several may share one character."""
    model = runtime("bpe")
    text = "  naïve café — 日本語のテキスト 🙂🙂 " + MANUAL + "\n\n   \n\n" + LETTERS
    with library(tmp_path / "library", model) as store:
        file = tmp_path / "text.txt"
        file.write_text(text, encoding="utf-8")
        row = read(store, file, model)
        assert text_of(store, row) == text
        for question in QUESTIONS:
            for mode in ("quote", "free"):
                options = AskOptions(threshold=0.0, mode=mode, max_tokens=12)
                answer = ask(model, store, question, options)
                for citation in answer.citations:
                    assert_exact(store, citation)


def test_a_model_without_a_quote_head_shows_its_best_passage(tmp_path: Path) -> None:
    without = {"quote_head": False, "reread": False, "reread_relevance": False}
    model = runtime(**without, reread_layers=0, question_states=False, groups=2)
    with library(tmp_path / "library", model) as store:
        file = tmp_path / "letters.txt"
        file.write_text(LETTERS, encoding="utf-8")
        read(store, file, model)
        answer = ask(model, store, QUESTION, AskOptions(threshold=0.0))
        assert not answer.found and answer.text == "" and answer.confidence == 0
        best = answer.trace.groups[-1].entries[0]
        assert answer.citations[0].quote == best.text.strip()
        assert {group.group for group in answer.trace.groups} == {0, 1}
        *pieces, free = stream(model, store, QUESTION, AskOptions(mode="free", max_tokens=8))
        assert isinstance(free, AnswerResult)
        assert "".join(str(piece) for piece in pieces) == free.text
        assert free.found == bool(free.text)


# streaming


@pytest.mark.parametrize(
    ("threshold", "mode"),
    sampled([(0.0, "quote"), (0.0, "free"), (1.0, "quote"), (1.0, "free")], {0, 1, 3}, unpack=True),
)
def test_pieces_join_to_the_answer(store: Store, mode: str, threshold: float) -> None:
    options = AskOptions(mode=mode, threshold=threshold, max_tokens=30)  # type: ignore[arg-type]
    *pieces, result = stream(runtime(), store, QUESTION, options)
    assert isinstance(result, AnswerResult)
    assert all(isinstance(piece, str) and piece for piece in pieces)
    assert "".join(str(piece) for piece in pieces) == result.text
    assert result == ask(runtime(), store, QUESTION, options)
    assert bool(pieces) == result.found == (threshold == 0)


def test_a_stream_leaves_its_callers_thread_as_it_was(store: Store) -> None:
    options = AskOptions(mode="free", threshold=0.0, max_tokens=10)
    alone = list(stream(runtime(), store, QUESTION, options))
    one, other = (stream(runtime(), store, QUESTION, options) for _ in range(2))
    pieces = []
    for piece in one:
        next(other)
        pieces.append(piece)
        assert not torch.is_inference_mode_enabled()
        assert not torch.is_autocast_enabled("cpu")
        assert torch.is_grad_enabled()
    assert pieces == alone


# free text


@pytest.mark.thorough
def test_free_text_ends_and_is_marked(store: Store) -> None:
    for question in QUESTIONS:
        options = AskOptions(mode="free", threshold=0.0, max_tokens=25)
        answer = ask(runtime(), store, question, options)
        assert answer.mode == "free" and answer.text
        unmarked = answer.text.replace(UNSUPPORTED, "")
        assert len(runtime().tokenizer.encode(unmarked)) <= 3 * options.max_tokens
        sentences = len(split_sentences(unmarked))
        assert answer.text.count(UNSUPPORTED) <= sentences
        for citation in answer.citations:
            assert_exact(store, citation)


def test_max_tokens_limits_what_is_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []
    feed = Decoder.feed

    def count(self: Decoder, ids: list[int], added: object = None) -> object:
        fed.append(len(ids))
        return feed(self, ids, added)  # type: ignore[arg-type]

    monkeypatch.setattr(Decoder, "feed", count)
    ask(runtime(), store, QUESTION, AskOptions(mode="free", threshold=0.0, max_tokens=5))
    question = len(runtime().tokenizer.encode(QUESTION))
    assert 0 < sum(fed) - (2 * question + 1) <= 5


# damage


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


@pytest.mark.parametrize(("shift", "state"), [(-1.0, "answer"), (-2.0, "likely")])
def test_a_quote_that_seems_right_is_likely_where_hardly_an_answer_is(
    store: Store, shift: float, state: str
) -> None:
    """A confidence of 0.27 is enough, 0.12 is not; a threshold that is asked for decides alone."""
    quote = QuoteCalibration({"span": 0.0}, 3.0, 0.8)
    calibration = {"reread": Calibration(scale=0.0, shift=shift, quote=quote)}
    model = dataclasses.replace(runtime(), calibration=calibration)
    assert ask(model, store, QUESTION, AskOptions()).state == state
    assert ask(model, store, QUESTION, AskOptions(threshold=0.1)).state == "answer"
