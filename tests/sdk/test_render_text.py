"""Answers as text: what ``print(answer)`` shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drt import Assistant
from tests.sdk.fakes import FakeEngine


def test_an_answer_prints_as_on_a_terminal(tmp_path: Path, engine: FakeEngine) -> None:
    file = tmp_path / "a.txt"
    file.write_text("The keeper signs the log.")
    with Assistant(tmp_path / "library") as assistant:
        assistant.ingest(file)
        answer = assistant.ask("keeper?")
        none = assistant.ask("zebra?")
    shown = str(answer).split("\n")
    assert shown[0] == "The «keeper» signs the log."
    assert f"[1] a.txt, page 3, Part > Terms, {answer.citations[0].handle}" in shown
    assert shown[-1] == "probability that this is right: 50%"
    assert str(none).startswith("The document does not say.")
    looked_up = replace(answer, quote_probability=None)  # in a table: nothing calibrates it
    assert str(looked_up).split("\n\n") == str(answer).split("\n\n")[:-1]


@pytest.mark.parametrize(
    ("options", "hint"),
    [({"topk": 3}, "'topk'; did you mean 'top_k'?"), ({"x": 1}, "AskOptions lists the options")],
    ids=str,
)
def test_an_option_that_is_none_names_the_nearest(
    tmp_path: Path, engine: FakeEngine, options: dict[str, int], hint: str
) -> None:
    with (
        Assistant(tmp_path / "library") as assistant,
        pytest.raises(TypeError, match="there is no option") as error,
    ):
        assistant.ask("keeper?", **options)  # type: ignore[arg-type]
    assert hint in str(error.value) and not engine.asked
