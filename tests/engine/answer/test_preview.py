"""Who watches a question learns what it reads, before it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.preview import watch_reading
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
        retrieval, "read_passages", lambda *a: (order.append("read"), reading(*a))[1]
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
