"""Who watches a question learns what it reads, before it is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.preview import watch_reading
from drt_engine.model import reader
from drt_engine.results import ReadingStep
from drt_engine.retrieval import library as retrieval
from drt_engine.runtime import Runtime
from tests.engine.answer.test_reading import CHANGES
from tests.model_folder import MANUAL, model_folder, read
from tests.model_folder import library as new_library

QUESTION = "How long is the notice period for a keeper?"


def test_the_best_sentence_comes_before_the_passages_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime.load(model_folder(**CHANGES), device="cpu", threads=1, dtype="fp32")
    order: list[object] = []
    reading = retrieval.read_passages
    monkeypatch.setattr(
        retrieval, "read_passages", lambda *a, **o: (order.append("read"), reading(*a, **o))[1]
    )
    with new_library(tmp_path / "library", runtime) as store:
        file = tmp_path / "manual.md"
        file.write_text(MANUAL, encoding="utf-8")
        row = read(store, file, runtime)
        with watch_reading(order.append):
            watched = ask(runtime, store, QUESTION, AskOptions())
        step, *rest = order
        assert isinstance(step, ReadingStep) and rest[0] == "read"
        assert step.passages > 1 and step.document == row.id and step.title == row.title
        assert step.text == store.text(row.id, step.start, step.end).strip() != ""
        # Nothing but the callback is different, and nothing is told outside the block.
        order.clear()
        assert ask(runtime, store, QUESTION, AskOptions()) == watched
        assert set(order) == {"read"}
        with watch_reading(order.append):
            ask(runtime, store, QUESTION, AskOptions(reread=False))
        assert set(order) == {"read"}


@pytest.mark.parametrize(
    ("until_sure", "pairs", "read_before"),
    [(True, 16, [0, 2, 4]), (True, 1, [0, 1, 2, 3, 4]), (False, 2, [0, 1, 3]), (False, 16, [0])],
)
def test_each_batch_of_passages_is_told_before_it_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    until_sure: bool,
    pairs: int,
    read_before: list[int],
) -> None:
    runtime = Runtime.load(model_folder(**CHANGES), device="cpu", threads=1, dtype="fp32")
    steps: list[ReadingStep] = []
    monkeypatch.setattr(reader, "_PAIRS", pairs)
    if until_sure:  # and never is
        monkeypatch.setattr(retrieval, "_enough", lambda *_: lambda _: False)
    with new_library(tmp_path / "library", runtime) as store:
        file = tmp_path / "manual.md"
        file.write_text(MANUAL, encoding="utf-8")
        row = read(store, file, runtime)
        with watch_reading(steps.append):
            ask(runtime, store, QUESTION, AskOptions(top_k=5))
    first, *others = steps[: len(read_before)]  # what comes then is the question read once more
    assert first.passages == 5 and first.document == row.id
    assert [first, *others] == [replace(first, read=number) for number in read_before]
    assert len(steps) % len(read_before) == 0
