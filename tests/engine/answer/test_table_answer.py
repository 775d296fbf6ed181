"""Cells of tables as answers, by a model that knows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.tables import table_answer
from drt_engine.answer.tables.values import tables_of
from drt_engine.model.word_similarity import WordSimilarity
from drt_engine.retrieval.filters import Filters
from drt_engine.store import Store
from drt_engine.text.table_rows import table_rows
from tests.model_folder import library, read_text, runtime, text_of
from tests.sampling import sampled

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


@pytest.mark.thorough
@pytest.mark.parametrize("top_k", sampled([1, 8], {0}, thorough={1}))
def test_the_cell_is_cited_whichever_rows_were_retrieved(store: Store, top_k: int) -> None:
    document = store.document("crew.csv")
    for hour, name in enumerate(NAMES):
        result = ask(runtime(), store, f"When was {name} founded?", AskOptions(top_k=top_k))
        assert (result.text, result.found, result.origin) == (f"{1900 + hour}", True, "table")
        (citation,) = result.citations
        assert text_of(store, document)[citation.start : citation.end] == citation.quote
        assert name in citation.context


def test_rows_are_counted_and_compared_with_their_cells_as_citations(store: Store) -> None:
    options = AskOptions()
    counted = ask(runtime(), store, "How many keepers are listed?", options)
    assert (counted.text, len(counted.citations)) == (str(len(NAMES)), 5)
    assert [citation.quote for citation in counted.citations] == list(NAMES[:5])
    compared = ask(runtime(), store, "Which was founded later, Voss or Marek?", options)
    assert [citation.quote for citation in compared.citations] == ["Marek", "1902", "1900"]


def test_yes_and_no_are_cited_with_the_whole_row(store: Store, tmp_path: Path) -> None:
    rows = "tool,maker,in service\n" + "".join(
        f"{name},Works {number},{'yes' if number % 2 else 'no'}\n"
        for number, name in enumerate(("Lathe", "Saw", "Drill", "Press"))
    )
    with library(tmp_path / "library") as opened:
        document = read_text(opened, tmp_path, name="tools.csv", text=rows)
        answer = ask(runtime(), opened, "Is the drill in service?", AskOptions())
        text = text_of(opened, document)
    assert (answer.found, answer.verdict, answer.origin) == (True, "no", "table")
    (citation,) = answer.citations
    assert citation.quote == "tool: Drill | maker: Works 2 | in service: no"
    assert text[citation.span_start : citation.span_end] == "no"


@pytest.mark.thorough
def test_cells_and_fields_are_of_the_section_that_is_asked(tmp_path: Path) -> None:
    text = """Author: Ann Lee

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
    questions = {
        "Who is the captain of Aurora?": "Bob Ray",
        "Which ship has the highest tonnage?": "Borealis",
        "Is Cy Dunn the captain of Borealis?": "| Borealis | Cy Dunn | 340 |",
    }
    with library(tmp_path / "library") as opened:
        read_text(opened, tmp_path, name="ships.md", text=text)
        for question, expected in questions.items():
            north, south = (
                ask(runtime(), opened, question, AskOptions(filters=Filters(section=section)))
                for section in ("North", "South")
            )
            assert north.text == expected
            assert all(citation.section == "South" for citation in south.citations)
        named = ask(runtime(), opened, "Who is the author?", AskOptions())
        south = ask(
            runtime(), opened, "Who is the author?", AskOptions(filters=Filters(section="South"))
        )
    assert named.text == "Ann Lee" and "Ann Lee" not in south.text


@pytest.mark.thorough
def test_a_document_too_long_to_be_searched_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_answer, "LONGEST_DOCUMENT", 10)
    monkeypatch.setattr(table_answer, "MARGIN", 60)
    result = ask(runtime(), store, "When was Marek founded?", AskOptions(retriever="lexical"))
    assert (result.text, result.origin) == ("1902", "table")
    counted = ask(runtime(), store, "How many keepers are listed?", AskOptions())
    assert counted.origin == "reader"  # of a part, some rows are missing
    latest = ask(runtime(), store, "Which Marek was founded latest?", AskOptions())
    assert latest.origin == "reader"


BOATS = """\
| Name | Crew | Length (m) | Built |
| --- | --- | --- | --- |
| Aurora | 12 | 24 | 1931 |
| Bella | 4 | 11 | 1966 |
| Corona | 22 | 41 | 1909 |
"""
PORTS = """
Harbours of the coast are below.

| Port | Depth |
| --- | --- |
| Orm | 9 |
| Skag | 12 |
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which boat has the largest crew?", "Corona"),
        ("What is the longest boat?", "Corona"),
        ("How many boats were built before 1940?", "2"),
        ("Which two boats are the longest?", "Corona, Aurora"),
        ("What is the largest crew?", "22"),
        ("Which port has the largest depth?", "Skag"),
        ("Which quay has the largest depth?", None),  # what "Port" names is told
        ("Which fishing boat has the largest crew?", None),
        ("Which boat has the most sails?", None),
        ("Which boat is from Orm?", None),
    ],
)
def test_rows_with_just_a_name_are_whatever_a_question_calls_them(
    question: str, expected: str | None
) -> None:
    tables = tables_of(table_rows(BOATS + PORTS))
    contexts = [frozenset(("fleet",))] * len(tables)
    answer, cells = table_answer._answer(  # type: ignore[attr-defined]
        question, tables, lambda _, __: 0.0, contexts=contexts
    )
    assert (answer or next((cell.text for cell in cells), None)) == expected


def test_titles_are_works_and_no_people() -> None:
    films = "".join(
        f"Title: {film} | Score: {score}\n" for film, score in zip("ABC", "794", strict=True)
    )
    (table,) = tables_of(table_rows(films))
    assert table.may_hold("film") and table.may_hold("paper")
    assert not table.may_hold("actor") and not table.may_hold("directors")
    (table,) = tables_of(table_rows(films.replace("Title", "Name")))
    assert table.may_hold("actor")


def test_of_many_tables_the_heading_with_the_numbers_is_asked() -> None:
    tables = [object(), object()]
    contexts = [frozenset(("8", "players", "2", "courts")), frozenset(("9", "players", "2"))]
    of_heading = table_answer._of_heading  # type: ignore[attr-defined]
    assert of_heading("the schedule for 9 players on 2 courts", tables, contexts)[0] == tables[1:]
    for question in ("the schedule for 9 players", "7 players on 2 courts", "in 2001 and 2002", ""):
        assert of_heading(question, tables, contexts) == (tables, contexts)


def test_the_model_is_left_to_what_no_cell_answers(store: Store) -> None:
    for question in ("When was Unheard founded?", "Why was Voss founded by the crown?"):
        result = ask(runtime(), store, question, AskOptions(threshold=0.0))
        assert result.origin == "reader"


def test_words_are_alike_by_their_embeddings() -> None:
    model = runtime().model
    alike = WordSimilarity(model.embedding, lambda w: runtime().tokenizer.encode(w).ids)
    assert alike("harbour", "harbour") == pytest.approx(1.0)
    assert -1 <= alike("harbour", "winter") < 0.99
    assert alike("", "winter") == 0.0


def test_a_cell_between_spaces_is_cited(tmp_path: Path) -> None:
    rows = "".join(f"{name:<9}{hour:02}:30  {1900 + hour}\n" for hour, name in enumerate(NAMES))
    with library(tmp_path / "library") as aligned:
        read_text(aligned, tmp_path, name="crew.txt", text="keeper   watch  founded\n" + rows)
        result = ask(runtime(), aligned, "When was Marek founded?", AskOptions())
    assert (result.text, result.origin) == ("1902", "table")


def test_a_folder_without_tables_is_never_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_answer, "table_rows", None)  # which calling would fail
    with library(tmp_path / "library") as plain:
        read_text(plain, tmp_path, name="a.txt", text="The keeper of the watch was founded.")
        ask(runtime(), plain, "When was the keeper founded?", AskOptions())
