"""Filters: what they leave of a library, what they say where it is nothing, and what is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.errors import ConfigError, NotFound
from drt_engine.retrieval.candidates import RetrieverName
from drt_engine.retrieval.filters import Filters, Scope, resolve_scope, section_matches
from drt_engine.search.search import SearchRequest, search
from drt_engine.store import Store
from tests.model_folder import LETTERS, MANUAL, library, read_text, runtime
from tests.tables import each_row

REPORT = "---\ndate: 2020-03-02\n---\n\n# Report\n\nThe harbour closes at eight.\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("filters")
    with library(folder / "library") as opened:
        manual = read_text(opened, folder, name="manual.md", text=MANUAL)
        letters = read_text(opened, folder, name="letters.txt", text=LETTERS)
        report = read_text(opened, folder, name="report.md", text=REPORT)
        opened.change_tags(manual.id, add=["sea", "work"])
        opened.change_tags(letters.id, add=["home"])
        opened.change_tags(report.id, add=["sea"])
        yield opened


def left(store: Store, **filters: object) -> list[str]:
    """The titles of the documents that are left."""
    scope = resolve_scope(store, None, Filters(**filters))  # type: ignore[arg-type]
    rows = store.documents_by_id(scope.document_ids or ())
    return [row.source.rpartition("/")[2] for row in rows]


@each_row(
    ("filters", "names"),
    [
        ({"types": ("markdown",)}, ["manual.md", "report.md"]),
        ({"types": (".TXT",)}, ["letters.txt"]),
        ({"types": ("text", "markdown")}, ["manual.md", "letters.txt", "report.md"]),
        ({"tags": ("sea",)}, ["manual.md", "report.md"]),
        ({"tags": ("sea", "work")}, ["manual.md"]),
        ({"since": "2020-03-03"}, ["manual.md", "letters.txt"]),
        ({"since": "2020-03-02"}, ["manual.md", "letters.txt", "report.md"]),
        ({"since": "2020"}, ["manual.md", "letters.txt", "report.md"]),
        ({"since": "2020-04", "tags": ("sea",)}, ["manual.md"]),
        ({"section": "leave"}, ["manual.md"]),
        ({"section": "LIGHTHOUSE  manual"}, ["manual.md"]),
        ({"section": "re"}, ["report.md"]),
    ],
)
def test_what_filters_leave(store: Store, filters: dict[str, object], names: list[str]) -> None:
    assert left(store, **filters) == names


@each_row(
    ("filters", "sentence"),
    [
        (
            {"types": ("pdf",)},
            "no document is of type 'pdf': there is 'markdown' (2), 'text' (1)",
        ),
        ({"types": ("piano",)}, "no format is called 'piano': there is"),
        (
            {"tags": ("work", "home")},
            "no document has the tag 'home': there is 'sea' (1), 'work' (1)",
        ),
        ({"tags": ("port",)}, "there is 'sea' (2), 'work' (1), 'home' (1)"),
        ({"since": "2999"}, "no document is of 2999-01-01 or later: the newest is '"),
        (
            {"since": "2021", "types": ("md",), "tags": ("sea",), "section": "Report"},
            "no section 'Report' in these documents: there is 'Lighthouse manual', 'Fog', 'Leave'",
        ),
        ({"section": "fogg"}, "did you mean 'Fog'?"),
        ({"pages": (2, 3)}, "nothing is on pages 2 to 3 of these documents: they have no pages"),
        ({"pages": (2, 3), "section": "fog"}, "nothing of section 'fog' is on pages 2 to 3"),
    ],
)
def test_where_nothing_is_left_a_sentence_says_what_there_is(
    store: Store, filters: dict[str, object], sentence: str
) -> None:
    with pytest.raises(NotFound) as raised:
        left(store, **filters)
    assert sentence in str(raised.value)


@each_row(
    "wrong",
    [
        {"section": " "},
        {"pages": (0, 2)},
        {"pages": (3, 2)},
        {"since": "2020-13"},
        {"since": "2021-02-29"},
    ],
)
def test_filters_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        Filters(**wrong)  # type: ignore[arg-type]


def test_no_filter_restricts_nothing(store: Store) -> None:
    assert resolve_scope(store, None, Filters()) == Scope()
    assert resolve_scope(store, ["x"], Filters()) == Scope(("x",))


def test_a_section_has_a_part_that_begins_with_the_name() -> None:
    assert section_matches("Part 4 > 4.6 Wildlife", "4.6")
    assert section_matches("Part 4 > 4.6 Wildlife", "part 4  > 4.6 wildlife")
    assert not section_matches("Part 4 > 4.6 Wildlife", "wildlife")
    assert not section_matches(None, "x")


@each_row("retriever", ["hybrid", "landmark", "lexical"])
def test_only_the_section_is_searched_and_asked(store: Store, retriever: RetrieverName) -> None:
    filters = Filters(section="Leave")
    (document,) = (row for row in store.documents() if row.title == "Lighthouse manual")
    first = store.text(document.id, 0, document.characters).index("The notice")
    query = "the keeper of the boat"
    request = SearchRequest(retriever=retriever, filters=filters)
    hits = search(runtime(), store, query, request)
    assert hits and all(hit.document == document.id and hit.start >= first - 12 for hit in hits)
    assert {hit.section for hit in hits} == {"Lighthouse manual > Leave"}
    options = AskOptions(retriever=retriever, filters=filters, threshold=0.0)
    answer = ask(runtime(), store, query, options)
    assert answer.citations
    assert {c.section for c in answer.citations} == {"Lighthouse manual > Leave"}
    assert all(entry.start + len(entry.text) > first for entry in answer.trace.groups[0].entries)


def test_tags_restrict_what_is_asked(store: Store) -> None:
    answer = ask(
        runtime(), store, "Where is the school?", AskOptions(filters=Filters(tags=("home",)))
    )
    assert {citation.title for citation in answer.citations} == {"letters.txt"}


@pytest.mark.thorough
def test_pages_restrict_a_document_with_pages(tmp_path: Path) -> None:
    from tests.engine.documents.helpers import make_pdf
    from tests.model_folder import read

    file = tmp_path / "pages.pdf"
    file.write_bytes(make_pdf([["The lamp burns oil."], ["The bell rings in fog."], ["The end."]]))
    with library(tmp_path / "library") as opened:
        read(opened, file)
        request = SearchRequest(retriever="lexical", filters=Filters(pages=(2, 3)))
        assert [hit.page for hit in search(None, opened, "bell lamp", request)] == [2]
        with pytest.raises(NotFound, match="they have pages 1 to 3"):
            resolve_scope(opened, None, Filters(pages=(7, 9)))
