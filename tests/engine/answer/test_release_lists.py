"""Lists of releases: dates, changes and versions."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from drt_engine.answer.citations import cite
from drt_engine.answer.documents import documents_to_ask
from drt_engine.answer.lists.list_answer import KEY_PRECISION, with_release
from drt_engine.answer.lists.release_answer import with_release_of_notes
from drt_engine.answer.lists.release_lists import (
    is_of_other_release,
    release_field,
    release_of,
    releases,
)
from drt_engine.answer.result import Draft
from tests.model_folder import library, read_text

NEWS = """\
# Changes of lantern

## [2.1.0] - 2024-03-05

- Burns whale oil.
- Needs Python 3.11.

lantern 2.0 (2023-01-02)
------------------------

* A glass.

1.9.1  6 Apr 2022  Trim the wick
                   by hand

Version 1.9

First one. Since 1.8 was lost, see 1.7.
"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When was version 2.1.0 released?", "2024-03-05"),
        ("When did lantern 1.9.1 come out?", "6 Apr 2022"),
        ("What changed in version 2.0?", "* A glass."),
        ("What is new in lantern 2.1.0?", "- Burns whale oil.\n- Needs Python 3.11."),
        ("What was fixed in 1.9.1?", "Trim the wick\n                   by hand"),
        ("Which changes came with the release of 2023-01-02?", "* A glass."),
        ("What was released on 2023-01-02?", "2.0"),
        ("Which version of lantern came out on 2024-03-05?", "2.1.0"),
        ("When was version 1.9 released?", None),
        ("When was version 3.0 released?", None),
        ("When was the glass added in 2.0?", None),
        ("What changed in 2.1.0 about Python?", None),
        ("What changed between 2.0 and 2.1.0?", None),
        ("What is lantern?", None),
    ],
)
def test_fields_of_a_release(question: str, answer: str | None) -> None:
    span = release_field(question, NEWS)
    assert (span and NEWS[slice(*span)]) == answer


@pytest.mark.parametrize(
    ("question", "quote", "answer"),
    [
        ("Which version burns whale oil?", "Burns whale oil.", "2.1.0"),
        ("In which release was a glass added?", "* A glass.", None),
        ("In which release is there a glass?", "* A glass.", None),
        ("Since which version can you trim the wick?", "Trim the wick", "1.9.1"),
        ("Which version dropped support of Python 2?", "Needs Python 3.11.", None),
        ("What burns whale oil?", "Burns whale oil.", None),
        ("Which version has changes?", "# Changes of lantern", None),
    ],
)
def test_the_release_of_a_change(question: str, quote: str, answer: str | None) -> None:
    at = NEWS.index(quote)
    span = release_of(question, (at, at + len(quote)), NEWS)
    assert (span and NEWS[slice(*span)]) == answer


def test_a_likely_quote_with_all_words_is_of_the_release_above_it(tmp_path: Path) -> None:
    with library(tmp_path / "library") as opened:
        row = read_text(opened, tmp_path, name="news.txt", text=NEWS)
        with opened.snapshot() as view:
            at = NEWS.index("Burns whale oil")
            citation = cite(view, row, at, at + 5, 0.5)
            draft = Draft("", False, 0.1, (citation,), likely=True)
            documents = documents_to_ask(view, None)
            named = partial(with_release_of_notes, view, documents)
            surely = named("Which release burns whale oil?", draft)
            hardly = named("Which release burns lamp oil?", draft)
    assert surely is not None and (surely.text, surely.found) == ("2.1.0", True)
    assert hardly is not None and (hardly.text, hardly.found) == ("", False)


@pytest.mark.parametrize(
    ("question", "quote", "is_other"),
    [
        ("When was version 3.0 released?", "lantern 2.0 (2023-01-02)", True),
        ("What changed in 3.0?", "A glass.", True),
        ("When was version 2.0 released?", "lantern 2.0 (2023-01-02)", False),
        ("When was version 1.8 lost?", "Since 1.8 was lost", False),
        ("When was version 1.8 released?", "was lost", False),  # of a line that names it
        ("Which Python does 3.0 need?", "Needs Python 3.11.", False),
        ("When was it released?", "lantern 2.0 (2023-01-02)", False),
    ],
)
def test_a_quote_of_another_release(question: str, quote: str, is_other: bool) -> None:
    at = NEWS.index(quote)
    assert is_of_other_release(question, (at, at + len(quote)), NEWS) == is_other


def test_numbers_of_prose_are_no_releases() -> None:
    assert releases("In 1.2 it was\n\n1.3 is better\n\n1.4 is best\n\n1.5 m high\n") == []
    assert releases("1. One\n\n2. Two\n\n1.1\n\n1.2\n") == []


@pytest.mark.parametrize(
    "line", ["1.2 " + " " * 150 + "x", "a.a " * 49 + "1", "[" * 150, "1.1" * 60, "1.2" + "(" * 150]
)
def test_hostile_lines(line: str) -> None:
    started = time.process_time()
    releases(f"{line}\n" * 2_000)
    assert time.process_time() - started < 5


def test_a_release_is_the_answer_with_what_it_changed(tmp_path: Path) -> None:
    at = NEWS.index("- Burns")
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="news.md", text=NEWS)
        change = cite(store, store.document("news.md"), at, at + 18, 0.9)
        documents = documents_to_ask(store, None)
        draft = Draft("", False, 0.1, (change,))
        answer = with_release(store, documents, "Which version burns whale oil?", draft)
        assert (answer.text, answer.found, answer.quote_probability) == (
            "2.1.0",
            True,
            KEY_PRECISION,
        )
        assert [citation.quote for citation in answer.citations] == ["2.1.0", "- Burns whale oil."]
        sure = Draft(change.quote, True, 0.9, (change,))
        assert not with_release(store, documents, "What is new in 3.0?", sure).found
        assert with_release(store, documents, "What is new in 2.1.0?", sure) == sure
        for question in ("Which version burns all whale fat?", "What burns whale oil?"):
            assert with_release(store, documents, question, draft) == draft
