"""Asking a model with a reader: spans over whole passages, each where it stands in the document."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from drt_engine.answer.ask import ask, stream
from drt_engine.answer.options import AskOptions
from drt_engine.config.model import ReaderConfig
from drt_engine.model.reader import PairLogits, PairTokens
from drt_engine.retrieval.candidates import RetrieverName
from drt_engine.retrieval.reader_pass import PassageLogits
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from tests.model_folder import LETTERS, MANUAL, model_folder, read
from tests.model_folder import library as new_library
from tests.sampling import sampled

READER = ReaderConfig(
    layers=2,
    heads=4,
    mlp=48,
    positions=96,
    margin=5,
    longest_question=24,
    begin_id=1,
    separator_id=3,
)
# Two lower layers, where the others' models have one.
CHANGES = {
    "reader": READER,
    "reread": False,
    "reread_relevance": False,
    "reread_layers": 0,
    "lower_layers": 2,
}
QUESTIONS = (
    "How long is the notice period for a keeper?",
    "bell?",
    "zzz qqq",
    "When was it? " * 12,
)


@cache
def reading_runtime(dtype: str = "fp32") -> Runtime:
    return Runtime.load(model_folder(**CHANGES), device="cpu", threads=1, dtype=dtype)  # type: ignore


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("reading")
    with new_library(folder / "library", reading_runtime()) as opened:
        for name, text in (("manual.md", MANUAL), ("letters.txt", LETTERS)):
            (folder / name).write_text(text, encoding="utf-8")
            read(opened, folder / name, reading_runtime())
        yield opened


@pytest.mark.parametrize(
    ("retriever", "dtype"),
    sampled(
        itertools.product(["hybrid", "landmark", "lexical"], ["fp32", "bf16"]),
        {0},
        thorough={3, 4},
        unpack=True,
    ),
)
def test_quotes_are_slices_of_the_document(
    store: Store, dtype: str, retriever: RetrieverName
) -> None:
    for question in QUESTIONS:
        options = AskOptions(threshold=0.0, retriever=retriever)
        answer = ask(reading_runtime(dtype), store, question, options)
        for citation in answer.citations:
            assert store.text(citation.document, citation.start, citation.end) == citation.quote
        assert answer.tokens_read > 0
        if answer.found:
            assert answer.text == answer.citations[0].quote


def test_the_stored_memory_answers_without_the_reader(store: Store) -> None:
    runtime = reading_runtime()
    with_reader, without = (
        ask(runtime, store, QUESTIONS[0], AskOptions(threshold=0.0, reread=reread))
        for reread in (True, False)
    )
    assert with_reader.signals != without.signals
    assert with_reader.tokens_read > without.tokens_read


def test_the_reader_decides_what_is_quoted(store: Store) -> None:
    """A reader that wants one token of the vocabulary quotes it wherever it was retrieved."""
    runtime = reading_runtime.__wrapped__()  # its own, since it is changed
    token = runtime.tokenizer.encode("thirty").ids[0]
    model = runtime.model
    reader = model.span_reader
    assert reader is not None
    kept = reader.forward

    def wants(words: torch.nn.Embedding, pairs, **options):  # type: ignore[no-untyped-def]
        logits = kept(words, pairs, **options)
        wanted = torch.where(pairs.ids == token, 30.0, 0.0)
        wanted = wanted.masked_fill(~pairs.passage, float("-inf"))
        return type(logits)(wanted, wanted, logits.null, logits.types, logits.verdict)

    reader.forward = wants  # type: ignore[method-assign]
    try:
        answer = ask(runtime, store, QUESTIONS[0], AskOptions(threshold=0.0))
    finally:
        del reader.forward
    assert answer.text == "thirty"


def test_a_full_trace_leaves_the_answer_as_it_is(store: Store) -> None:
    plain, traced = (
        ask(reading_runtime(), store, QUESTIONS[0], AskOptions(threshold=0.0, record=record))
        for record in (False, True)
    )
    assert plain.text == traced.text and plain.citations == traced.citations
    assert (plain.signals, plain.answer_type) == (traced.signals, traced.answer_type)


def test_passages_are_read_below_their_title_and_section(store: Store) -> None:
    """What the reader gets between question and passage is what a citation names."""
    context = replace(READER, context=40, positions=160)
    runtime = Runtime.load(model_folder(**{**CHANGES, "reader": context}), device="cpu", threads=1)
    reader = runtime.model.span_reader
    assert reader is not None
    kept, fronts = reader.forward, []

    def records(words: torch.nn.Embedding, pairs: PairTokens, **options: Any) -> PairLogits:
        for ids, segments, inside in zip(pairs.ids, pairs.segments, pairs.passage, strict=True):
            front = ids[(segments == 1) & ~inside & (ids != context.separator_id)]
            fronts.append(runtime.tokenizer.decode(front.tolist()))
        return kept(words, pairs, **options)

    reader.forward = records  # type: ignore[method-assign]
    ask(runtime, store, QUESTIONS[0], AskOptions(threshold=0.0, retriever="lexical"))
    assert "lighthouse manual lighthouse manual > leave" in fronts
    assert "lighthouse manual lighthouse manual > fog" in fronts


def test_free_mode_streams(store: Store) -> None:
    options = AskOptions(threshold=0.0, mode="free", max_tokens=8)
    *pieces, result = stream(reading_runtime(), store, QUESTIONS[0], options)
    assert "".join(str(piece) for piece in pieces) == result.text  # type: ignore[union-attr]


def test_the_prior_weighs_retrieval() -> None:
    zeros = torch.zeros(2, 3)
    logits = PassageLogits(zeros, zeros, torch.zeros(2, 2), torch.zeros(2, 1), torch.zeros(2, 2))
    share = torch.tensor([0.9, 0.1]).log()
    even, weighed = (logits.quote_logits(share, weight) for weight in (0.0, 1.0))
    assert torch.equal(even.start[0, 0], even.start[0, 1])
    assert (weighed.start[0, 0] - weighed.start[0, 1]).allclose(share[0] - share[1])
    assert weighed.end_null is not None
    assert weighed.null.allclose(torch.tensor([0.0]), atol=1e-6)  # log(0.9 + 0.1)
    assert logits.evidence().allclose(torch.tensor(3.0).log().expand(2))
