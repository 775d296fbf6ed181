"""When an answer counts as found, as likely or as none, by a model that knows nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.model.calibration import Calibration, QuoteCalibration, logistic
from drt_engine.store import Store
from tests.engine.answer.asking import ANY, QUESTION, QUESTIONS, assert_exact
from tests.model_folder import LETTERS, library, read
from tests.model_folder import quoting as runtime


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


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("shift", "quote_shift", "state"),
    [(3.0, 3.0, "answer"), (3.0, -3.0, "likely"), (-3.0, -3.0, "none"), (-3.0, 3.0, "answer")],
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


@pytest.mark.thorough
@pytest.mark.few(1)
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


@pytest.mark.thorough
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
