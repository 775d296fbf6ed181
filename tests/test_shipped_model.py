"""The model in the package: it is whole, small enough, and answers a long document as promised."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drt import Answer, Assistant
from tests.sampling import sampled

WEIGHTS = Path(__file__).parents[1] / "engine/drt_engine/weights/drt-small-en"


@pytest.fixture(
    scope="module",
    params=["handbook_library", pytest.param("whole_handbook_library", marks=pytest.mark.slow)],
    ids=["parts", "whole"],
)
def assistant(request: pytest.FixtureRequest) -> Iterator[Assistant]:
    with Assistant(request.getfixturevalue(request.param)) as assistant:
        yield assistant


def test_the_folder_is_whole_and_small() -> None:
    names = {file.name for file in WEIGHTS.iterdir()}
    assert names == {
        "MODEL_CARD.md",
        "calibration.json",
        "config.json",
        "decoder",
        "model.safetensors",
        "packed.safetensors",
        "tokenizer.json",
    }
    decoder = list((WEIGHTS / "decoder").iterdir())
    assert {file.name for file in decoder} == {
        "MODEL_CARD.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert all(file.stat().st_size < 100e6 for file in (*WEIGHTS.iterdir(), *decoder))


@pytest.mark.parametrize(
    ("question", "wanted"),
    sampled(
        [
            ("How much notice must a member give after the ship has sailed?", "sixty days"),
            ("How many occupied burrows of the ash petrel were there?", "4,316"),
            ("How much is the wintering allowance?", "2,800 crowns"),
        ],
        {1},
        unpack=True,
    ),
)
def test_it_answers_with_an_exact_quote(assistant: Assistant, question: str, wanted: str) -> None:
    (document,) = assistant.library.documents()
    text = Path(document.source).read_text(encoding="utf-8")
    answer: Answer = assistant.ask(question)
    assert answer.found and wanted in answer.text
    for citation in answer.citations:
        assert text[citation.start : citation.end] == citation.quote


@pytest.mark.slow
def test_words_of_a_heading_may_answer(assistant: Assistant) -> None:
    answer = assistant.ask("Who wrote to the manager of the Lissom Biscuit Works?")
    assert answer.found and "Finch" in answer.text


@pytest.mark.thorough
def test_it_says_when_the_document_does_not_know(assistant: Assistant) -> None:
    answer = assistant.ask("What is the password of the wireless network?")
    assert answer.state == "none" and answer.text == "" and 1 <= len(answer.citations) <= 2


@pytest.mark.thorough
def test_a_cell_of_a_table_is_the_answer(tmp_path: Path) -> None:
    table = tmp_path / "ships.csv"
    table.write_text(
        "ship,home port,fatalities_85_99\nPetrel,Oban,3\nGannet,Bergen,12\nSkua,Jura,0\n"
    )
    with Assistant(tmp_path / "library") as assistant:
        document = assistant.ingest(table)
        for question, cell in (
            ("What is the home port of the Gannet?", "Bergen"),
            ("Which ship has the most fatalities?", "Gannet"),
        ):
            answer = assistant.ask(question, documents=document)
            assert answer.text == cell and answer.citations[0].quote == cell
            assert "probability" not in str(answer)  # nothing calibrates what was looked up
