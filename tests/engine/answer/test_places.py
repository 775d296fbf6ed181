"""Every place that answers: exact, apart from each other, best first, the same answers together."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drt_engine.answer import places
from drt_engine.answer.ask import ask
from drt_engine.answer.documents import documents_to_ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.places import _grouped, _Place, ask_all
from drt_engine.answer.quote import QuoteSpan
from drt_engine.errors import ConfigError, QuestionError
from drt_engine.model.calibration import Calibration
from drt_engine.retrieval.filters import Filters
from drt_engine.store import Store
from tests.engine.answer.test_reading import reading_runtime, store

__all__ = ["store"]  # a fixture
QUESTION = "How long is the notice period for a keeper?"


def test_places_are_slices_and_come_best_first(store: Store) -> None:
    result = ask_all(reading_runtime(), store, QUESTION, AskOptions(threshold=0.0))
    assert result.groups and 1 < result.passages_read <= 32 and result.tokens_read > 0
    confidences = [group.confidence for group in result.groups]
    assert confidences == sorted(confidences, reverse=True)
    citations = [citation for group in result.groups for citation in group.citations]
    for number, citation in enumerate(citations):
        assert store.text(citation.document, citation.start, citation.end) == citation.quote
        for other in citations[:number]:
            apart = citation.end <= other.start or other.end <= citation.start
            assert apart or citation.document != other.document


@pytest.mark.thorough
def test_the_threshold_and_filters_cut(store: Store) -> None:
    every = ask_all(reading_runtime(), store, QUESTION, AskOptions(threshold=0.0))
    limit = every.groups[0].confidence
    best = ask_all(reading_runtime(), store, QUESTION, AskOptions(threshold=limit))
    assert {group.confidence for group in best.groups} == {limit}
    filters = AskOptions(threshold=0.0, filters=Filters(section="Fog"), top_k=2)
    fog = ask_all(reading_runtime(), store, QUESTION, filters)
    sections = {citation.section for group in fog.groups for citation in group.citations}
    assert sections == {"Lighthouse manual > Fog"} and fog.passages_read <= 2


def test_it_needs_quotes_and_words(store: Store) -> None:
    with pytest.raises(ConfigError, match="expected mode 'quote'"):
        ask_all(reading_runtime(), store, QUESTION, AskOptions(mode="free"))
    with pytest.raises(QuestionError, match="no words"):
        ask_all(reading_runtime(), store, "?", AskOptions())


@pytest.mark.thorough
def test_without_a_reader_pass_the_best_quotes_are_the_places(store: Store) -> None:
    options = AskOptions(threshold=0.0, reread=False)
    result = ask_all(reading_runtime(), store, QUESTION, options)
    single = ask(reading_runtime(), store, QUESTION, AskOptions(**{**vars(options), "top_k": 32}))
    assert result.groups[0].citations[0].quote in single.citations[0].sentence


def test_the_same_words_are_one_answer(store: Store) -> None:
    row = store.document("manual.md")
    text = store.text(row.id, 0, row.characters)
    first, second = text.index("the bell rings"), text.index("the bell is")
    shown = [
        (first + 4, 0.6, 4),
        (second, 0.9, 8),
        (second + 4, 0.7, 4),
        (text.index("gun"), 1, 3),
    ]
    found = [
        _Place(
            QuoteSpan(
                row.id, start, start + size, 1.0, cast(Any, SimpleNamespace(probability=0.5))
            ),
            p,
        )
        for start, p, size in shown
    ]
    groups = _grouped(store, documents_to_ask(store, None), found)
    assert [(group.text, group.confidence) for group in groups] == [("gun", 1), ("the bell", 0.9)]
    # One place twice counts once, and articles make no difference.
    assert [citation.quote for citation in groups[1].citations] == ["the bell", "bell"]


@pytest.mark.thorough
def test_a_calibrated_model_shows_sure_places_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sure, unsure = _Place(cast(Any, "sure"), 0.9), _Place(cast(Any, "unsure"), 0.89)
    monkeypatch.setattr(places, "_places", lambda *_: [sure, unsure])
    monkeypatch.setattr(places, "_grouped", lambda _view, _documents, shown: tuple(shown))

    def shown(threshold: float | None = None, **calibration: Calibration) -> tuple[object, ...]:
        runtime = replace(reading_runtime(), calibration=calibration)
        return ask_all(runtime, store, QUESTION, AskOptions(threshold=threshold)).groups

    assert shown(reread=Calibration(threshold=0.35)) == (sure,)
    assert shown(0.5, reread=Calibration(threshold=0.35)) == (sure, unsure)
    assert shown() == (sure, unsure)  # nothing says what a confidence is worth
