"""Answers as Markdown and in a notebook: what is in bold, and nothing of a document is markup."""

from __future__ import annotations

from dataclasses import replace

from drt import Answer, Citation

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
