"""The reader pass stops before the last passage once it is sure, and then says nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.quote import best_quotes
from drt_engine.generate.prompt_run import open_prompt
from drt_engine.model.calibration import Calibration
from drt_engine.retrieval import reader_pass
from drt_engine.retrieval.library import SearchOptions
from drt_engine.retrieval.passages import Passage
from drt_engine.retrieval.reader_pass import PassageLogits, read_passages, read_until
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from tests.engine.answer.test_reading import reading_runtime
from tests.model_folder import LETTERS, MANUAL, library, read_text

QUESTION = "How long is the notice period for a keeper?"
IDS = [5, 6, 7]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("stop")
    with library(folder / "library", reading_runtime()) as opened:
        read_text(opened, folder, name="manual.md", text=MANUAL)
        read_text(opened, folder, name="letters.txt", text=LETTERS)
        yield opened


def runtime_that_stops_at(enough: float | None) -> Runtime:
    runtime = reading_runtime()
    return replace(runtime, calibration={"reread": Calibration(enough=enough)})


def passages_of(store: Store) -> tuple[Passage, ...]:
    with store.snapshot() as view:
        options = SearchOptions(top_k=6)
        return open_prompt(reading_runtime(), view, QUESTION, options).passages


def equal(one: PassageLogits, other: PassageLogits) -> bool:
    pairs = zip(vars(one).values(), vars(other).values(), strict=True)
    return all(a.shape == b.shape and torch.allclose(a, b, atol=1e-4) for a, b in pairs)


def test_reading_in_parts_is_reading_all(store: Store) -> None:
    passages, model = passages_of(store), reading_runtime().model
    whole, tokens = read_passages(model, IDS, passages)
    parts, tokens_in_parts = read_until(model, IDS, passages, [], lambda _: False)
    assert len(passages) > 4
    assert equal(parts, whole) and tokens_in_parts == tokens


def test_what_is_enough_ends_the_reading(store: Store) -> None:
    passages, model = passages_of(store), reading_runtime().model
    seen: list[int] = []

    def after_four(logits: PassageLogits) -> bool:
        seen.append(len(logits.null))
        return len(logits.null) == 4

    logits, tokens = read_until(model, IDS, passages, [], after_four)
    first_four, expected = read_passages(model, IDS, passages[:4])
    assert seen == [2, 4]
    assert equal(logits, first_four) and tokens == expected


def test_the_best_span_is_that_of_the_quotes(store: Store) -> None:
    """Of one passage; of several, quotes also join what goes on in the next."""
    for passage in passages_of(store):
        with torch.no_grad():
            logits, _ = read_passages(reading_runtime().model, IDS, [passage])
        prior = torch.tensor([-0.7])
        quotes = best_quotes(logits.quote_logits(prior, 0.5), [passage], longest=10_000)
        assert logits.best_span([passage], prior, 0.5) == pytest.approx(quotes.score, abs=1e-4)


def test_a_sure_answer_reads_less(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_pass, "_READ_AT_ONCE", (1,))  # two are retrieved
    options = AskOptions(threshold=0.0)
    whole = ask(runtime_that_stops_at(None), store, QUESTION, options)
    stopped = ask(runtime_that_stops_at(-100.0), store, QUESTION, options)
    assert stopped.tokens_read < whole.tokens_read
    assert stopped.citations and stopped.citations[0].quote in MANUAL + LETTERS
    unsure = ask(runtime_that_stops_at(100.0), store, QUESTION, options)
    assert unsure.text == whole.text and unsure.tokens_read == whole.tokens_read


def test_a_number_of_passages_is_read_whole(store: Store) -> None:
    options = AskOptions(threshold=0.0, top_k=5)
    stopped = ask(runtime_that_stops_at(-100.0), store, QUESTION, options)
    whole = ask(runtime_that_stops_at(None), store, QUESTION, options)
    assert (stopped.text, stopped.tokens_read) == (whole.text, whole.tokens_read)


def test_a_calibration_keeps_its_limit() -> None:
    assert Calibration.from_dict({"enough": 3.0}).enough == 3.0
    assert Calibration.from_dict({}).enough is None
