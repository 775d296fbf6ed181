"""A full trace: its numbers are those that the model used, and recording them changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.result import AnswerResult
from drt_engine.generate.prompt_run import open_prompt
from drt_engine.model.gca_layer import GroupedCrossAttention, Retrieved
from drt_engine.results import Trace
from drt_engine.retrieval.candidates import bm25_matches, lexical_scores
from drt_engine.retrieval.filters import Scope
from drt_engine.retrieval.library import SearchOptions
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_engine.trace.record import CANDIDATES
from drt_engine.trace.tape import attention
from drt_engine.trace.text import most_attended, trace_text
from tests.model_folder import LETTERS, MANUAL, library, quoting, read, read_text, runtime

AnswerMode = Literal["quote", "free"]
QUESTION = "How long is the notice period for a keeper?"
FULL = AskOptions(threshold=0.0, record=True)


def two_groups() -> Runtime:
    return runtime(groups=2, upper_layers=4)


@pytest.fixture(scope="module", params=["quote", "free"])
def mode(request: pytest.FixtureRequest) -> AnswerMode:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def model(mode: AnswerMode) -> Runtime:
    """A model of one group, and for the other mode one of two."""
    return runtime() if mode == "quote" else two_groups()


@pytest.fixture(scope="module")
def store(model: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("trace")
    with library(folder / "library", model) as opened:
        for name, text in (("manual.md", MANUAL), ("letters.txt", LETTERS)):
            path = folder / name
            path.write_text(text, encoding="utf-8")
            read(opened, path, model)
        yield opened


@pytest.fixture(scope="module")
def answer(mode: AnswerMode, model: Runtime, store: Store) -> AnswerResult:
    return ask(model, store, QUESTION, replace(FULL, mode=mode, max_tokens=30))


def rows(trace: Trace) -> Iterator[tuple[int, tuple[float, ...], int]]:
    """Group, masses and number of entries of every token's reading."""
    for token in trace.tokens:
        for group in trace.groups:
            if group.chunk == token.chunk:
                yield group.group, token.mass[group.group], len(group.entries)


@pytest.mark.few(1)
def test_recording_changes_nothing(
    mode: AnswerMode, model: Runtime, store: Store, answer: AnswerResult
) -> None:
    plain = ask(model, store, QUESTION, replace(FULL, mode=mode, max_tokens=30, record=False))
    assert replace(plain, trace=answer.trace) == answer
    first = plain.trace.groups[: model.config.groups]
    for without, full in zip(first, answer.trace.groups, strict=False):
        for one, other in zip(without.entries, full.entries, strict=True):
            assert (one.chunk, one.score, one.probability) == (
                other.chunk,
                other.score,
                other.probability,
            )
    assert plain.trace.tokens == () and plain.trace.documents == ()


@pytest.mark.few(1)
def test_nothing_listens_afterwards(model: Runtime, answer: AnswerResult) -> None:
    assert not any(module._forward_hooks for module in model.model.modules())


def test_scores_are_made_of_landmark_words_and_tokens(
    model: Runtime, store: Store, answer: AnswerResult
) -> None:
    weight = float(model.model.scorer.lexical.detach())
    part = model.config.lexical_neighbours
    words = lexical_scores(store, QUESTION, Scope(), neighbour_weight=part).spread
    for group in answer.trace.groups:
        assert group.entries
        for entry in group.entries:
            added = weight * words.get(entry.chunk, 0.0)
            assert entry.score == pytest.approx(entry.landmark + added + entry.late, abs=1e-4)
            assert entry.lexical == pytest.approx(added, abs=1e-4)
            assert entry.late
        scores = torch.tensor([entry.score for entry in group.entries])
        shares = [entry.probability for entry in group.entries]
        assert torch.softmax(scores, 0).tolist() == pytest.approx(shares, abs=1e-5)


def test_the_attention_adds_up_to_what_the_layer_gave(
    model: Runtime, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, added by the recorded weights and projected, are the layer's own output."""
    seen = 0
    inner = GroupedCrossAttention.forward

    def forward(
        self: GroupedCrossAttention, x: torch.Tensor, retrieved: Retrieved, **more: object
    ) -> torch.Tensor:
        nonlocal seen
        out = inner(self, x, retrieved, **more)  # type: ignore[arg-type]
        weights = attention(self, x, retrieved)
        values = retrieved.memory.values[retrieved.index[0, 0]]
        values = values.repeat_interleave(self.heads // values.shape[2], dim=2)
        attended = torch.einsum("thrs,rshd->thd", weights, values.float())
        assert torch.allclose(self.out(attended.flatten(-2)), out[0, 0], atol=1e-5)
        seen += 1
        return out

    monkeypatch.setattr(GroupedCrossAttention, "forward", forward)
    ask(model, store, QUESTION, AskOptions(threshold=0.0))
    assert seen >= model.config.upper_layers


def test_a_tokens_mass_is_at_most_each_probability(answer: AnswerResult) -> None:
    trace = answer.trace
    assert trace.tokens
    for group, mass, entries in rows(trace):
        assert len(mass) == entries and 0 <= sum(mass) <= 1 + 1e-5
        shares = next(g for g in trace.groups if g.group == group).entries
        if trace.tokens[0].chunk == 0:
            assert all(m >= 0 for m in mass) and len(shares) == entries
    for token in trace.tokens:
        for group in trace.groups:
            if group.chunk == token.chunk:
                pairs = zip(token.mass[group.group], group.entries, strict=True)
                assert all(mass <= entry.probability + 1e-5 for mass, entry in pairs)


def test_an_entrys_mass_is_the_mean_of_its_readers(answer: AnswerResult) -> None:
    for group in answer.trace.groups:
        readers = [t.mass[group.group] for t in answer.trace.tokens if t.chunk == group.chunk]
        for number, entry in enumerate(group.entries):
            if readers:
                mean = sum(mass[number] for mass in readers) / len(readers)
                assert entry.mass == pytest.approx(mean)
            else:
                assert entry.mass is None


def test_tokens_are_question_mark_and_answer(answer: AnswerResult) -> None:
    parts = [token.part for token in answer.trace.tokens]
    texts = {
        part: "".join(t.text for t in answer.trace.tokens if t.part == part)
        for part in ("question", "answer")
    }
    assert parts.count("marker") == 1 and parts == sorted(
        parts, key=("question", "marker", "answer").index
    )
    assert texts["question"] == QUESTION
    if answer.mode == "quote":
        assert texts["answer"] == answer.text
    chunks = [token.chunk for token in answer.trace.tokens]
    assert chunks == sorted(chunks) and chunks[0] == 0
    assert max(chunks) > 0  # the tiny model's chunks are short: the answer is in several


def test_the_pointer_is_the_quote_heads(answer: AnswerResult, model: Runtime) -> None:
    for group in answer.trace.groups:
        pointed = group.chunk == 0 and group.group == model.config.groups - 1
        shares = [entry.pointer for entry in group.entries]
        if pointed:
            assert all(share is not None and 0 <= share <= 1 for share in shares)
            assert 0 < sum(share or 0 for share in shares) <= 1 + 1e-5
        else:
            assert set(shares) == {None}


def test_a_passage_has_the_text_of_all_its_tokens(model: Runtime, store: Store) -> None:
    with model.computing():
        passages = open_prompt(model, store, QUESTION, SearchOptions()).passages
    assert passages
    for passage in passages:
        real = passage.token_numbers >= 0
        first, last = int(passage.starts[real].min()), int(passage.ends[real].max())
        end = passage.text_start + len(passage.text)
        assert passage.text_start <= first < last <= end
        assert passage.text == store.text(passage.row.document_id, passage.text_start, end)


def test_candidates_are_the_best_of_each_kind(
    model: Runtime, store: Store, answer: AnswerResult
) -> None:
    words = sorted(bm25_matches(store, QUESTION, Scope()).values(), reverse=True)[:CANDIDATES]
    for group in answer.trace.groups:
        assert [one.score for one in group.by_words] == words
        scores = [one.score for one in group.by_landmark]
        assert scores == sorted(scores, reverse=True)
        assert len(scores) == min(CANDIDATES, len(store.chunk_ids()))
        taken = {entry.chunk: entry.landmark for entry in group.entries}
        for one in group.by_landmark:
            assert one.retrieved == (one.chunk in taken)
            if one.retrieved:
                assert one.score == taken[one.chunk]


def test_the_map_holds_every_chunk(store: Store, answer: AnswerResult) -> None:
    named = {entry.document for group in answer.trace.groups for entry in group.entries}
    assert {one.id for one in answer.trace.documents} == named
    for one in answer.trace.documents:
        row = store.document(one.id)
        assert (one.title, one.characters) == (row.title, row.characters)
        assert len(one.heat) == min(240, row.chunks)


@pytest.mark.few(1)
def test_what_is_not_found_has_a_trace_without_an_answer(mode: AnswerMode, store: Store) -> None:
    model = quoting() if mode == "quote" else quoting(groups=2, upper_layers=4)
    result = ask(model, store, QUESTION, AskOptions(threshold=1.0, record=True))
    assert not result.found
    assert {token.part for token in result.trace.tokens} == {"question", "marker"}


def test_the_text_says_what_each_token_most_attended(answer: AnswerResult) -> None:
    text = trace_text(answer.trace)
    token = answer.trace.tokens[0]
    assert f"{token.text.strip()}[{most_attended(token) + 1}]" in text
    assert "answer chunk 1, group 1:" in text and "attention" in text


@pytest.mark.thorough
def test_two_answers_at_once_do_not_mix(mode: AnswerMode, model: Runtime, store: Store) -> None:
    from drt_engine.answer.ask import stream

    options = replace(FULL, mode=mode, max_tokens=12)
    alone = ask(model, store, QUESTION, options)
    first = stream(model, store, QUESTION, options)
    second = stream(model, store, "Who teaches at the school in Bergen", options)
    result = None
    for _ in range(40):
        step = next(first, None)
        if isinstance(step, AnswerResult):
            result = step
        next(second, None)
    assert result is not None and result.trace.tokens == alone.trace.tokens


def test_a_library_of_one_short_document(tmp_path: Path) -> None:
    with library(tmp_path / "library") as opened:
        read_text(opened, tmp_path, name="a.txt", text="The keeper signs the log.")
        trace = ask(runtime(), opened, "Who signs?", FULL).trace
        assert len(trace.groups[0].entries) == 1 and trace.documents[0].heat
