"""What is computed from tables as an answer, by a model that knows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.session import SessionState
from drt_engine.answer.tables import table_answer
from drt_engine.retrieval.filters import Filters
from drt_engine.store import Store
from tests.model_folder import library, read_text, runtime

NAMES = ("Voss", "Lind", "Marek", "Osei", "Tanaka", "Ferrar", "Quist", "Boyle", "Adair")
CREW = "keeper,watch,founded\n" + "".join(
    f"{name},{hour:02}:30,{1900 + hour}\n" for hour, name in enumerate(NAMES)
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("tables")
    with library(folder / "library") as opened:
        read_text(opened, folder, name="crew.csv", text=CREW)
        yield opened


def test_rows_are_counted_and_compared_with_their_cells_as_citations(store: Store) -> None:
    options = AskOptions()
    counted = ask(runtime(), store, "How many keepers are listed?", options)
    assert (counted.text, len(counted.citations)) == (str(len(NAMES)), 5)
    assert [citation.quote for citation in counted.citations] == list(NAMES[:5])
    compared = ask(runtime(), store, "Which was founded later, Voss or Marek?", options)
    assert [citation.quote for citation in compared.citations] == ["Marek", "1902", "1900"]


@pytest.mark.thorough
def test_cells_and_fields_are_of_the_section_that_is_asked(tmp_path: Path) -> None:
    text = """---
author: Ann Lee
---

# North

| ship | captain | tonnage |
| --- | --- | --- |
| Aurora | Bob Ray | 120 |
| Borealis | Cy Dunn | 340 |

# South

| ship | captain | tonnage |
| --- | --- | --- |
| Corona | Ida Moe | 90 |
| Dagmar | Ole Ek | 80 |
"""
    question = "Which ship has the highest tonnage?"
    with library(tmp_path / "library") as opened:
        read_text(opened, tmp_path, name="ships.md", text=text)
        north, south = (
            ask(runtime(), opened, question, AskOptions(filters=Filters(section=section)))
            for section in ("North", "South")
        )
        assert (north.text, south.text) == ("Borealis", "Corona")
        assert all(citation.section == "South" for citation in south.citations)
        named = ask(runtime(), opened, "Who is the author?", AskOptions())
        south = ask(
            runtime(), opened, "Who is the author?", AskOptions(filters=Filters(section="South"))
        )
    assert named.text == "Ann Lee" and "Ann Lee" not in south.text


@pytest.mark.thorough
def test_a_document_too_long_to_be_compared_as_a_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(runtime(), store, "How many keepers are listed?", AskOptions()).origin == "table"
    monkeypatch.setattr(table_answer, "LONGEST_DOCUMENT", 10)  # of a part, some rows are missing
    assert ask(runtime(), store, "How many keepers are listed?", AskOptions()).origin == "reader"


@pytest.mark.thorough
def test_tables_that_disagree_are_no_answer(tmp_path: Path) -> None:
    text = "| boat | crew |\n| --- | --- |\n| Aurora | 12 |\n| Bella | 4 |\n"
    more = (
        "\nMore boats are below.\n\n| boat | crew | port | built | flag |\n"
        "| --- | --- | --- | --- | --- |\n| Corona | 3 | Orm | 1909 | red |\n"
        "| Dagmar | 9 | Orm | 1911 | red |\n"
    )
    with library(tmp_path / "library") as opened:
        read_text(opened, tmp_path, name="boats.md", text=text)
        one = ask(runtime(), opened, "Which boat has the fewest crew?", AskOptions())
        read_text(opened, tmp_path, name="boats.md", text=text + more)
        two = ask(runtime(), opened, "Which boat has the fewest crew?", AskOptions())
    assert (one.text, one.origin) == ("Bella", "table")
    assert two.origin == "reader"


def test_the_reader_is_left_to_what_no_rows_explain(store: Store) -> None:
    for question in ("When was Voss founded?", "Which keeper was founded by the crown first?"):
        result = ask(runtime(), store, question, AskOptions(threshold=0.0))
        assert result.origin == "reader"


def test_cells_between_spaces_are_compared(tmp_path: Path) -> None:
    rows = "".join(f"{name:<9}{hour:02}:30  {1900 + hour}\n" for hour, name in enumerate(NAMES))
    with library(tmp_path / "library") as aligned:
        read_text(aligned, tmp_path, name="crew.txt", text="keeper   watch  founded\n" + rows)
        result = ask(runtime(), aligned, "Which keeper was founded last?", AskOptions())
    assert (result.text, result.origin) == ("Adair", "table")


def test_a_folder_without_tables_is_never_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_answer, "table_rows", None)  # which calling would fail
    with library(tmp_path / "library") as plain:
        read_text(plain, tmp_path, name="a.txt", text="The keeper of the watch was founded.")
        ask(runtime(), plain, "How many keepers are there?", AskOptions())


def test_a_conversation_keeps_what_was_looked_up(store: Store) -> None:
    session = SessionState.new(runtime(), store, "keepers")
    answer = ask(runtime(), store, "How many keepers are listed?", AskOptions(), session=session)
    assert (answer.origin, answer.quote_probability) == ("table", None)
    session.save()
    (turn,) = SessionState.restore(runtime(), store, "keepers").turns
    assert (turn["answer"], turn["quote_probability"]) == (answer.text, None)
