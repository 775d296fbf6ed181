"""Questions for a release of a change log: by version, date or notes, the last and the first."""

from __future__ import annotations

import pytest

from drt_engine.answer.lists.release_questions import (
    has_versions,
    release_above,
    release_span,
    without_release,
)

NEWS = """\
# Pump news

## [2.1.0-rc.1] - 2024-03-09

- Needs valve 3.2 of 2023-01-05.

Pump 2.0
========

*Release date: 7 May 2023*

It replaces 1.9, which was released on 2020-01-01.

v1.10 (May 3, 2023)

2022-11-30, Version 1.9.1

1.9 is the one of 2022-11-29.
1.9 is old, since 2022-11-28

<a id="1.8"></a>

### 1.8: Feb 16, 2022
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When was 2.0 released?", "7 May 2023"),
        ("When did pump v1.10 come out?", "May 3, 2023"),
        ("release date of version 1.9.1", "2022-11-30"),
        ("When was 2.1.0-RC.1 published?", "2024-03-09"),
        ("date of 1.8", "Feb 16, 2022"),
        ("When was 1.9 released?", None),  # prose, not headings
        ("When was 3.2 released?", None),
        ("When was the valve of 2.0 replaced?", None),
        ("When was it released?", None),
        ("What is new in 2.0?", None),
        ("Which version was released on 30 November 2022?", "1.9.1"),
        ("Which release came out in February 2022?", "1.8"),
        ("Which release came out in May 2023?", None),  # two
        ("Which pump came out in February 2022?", None),
        ("What is the latest version?", "2.1.0-rc.1"),
        ("Which release was the first one?", "1.8"),
        ("Which valve is the latest?", None),
        ("Is 2.0 the latest version?", None),
    ],
)
def test_releases(question: str, expected: str | None) -> None:
    span = release_span(question, NEWS, {"pump", "news"})
    assert (span and NEWS[slice(*span)]) == expected


def test_the_last_one_is_that_of_the_whole_text() -> None:
    assert release_span("What is the latest version?", NEWS, whole=False) is None
    assert release_span("When was 2.0 released?", NEWS, whole=False) is not None


def test_one_heading_is_no_change_log() -> None:
    text = "# Pump 2.0 (2023-05-07)\n\nIt pumps.\n"
    assert release_span("When was 2.0 released?", text) is None


@pytest.mark.parametrize(
    ("headings", "expected"),
    [
        ("## Release v2.6.1\n{}\n## Release v2.6\n## Release v2.5\n", "2.6.1"),
        ("## [1.2.3]\n{}\n## [1.2.2]\n## [1.2.1]\n", "1.2.3"),
        ("## 1.2\n{}\n## 1.3\n", None),  # of sections
        ("## v1.2 pumps\n{}\n## v1.1 pumps\n", None),
    ],
)
def test_headings_without_a_date(headings: str, expected: str | None) -> None:
    text = headings.format("Needs a valve.")
    span = release_above("Needs", text, text.index("Needs"))
    assert (span and text[slice(*span)].removeprefix("v")) == expected
    assert release_span("When was 2.6.1 released?", text) is None


@pytest.mark.parametrize("line", ["1.2" * 60_000, "# 1.2 " + "a-" * 70, "#_" * 79 + "\n", "1.2\n"])
def test_headings_without_dates_take_no_time(line: str) -> None:
    assert release_span("When was 1.2 released?", line * (200_000 // len(line) + 1)) is None


@pytest.mark.parametrize(
    ("question", "rest"),
    [
        ("In which version was the valve added?", "was the valve added?"),
        ("Since what release does it pump?", "does it pump?"),
        ("Which release added the valve?", "What added the valve?"),
        ("What version fixed it?", "What fixed it?"),
        ("Which version is this?", None),
        ("What version of the valve is needed?", None),
        ("Which version came out in May?", None),
        ("In which year was it added?", None),
        ("When was the valve replaced?", "was the valve replaced?"),
        ("When was the valve built?", None),
    ],
)
def test_the_rest_of_a_question_for_the_release(question: str, rest: str | None) -> None:
    assert without_release(question) == rest


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        ("Needs valve", "2.1.0-rc.1"),
        ("It replaces", "2.0"),
        ("1.9,", None),  # which is one itself
        ("# Pump news", None),  # above all headings
    ],
)
def test_the_version_in_whose_notes_a_quote_stands(quote: str, expected: str | None) -> None:
    span = release_above(quote, NEWS, NEWS.index(quote))
    assert (span and NEWS[slice(*span)]) == expected


@pytest.mark.parametrize(
    ("question", "has"),
    [("Which release added valve 3.2?", True), ("valve 2.3 or 3.2?", False), ("a valve?", True)],
)
def test_the_versions_that_a_question_names(question: str, has: bool) -> None:
    assert has_versions(question, "Adds valve v3.2, 13.2 and 2.3.1") is has


def test_within_undated_releases_none_is_the_first_one() -> None:
    text = "# 1.2.2 (2024-03-09)\n\n# 1.2.1 (2024-01-09)\n\n# 1.2.0\n"
    assert release_span("What is the first version?", text) is None
    span = release_span("What is the latest version?", text)
    assert span and text[slice(*span)] == "1.2.2"


def test_the_date_of_the_release_in_whose_notes_a_quote_stands() -> None:
    span = release_above("Needs", NEWS, NEWS.index("Needs"), date=True)
    assert span and NEWS[slice(*span)] == "2024-03-09"
    undated = "## v1.1\n\n## v1.0\n\nNeeds a valve.\n"
    assert release_above("Needs", undated, undated.index("Needs"), date=True) is None
