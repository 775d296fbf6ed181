"""Inference in fp32 and in bf16: explicit types, no autocast, whatever was read in which type."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from drt_engine.answer.ask import ask, stream
from drt_engine.answer.options import AskOptions
from drt_engine.answer.result import AnswerResult
from drt_engine.answer.session import SessionState
from drt_engine.retrieval.library import RetrieverName
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_engine.summary.options import SummaryOptions
from drt_engine.summary.summarize import summarize
from drt_lab.evaluate.choices import BASELINES, OWN
from drt_lab.evaluate.perplexity import stream_losses
from drt_lab.evaluate.retrieval import ranked
from tests.model_folder import LETTERS, MANUAL, library, model_folder, read, text_of
from tests.sampling import sampled

TYPES = ("fp32", "bf16")
RETRIEVERS: tuple[RetrieverName, ...] = ("hybrid", "landmark", "lexical")
QUESTION = "Who keeps the key of the store?"
THINGS = ("lamp", "boat", "bell", "coat", "gun", "plough")
RULES = [f"The {a} of the {b} costs forty crowns, and Anna pays." for a in THINGS for b in THINGS]
SIZES = {
    "one large": ["\n\n".join([MANUAL, *RULES, LETTERS])],
    "many small": [MANUAL, LETTERS, *("\n\n".join(RULES[i::12]) for i in range(12))],
}


@cache
def typed(dtype: str) -> Runtime:
    return Runtime.load(model_folder(), device="cpu", threads=1, dtype=dtype)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """What gives a library by what it holds and the type in which it is read, made once."""

    @cache
    def made(size: str, dtype: str) -> Path:
        folder = tmp_path_factory.mktemp("types")
        with library(folder / "library", typed(dtype)) as store:
            for number, text in enumerate(SIZES[size]):
                file = folder / f"{number}.md"
                file.write_text(text, encoding="utf-8")
                read(store, file, typed(dtype))
        return folder / "library"

    return made


@pytest.fixture(params=TYPES)
def dtype(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# What is read in several documents is asked in the same way.
@pytest.fixture(params=sampled(SIZES, {0}))
def store(
    request: pytest.FixtureRequest, folders: Callable[[str, str], Path], dtype: str
) -> Iterator[Store]:
    """A library read in the other type than that of the questions."""
    other = TYPES[1 - TYPES.index(dtype)]
    with library(folders(request.param, other), typed(dtype)) as opened:
        yield opened


def assert_whole(store: Store, answer: AnswerResult) -> None:
    assert answer.text and answer.found and math.isfinite(answer.confidence)
    assert answer.citations
    for citation in answer.citations:
        assert store.text(citation.document, citation.start, citation.end) == citation.quote
        assert 0 <= citation.probability <= 1
    for group in answer.trace.groups:
        shares = [entry.probability for entry in group.entries]  # a session's own have the rest
        assert all(share > 0 for share in shares) and sum(shares) < 1.001


# By default with one retriever: the tests of autocast and of evaluation have the others.
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("mode", "retriever"),
    sampled(itertools.product(("quote", "free"), RETRIEVERS), {0, 3}, unpack=True),
)
@pytest.mark.parametrize("reread", sampled([True, False], {0}), ids=["reread", "stored"])
def test_asking_and_streaming(
    store: Store, dtype: str, mode: str, retriever: RetrieverName, reread: bool
) -> None:
    options = AskOptions(
        mode=mode,  # type: ignore[arg-type]
        retriever=retriever,
        reread=reread,
        threshold=0.0,
        max_tokens=6,
    )
    answer = ask(typed(dtype), store, QUESTION, options)
    assert_whole(store, answer)
    *_, result = stream(typed(dtype), store, QUESTION, options)
    assert result == answer


@pytest.mark.few(1)
@pytest.mark.parametrize("retriever", sampled(RETRIEVERS, {0}))
def test_tracing(store: Store, dtype: str, retriever: RetrieverName) -> None:
    options = AskOptions(retriever=retriever, threshold=0.0)
    plain = ask(typed(dtype), store, QUESTION, options)
    full = ask(typed(dtype), store, QUESTION, AskOptions(**vars(options) | {"record": True}))
    assert_whole(store, full)
    assert (full.text, full.citations) == (plain.text, plain.citations)
    masses = [entry.mass for group in full.trace.groups for entry in group.entries]
    assert all(mass is not None and 0 <= mass <= 1 for mass in masses)


@pytest.mark.thorough
@pytest.mark.parametrize("retriever", sampled(RETRIEVERS, {2}))
def test_a_session_goes_on_in_the_other_type(
    store: Store, dtype: str, retriever: RetrieverName
) -> None:
    name, other = f"{dtype} {retriever}", TYPES[1 - TYPES.index(dtype)]
    # More than the conversation's own chunks, which free text may retrieve, too.
    options = AskOptions(retriever=retriever, threshold=0.0, max_tokens=6, top_k=8)
    free = AskOptions(**vars(options) | {"mode": "free"})
    session = SessionState.new(typed(dtype), store, name)
    for each in (options, free):
        assert_whole(store, ask(typed(dtype), store, QUESTION, each, session=session))
    session.save()
    restored = SessionState.restore(typed(other), store, name)
    for each in (options, free):
        assert_whole(store, ask(typed(other), store, "And in fog?", each, session=restored))
    restored.save()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("mode", "focus"),
    sampled(
        [("extractive", None), ("extractive", QUESTION), ("abstractive", QUESTION)],
        {1},
        thorough={2},
        unpack=True,
    ),
    ids=["all", "focus", "abstractive"],
)
def test_summarising(store: Store, dtype: str, mode: str, focus: str | None) -> None:
    row = store.documents()[0]
    options = SummaryOptions(mode=mode, focus=focus, words=12)  # type: ignore[arg-type]
    summary = summarize(typed(dtype), store, row.id, options)
    text = text_of(store, row)
    assert summary.text
    assert all(text[s.start : s.end] == s.quote for s in summary.sentences)


@pytest.mark.thorough
def test_evaluating(store: Store, dtype: str) -> None:
    model = typed(dtype)
    for retriever in RETRIEVERS:
        assert ranked(model, store, QUESTION, retriever)
    ids = model.tokenizer.encode(MANUAL).ids
    for choice in (OWN, *BASELINES):
        losses = stream_losses(model, ids, choice=choice)
        assert losses.dtype == torch.float32 and bool(losses.isfinite().all())


def test_weights_are_in_the_compute_type_and_scorers_in_fp32() -> None:
    model = typed("bf16").model
    for name, parameter in model.named_parameters():
        precise = name.startswith(("scorer.", "quote_head."))
        assert parameter.dtype == (torch.float32 if precise else torch.bfloat16), name
    assert {p.dtype for p in typed("fp32").model.parameters()} == {torch.float32}


def test_both_types_read_nearly_the_same(folders: Callable[[str, str], Path]) -> None:
    batches = []
    for dtype in TYPES:
        with library(folders("one large", dtype), typed(dtype)) as store, store.snapshot() as view:
            batches.append(view.read_chunks(view.chunk_ids([store.documents()[0].id])))
    for name in ("keys", "values", "landmarks"):
        exact, rounded = (getattr(batch, name) for batch in batches)
        assert not torch.equal(exact, rounded)
        assert float((rounded - exact).norm() / exact.norm()) < 0.03, name


def test_int8_reads_nearly_the_same_and_asks_what_fp32_read(
    folders: Callable[[str, str], Path],
) -> None:
    with library(folders("one large", "fp32"), typed("int8")) as store:
        assert_whole(store, ask(typed("int8"), store, QUESTION, AskOptions(threshold=0.0)))
    ids = torch.tensor(typed("fp32").tokenizer.encode(MANUAL).ids)
    chunks = ids[: len(ids) // 8 * 8].view(-1, 8)
    valid = torch.ones_like(chunks, dtype=torch.bool)
    exact, rounded = (typed(name).read(chunks, valid, skip=0) for name in ("fp32", "int8"))
    for name in ("keys", "values", "landmarks"):
        difference = getattr(rounded, name).float() - getattr(exact, name).float()
        assert 0 < float(difference.norm() / getattr(exact, name).float().norm()) < 0.1, name


# autocast


def everything(model: Runtime, store: Store) -> list[Any]:
    """What each path of inference computes."""
    out: list[Any] = []
    for retriever in RETRIEVERS:
        options = AskOptions(retriever=retriever, threshold=0.0, max_tokens=6)
        out.append(ask(model, store, QUESTION, AskOptions(**vars(options) | {"record": True})))
    out += stream(model, store, QUESTION, AskOptions(mode="free", threshold=0.0, max_tokens=6))
    session = SessionState.new(model, store, "one")
    out.append(ask(model, store, QUESTION, AskOptions(threshold=0.0), session=session))
    for mode in ("extractive", "abstractive"):
        summary = SummaryOptions(mode=mode, focus=QUESTION, words=12)  # type: ignore[arg-type]
        out.append(summarize(model, store, store.documents()[0].id, summary))
    out.append(ranked(model, store, QUESTION, "hybrid"))
    ids = torch.tensor(model.tokenizer.encode(MANUAL).ids)
    out.append(stream_losses(model, ids.tolist()).tolist())
    chunks = ids[: len(ids) // 8 * 8].view(-1, 8)
    memory = model.read(chunks, torch.ones_like(chunks, dtype=torch.bool), skip=1)
    return [*out, *(tensor.tolist() for tensor in vars(memory).values())]


def test_an_answer_is_not_computed_under_autocast(
    folders: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, options = typed("bf16"), AskOptions(threshold=0.0)
    with library(folders("one large", "fp32"), model) as store:
        with without_autocast(monkeypatch):
            answer = ask(model, store, QUESTION, options)
        assert answer == ask(model, store, QUESTION, options)


# In fp32 autocast would change the numbers, too.
@pytest.mark.thorough
@pytest.mark.parametrize("dtype", sampled(TYPES, {0}))
def test_no_path_computes_under_autocast(
    folders: Callable[[str, str], Path], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with library(folders("one large", "fp32"), typed(dtype)) as store:
        alone = everything(typed(dtype), store)
        with without_autocast(monkeypatch):
            assert everything(typed(dtype), store) == alone


@contextlib.contextmanager
def without_autocast(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Autocast that the caller turned on, which each module must find turned off."""
    modules: set[str] = set()

    def look(module: nn.Module, given: object) -> None:
        modules.add(type(module).__name__)
        assert not torch.is_autocast_enabled("cpu"), type(module).__name__

    hook = nn.modules.module.register_module_forward_pre_hook(look)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            enter = torch.autocast.__enter__
            with monkeypatch.context() as patch:
                patch.setattr(torch.autocast, "__enter__", _only_off(enter))
                yield
    finally:
        hook.remove()
    assert {"Linear", "LayerNorm", "RMSNorm", "DecoderLayer", "GroupedCrossAttention"} <= modules


def _only_off(enter: Callable[[torch.autocast], Any]) -> Callable[[torch.autocast], Any]:
    def checked(self: torch.autocast) -> Any:
        assert not self._enabled, "inference turned autocast on"
        return enter(self)

    return checked
