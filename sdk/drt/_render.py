"""Answers as Markdown and HTML, with the words that answer in bold inside their sentence."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ._items import find_words, item_spans, mark_of

if TYPE_CHECKING:
    from ._types import Answer, Citation

HEADS = {
    "likely": "The document probably says it here:",
    "none": "The document does not say.",
}
CLOSEST = "Closest passage{}:"
OR_HERE = "Or here:"  # before a second likely place
OTHER_PART = "The other part of the question is probably answered here:"
# C0 and C1 controls, and bidirectional ones that can show text in another order.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#|~&])")


def as_markdown(answer: Answer) -> str:
    """Return a paragraph of the answer, or of the likely passage, and its places as footnotes."""
    lines = _lines(answer, escape=markdown, bold=lambda text: f"**{text}**", join=_listed)
    places = [
        f"[^{number}]: {markdown(place(citation))}"
        for number, citation in enumerate(answer.citations, start=1)
    ]
    return "\n".join([*lines, "", *places] if places else lines)


def as_text(answer: Answer) -> str:
    """Return the same as plain text, as a terminal has it, with the words that answer in «»."""
    lines = _lines(
        answer,
        escape=plain,
        bold=lambda text: f"«{text}»",
        join=lambda items: "\n".join(mark + text for _, mark, text in items),
        note="",
    )
    places = [
        f"[{number}] {plain(place(citation))}"
        for number, citation in enumerate(answer.citations, start=1)
    ]
    ends = [part for part in ("\n".join(places), sureness(answer), plain(answer.hint)) if part]
    return "\n\n".join(["\n".join(lines), *ends])


def sureness(answer: Answer) -> str:
    """Return how sure an answer is, as the probability of what was said; "" of a likely place.

    That the documents hold an answer somewhere says little of the place that is shown. What was
    looked up, in a table or a document's properties, has no probability: nothing calibrates it.
    """
    if answer.state == "likely" or answer.mode == "summary":
        return ""
    if answer.found and answer.mode == "quote":
        probability = answer.quote_probability
        return "" if probability is None else f"probability that this is right: {probability:.0%}"
    return f"probability that the document says it: {answer.confidence:.0%}"


def as_html(answer: Answer) -> str:
    """Return the same as HTML for a notebook; nothing of a document is markup there."""
    lines = _lines(
        answer,
        escape=_html,
        bold=lambda text: f"<b>{text}</b>",
        join=lambda items: "<br>".join(escaped + text for _, escaped, text in items),
        note="<sup>{}</sup>",
    )
    places = [f"<li>{_html(place(citation))}</li>" for citation in answer.citations]
    body = "".join(f"<p>{line}</p>" for line in lines if line)
    return f"<div>{body}<ol>{''.join(places)}</ol></div>" if places else f"<div>{body}</div>"


def _lines(
    answer: Answer,
    *,
    escape: Callable[[str], str],
    bold: Callable[[str], str],
    join: Callable[[list[tuple[str, str, str]]], str],
    note: str = "[^{}]",
) -> list[str]:
    """Return the state in words, then each quote in its sentence, with the number of its place."""
    lines: list[str] = []
    if answer.state != "answer":
        lines = [escape(HEADS[answer.state]), ""]
    elif answer.mode == "summary":
        sentences = (
            escape(citation.quote) + note.format(number)
            for number, citation in enumerate(answer.citations, start=1)
        )
        return [" ".join(sentences)]
    elif answer.mode == "free":
        lines = [escape(answer.text), ""]
    elif answer.verdict is not None:
        lines = [bold(f"{answer.verdict.capitalize()}."), ""]
    if answer.state == "none" and answer.citations:
        lines += [escape(CLOSEST.format("s" * (len(answer.citations) > 1))), ""]
        bold = str  # none of them is an answer
    for number, citation in enumerate(answer.citations, start=1):
        around = citation.sentence
        if answer.state == "likely":
            around = answer.passage if number == 1 else answer.second_passage
            lines += [escape(OR_HERE), ""] if number > 1 else []
        elif citation.likely:
            lines += [escape(OTHER_PART), ""]
        quote = citation.quote if citation.metadata is None else citation.metadata
        more = escape(f" ... and {citation.more_items:,} more") if citation.more_items else ""
        text = join(_emphasised(around, quote, citation.span, escape, bold))
        lines += [text + more + note.format(number), ""]
    return lines[:-1]


def _emphasised(
    around: str, quote: str, span: str, escape: Callable[[str], str], bold: Callable[[str], str]
) -> list[tuple[str, str, str]]:
    """Return the text around a quote, or the quote where it is longer, with the span in bold.

    For each item of a list and each paragraph: its bullet or number, that escaped, and its text.
    """
    text = around if quote in around else quote
    emphasis = span if span in text and span else quote
    first = find_words(text, emphasis) if emphasis else len(text)
    last = first + len(emphasis)
    items = []
    for start, end in item_spans(text):
        mark = mark_of(text[start:end])
        begin = start + len(mark)
        low, high = max(begin, min(first, end)), max(begin, min(last, end))
        words = escape(text[low:high])
        shown = escape(text[begin:low]) + (bold(words) if words else "") + escape(text[high:end])
        items.append((mark.strip(), escape(mark), shown))
    return items


def _listed(items: list[tuple[str, str, str]]) -> str:
    """Return items as a list of Markdown, each on a line of its own; paragraphs around it apart."""
    text, is_below = "", False
    for mark, escaped, words in items:
        is_number = re.fullmatch(r"\d+[.)]", mark)
        sign = "" if not mark else f"{mark} " if is_number else "- "
        name = escaped if any(letter.isalnum() for letter in mark) and not is_number else ""
        text += ("\n" if mark and is_below else "\n\n") * bool(text) + sign + name + words
        is_below = bool(mark)
    return text


def place(citation: Citation) -> str:
    """Return title, page or section, and handle."""
    parts = [citation.title]
    if citation.page_name:
        parts.append(citation.page_name)
    # A heading path mostly begins with the title.
    section = (citation.section or "").removeprefix(citation.title).removeprefix(" > ")
    if section:
        parts.append(section)
    return ", ".join([*parts, citation.handle])


def plain(text: str) -> str:
    """Return text on one line without control characters; spaces at its ends stay."""
    return re.sub(r"\s+", " ", _UNSAFE.sub(" ", text))


def markdown(text: str) -> str:
    """Return text on one line, in which nothing is Markdown."""
    return _MARKDOWN.sub(r"\\\1", plain(text))


def _html(text: str) -> str:
    return html.escape(plain(text))
