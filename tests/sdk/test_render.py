"""Answers as Markdown and in a notebook: what is in bold, and nothing of a document is markup."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from drt import Answer, Citation
from drt._items import split_items

QUOTE = "A <b>keeper</b> may\nleave at *noon*."
PLACE = Citation(
    "0123456789abcdef", "Rules & fees", "rules.txt", 10, 10 + len(QUOTE), QUOTE, 3, "Part 1", 0.9,
    QUOTE, span_start=10 + QUOTE.index("*noon"), span_end=10 + QUOTE.index("."),
)  # fmt: skip
ANSWER = Answer(QUOTE, True, 0.9, "quote", (PLACE,), 1, 0.1, "m", state="answer", verdict="yes")


def test_markdown_has_the_verdict_the_span_in_bold_and_the_place() -> None:
    assert ANSWER.as_markdown() == (
        "**Yes.**\n\nA \\<b\\>keeper\\</b\\> may leave at **\\*noon\\***.[^1]\n\n"
        "[^1]: Rules \\& fees, page 3, Part 1, 01234567:10-46"
    )


def test_a_notebook_shows_no_markup_of_the_document() -> None:
    shown = ANSWER._repr_html_()
    assert "A &lt;b&gt;keeper&lt;/b&gt; may leave at <b>*noon*</b>.<sup>1</sup>" in shown
    assert "<li>Rules &amp; fees, page 3" in shown


def test_states_are_said_in_words() -> None:
    likely = replace(ANSWER, text="", found=False, state="likely", verdict=None, passage=QUOTE)
    assert likely.as_markdown().startswith("The document probably says it here:\n\nA ")
    none = replace(likely, state="none", citations=(), passage="")
    assert none.as_markdown() == "The document does not say."
    assert none._repr_html_() == "<div><p>The document does not say.</p></div>"
    closest = replace(none, citations=(PLACE,)).as_markdown()
    assert closest.startswith("The document does not say.\n\nClosest passage:\n\nA \\<b\\>keeper")
    assert "**" not in closest and "[^1]: Rules" in closest


ITEMS = "- a *lamp*,\n  of tin\n3. its oil\n(b) a rope"


def listed(start: int, end: int) -> Answer:
    citation = replace(
        PLACE, quote=ITEMS, context=ITEMS, end=10 + len(ITEMS), span_start=10 + start,
        span_end=10 + end,
    )  # fmt: skip
    return replace(ANSWER, text=ITEMS, citations=(citation,), verdict=None)


def test_items_of_a_quoted_list_are_items_of_markdown() -> None:
    text = listed(0, len(ITEMS)).as_markdown().partition("\n\n")[0]
    assert text.split("\n") == [
        "- **a \\*lamp\\*, of tin**", "3. **its oil**", "- \\(b\\) **a rope**[^1]",
    ]  # fmt: skip
    # What answers may be some of the items, and a part of one.
    text = listed(0, ITEMS.index(" oil")).as_markdown().partition("\n\n")[0]
    assert text.split("\n")[1:] == ["3. **its** oil", "- \\(b\\) a rope[^1]"]


def test_items_of_a_quoted_list_have_lines_of_their_own_in_a_notebook() -> None:
    shown = listed(0, len(ITEMS))._repr_html_()
    assert "<p>- <b>a *lamp*, of tin</b><br>3. <b>its oil</b><br>(b) <b>a rope</b><sup>" in shown


def test_rows_of_a_quoted_table_have_lines_of_their_own() -> None:
    rows = "Lamp | 3\nRope | 4"
    citation = replace(PLACE, quote=rows, context=rows, end=10 + len(rows), span_start=10)
    answer = replace(ANSWER, citations=(replace(citation, span_end=10 + len(rows)),))
    assert "<b>Lamp | 3</b><br><b>Rope | 4</b>" in answer._repr_html_()


@pytest.mark.thorough
def test_long_texts_are_cut_into_items_in_no_time() -> None:
    for text in ("\n " * 50_000, " | " * 50_000, "\n- " * 50_000, "\n" + " " * 90_000 + "x"):
        began = time.perf_counter()
        split_items(text)
        assert time.perf_counter() - began < 5


def test_a_title_that_begins_its_section_is_not_repeated() -> None:
    place = replace(PLACE, section="Rules & fees > Part 1")
    assert replace(ANSWER, citations=(place,)).as_markdown() == ANSWER.as_markdown()
    alone = replace(PLACE, section="Rules & fees")
    shown = replace(ANSWER, citations=(alone,)).as_markdown()
    assert shown.endswith("[^1]: Rules \\& fees, page 3, 01234567:10-46")
