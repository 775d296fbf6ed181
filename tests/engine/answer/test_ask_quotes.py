"""Quotes and the numbers beside them, by a model that knows nothing: exact in every answer."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import pytest

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.model.calibration import Calibration, QuoteCalibration
from drt_engine.store import Store
from drt_engine.trace.text import trace_text
from tests.engine.answer.asking import ANY, QUESTION, QUESTIONS, all_answers, assert_exact, document
from tests.engine.documents.helpers import make_pdf
from tests.model_folder import LETTERS, MANUAL, library, read, text_of
from tests.model_folder import quoting as runtime
from tests.model_folder import runtime as full_runtime


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_bytes_of_a_lossless_tokenizer_never_show(tmp_path: Path) -> None:
    """Its tokens hold the space before a word, and several may share one character."""
    model = full_runtime("bpe")
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


def test_a_calibration_orders_quotes_only_where_it_was_fitted_to_all(store: Store) -> None:
    def first_quote(*, ranks: bool) -> tuple[str, list[str]]:
        # The longer the likelier, far below what the reader itself would choose by.
        quote = QuoteCalibration({"length": 1.0}, threshold=0.0, span_threshold=2.0, ranks=ranks)
        fits = dict.fromkeys(("stored", "reread"), Calibration(quote=quote))
        calibrated = dataclasses.replace(runtime(), calibration=fits)
        answer = ask(calibrated, store, QUESTION, AskOptions())
        return answer.text, [forms[-1].quote for forms in answer.candidates]

    text, quotes = first_quote(ranks=False)
    assert len(quotes) > 1 and text == quotes[0]
    text, quotes = first_quote(ranks=True)
    assert len(text.split()) == max(len(quote.split()) for quote in quotes)
    assert text != quotes[0]
