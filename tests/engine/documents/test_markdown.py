"""Markdown: verbatim text, headings as sections, titles."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drt_engine.documents.encodings import split_lines
from drt_engine.documents.readers.markdown import plain_heading
from tests.engine.documents.helpers import joined, read, section_at, sections
from tests.tables import each_row

HANDBOOK = """Before any heading.

# The *Expedition* #

Aims.

## Stores [list](stores.md)

```sh
# not a heading
```

### Food ###
Biscuit.

Rules
=====
One rule
of two lines.

Second
part
---
More.
"""


def test_headings_become_sections_and_the_text_stays(tmp_path: Path) -> None:
    document, blocks = read(tmp_path / "handbook.md", HANDBOOK)
    assert joined(blocks) == HANDBOOK
    assert (document.title, document.media_type) == ("The Expedition", "text/markdown")
    assert sections(blocks) == [
        (None, "Before any heading."),
        ("The Expedition", "# The *Expedition* #\n\nAims."),
        (
            "The Expedition > Stores list",
            "## Stores [list](stores.md)\n\n```sh\n# not a heading\n```",
        ),
        ("The Expedition > Stores list > Food", "### Food ###\nBiscuit."),
        ("Rules", "Rules\n=====\nOne rule\nof two lines."),
        ("Rules > Second part", "Second\npart\n---\nMore."),
    ]


@each_row(
    "text",
    [
        "~~~\n# no\n```\n# no\n~~~\n",
        "````\n```\n# no\n````\n",
        "    # indented code\n",
        "<!-- hidden\n# no\n-->\n",
        "#hashtag\n",
        "####### seven\n",
        "- item\n---\n",
        "> quoted\n===\n",
        "\n---\n",
        "a\nb\nc\nd\n---\n",
        "a | b\n--- | ---\n",
        "x" * 2000 + "\n===\n",
        "x" * 131_072 + "# the end of a long line\n",
    ],
)
def test_what_is_no_heading(tmp_path: Path, text: str) -> None:
    document, blocks = read(tmp_path / "a.md", text + "\nend\n")
    assert {block.section for block in blocks} == {None}
    assert document.title == "a.md"


@each_row("text", ["```\ncode\n```\n", "<!-- a -->\n", "<!--\n# no\n-->\n"])
def test_headings_after_literal_parts_count(tmp_path: Path, text: str) -> None:
    _, blocks = read(tmp_path / "a.md", text + "# Yes\nend\n")
    assert section_at(blocks, "end") == "Yes"


def test_front_matter_is_text_and_may_name_the_title(tmp_path: Path) -> None:
    text = '---\ntitle: "The: Book"\n# a comment\ntags: x\n---\n# First\nend\n'
    document, blocks = read(tmp_path / "a.md", text)
    assert (document.title, joined(blocks)) == ("The: Book", text)
    assert (section_at(blocks, "tags"), section_at(blocks, "end")) == (None, "First")


def test_a_rule_at_the_beginning_is_not_front_matter(tmp_path: Path) -> None:
    document, blocks = read(tmp_path / "a.md", "---\n\n# First\n\n---\nend\n")
    assert (document.title, section_at(blocks, "end")) == ("First", "First")


def test_the_last_line_needs_no_newline(tmp_path: Path) -> None:
    for text in ("# A\nlast", "# A", "A\n===", "one\ntwo"):
        assert joined(read(tmp_path / "a.md", text)[1]) == text


def test_plain_headings() -> None:
    assert plain_heading("The `drt` *big* **bold** __it__ snake_case_name") == (
        "The drt big bold it snake_case_name"
    )
    assert plain_heading("![img](x.png) [Go][ref] C\\# {#anchor}") == "img Go C#"
    assert plain_heading('Use<a id="use"></a> <!-- x -->') == "Use"
    assert plain_heading("The `<a>` of List<T>, a < b > c") == "The <a> of List<T>, a < b > c"


@settings(deadline=None, max_examples=60)  # a busy machine is no failure
@given(st.lists(st.text(st.sampled_from("ab\n"))), st.integers(1, 5))
def test_lines_join_to_the_text(pieces: list[str], limit: int) -> None:
    lines = list(split_lines(pieces, limit))
    assert "".join(lines) == "".join(pieces)
    assert all("\n" not in line[:-1] for line in lines)


LINES = st.sampled_from(
    [
        "# A",
        "## B",
        "text",
        "more text",
        "===",
        "---",
        "```",
        "",
        "- x",
        "<!--",
        "-->",
        "    y",
        "~~~",
    ]
)


@pytest.mark.thorough
@settings(deadline=None, max_examples=60)  # a busy machine is no failure
@given(st.lists(LINES, min_size=1))
def test_every_mixture_of_lines_stays_verbatim(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    text = "\n".join(["start", *lines])
    _, blocks = read(tmp_path_factory.getbasetemp() / "mix.md", text)
    position = 0
    for block in blocks:
        start = block.origin_at(0)
        assert start is not None and text[start:].startswith(block.text)
        passed, position = text[position:start], start + len(block.text)
        # Only whole comments are left out.
        assert not passed or (passed.startswith("<!--") and passed.rstrip().endswith("-->"))
    passed = text[position:]
    assert not passed or (passed.startswith("<!--") and passed.rstrip().endswith("-->"))


@each_row(
    ("text", "title"),
    [
        ("Night ferries\n---\n* Author: Ann\n\n## Fares\n", "Night ferries"),
        ("## II. Fares\n\nTwo crowns.\n", "a.md"),
        ("## Overview\n\nTwo crowns.\n", "a.md"),
        ("Two crowns.\n\n## Fares\n", "a.md"),
        ("## Fares\n\n# Night ferries\n", "Night ferries"),
    ],
)
def test_a_heading_that_the_text_begins_with_is_its_title(
    tmp_path: Path, text: str, title: str
) -> None:
    assert read(tmp_path / "a.md", text)[0].title == title
