"""The footnote of a quote, where a question asks what the note says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drt_engine.answer.citations import cite
from drt_engine.answer.documents import documents_to_ask
from drt_engine.answer.footnotes import note_mark, note_span, with_footnote
from drt_engine.answer.result import Draft
from drt_engine.store import Store
from tests.model_folder import library, read_text

REPORT = """\
Few large projects succeed.[1] Most are late.[^rain] The bridge is old\u00b9 and small.

Nothing is said about cranes [9], and links[4] lead elsewhere.

[1] Those worth 6M or more,
in two countries.
[2] Of all the money, half.
[^rain]: It rained a lot,
    for days.

\u00b9 Built under a queen.
[4]: https://example.org/cranes-and-more
"""
ITEMS = (
    "Opened in 1887.[2] It is long.\n\nLate.[*]\n\n1. A mayor.\n2. In the rain.\n\n* By two days.\n"
)


@pytest.mark.parametrize(
    ("begin", "length", "mark"),
    [
        ("Few", 5, "1"),  # behind the quote, in its sentence
        ("Few", 60, "1"),
        ("Most", 4, "^rain"),
        ("The bridge", 10, "\u00b9"),
        ("lead", 4, None),  # the marks below begin notes
        ("[2] Of all", 10, None),
    ],
)
def test_the_mark_of_a_quote(begin: str, length: int, mark: str | None) -> None:
    assert note_mark(REPORT[REPORT.index(begin) :], length) == mark


@pytest.mark.parametrize(
    ("text", "mark", "note"),
    [
        (REPORT, "1", "Those worth 6M or more,\nin two countries."),
        (REPORT, "2", "Of all the money, half."),
        (REPORT, "^rain", "It rained a lot,\n    for days."),
        (REPORT, "\u00b9", "Built under a queen."),
        (REPORT, "4", None),  # an address is where a link leads, no note
        (REPORT, "9", None),
        (ITEMS, "2", "In the rain."),
        (ITEMS, "*", "By two days."),
        ("End.[1]\n\n[Footnote 1: As of [old] books.]\n", "1", "As of [old] books."),
        ("End. [#a]_\n\n.. [#a] As of books.\n.. [#b] No.\n", "#a", "As of books."),
    ],
)
def test_the_note_of_a_mark(text: str, mark: str, note: str | None) -> None:
    span = note_span(text, mark)
    assert (span and text[slice(*span)]) == note


@pytest.mark.parametrize("line", ["[1" * 40_000, "\u00b9" * 40_000, "\n1" * 40_000, "[^" * 40_000])
def test_marks_without_notes_take_no_time(line: str) -> None:
    note_mark(line, 10)
    assert note_span(line, "1") is None


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("notes")
    with library(folder / "library") as opened:
        read_text(opened, folder, name="report.md", text=REPORT)
        yield opened


@pytest.mark.parametrize(
    ("question", "found", "quotes"),
    [
        ("What does the footnote on large projects say?", True, ["Those worth", "Few large"]),
        ("Which projects does the note mean?", False, ["Those worth", "Few large"]),
        ("Do large projects succeed?", True, ["Few large"]),
        ("Who notes that few projects succeed?", True, ["Few large"]),
    ],
)
def test_the_note_is_the_answer_where_it_is_asked_for(
    store: Store, question: str, found: bool, quotes: list[str]
) -> None:
    row = store.document("report.md")
    documents = documents_to_ask(store, None)
    citation = cite(store, row, 0, len("Few large projects succeed."), 0.9)
    text = citation.quote if found else ""
    draft = with_footnote(store, documents, question, Draft(text, found, 0.5, (citation,)))
    assert [c.quote.startswith(q) for c, q in zip(draft.citations, quotes, strict=True)]
    assert draft.text == (draft.citations[0].quote if found else "")
    assert all(REPORT[c.start : c.end] == c.quote for c in draft.citations)


def test_a_note_is_its_own_answer(store: Store) -> None:
    row = store.document("report.md")
    start = REPORT.index("[1] Those")
    draft = Draft("", False, 0.5, (cite(store, row, start, start + 20, 0.9),))
    question = "What does the footnote say?"
    assert with_footnote(store, documents_to_ask(store, None), question, draft) == draft
