"""The section or the page as an answer: of a heading that names it, or above a quote."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from drt_engine.answer.citations import cite
from drt_engine.answer.documents import DocumentRows, first_documents
from drt_engine.answer.lists.led_lists import asked_list
from drt_engine.answer.lists.list_answer import KEY_PRECISION
from drt_engine.answer.lists.numbered_lists import paragraph_number
from drt_engine.answer.lists.section_questions import (
    AMBIGUOUS,
    MOST_EXTRA,
    SectionQuestion,
    heading_about,
)
from drt_engine.answer.result import Draft
from drt_engine.results import Citation
from drt_engine.retrieval.filters import Scope
from drt_engine.retrieval.passages import Passage
from drt_engine.store.view import LibraryView
from drt_engine.text.sentences import Span

_CODE = ("text/x-source",)  # whose sections are functions
_LONGEST_HEADING = 400  # characters
_FEWEST_PARTS, _MOST_PARTS = 2, 25  # headings below another that are shown as its parts
_MARKS = r"[#*=\s]*"
_AROUND = 20_000  # characters around a quote in which numbered paragraphs go on
# What is counted itself, so that a number before a paragraph may be meant.
_NUMBERED = ("section", "clause", "subclause", "article", "paragraph", "rule", "provision", "part")
_HAS_NUMBER = re.compile(
    r"(?i)(?:\u00a7 *|(?:section|chapter|clause|article|part|appendix|annex) +)?"
    r"(?:\d+(?:\.\d+)*|[A-Z]\.\d+|[ivxlc]+\b|[A-Z]\b)"
)


def heading_answer(
    view: LibraryView,
    documents: DocumentRows,
    asked: SectionQuestion,
    passages: Sequence[Passage],
    *,
    scope: Scope,
) -> Draft | None:
    """Return the one heading that names what is asked for, in a document of the ``passages``."""
    for document_id in first_documents(passages):
        document = documents.row(document_id)
        if not asked.topic or document.media_type.startswith(_CODE):
            continue
        headings = dict(_headings(view, document_id))  # of equal sections the last
        titles: dict[str, str] = {}
        for section in headings:
            titles.setdefault(section.rpartition(" > ")[2], section)
        most_extra = 0 if asked.is_defined else MOST_EXTRA
        title = heading_about(asked.topic, titles, most_extra=most_extra)
        start = None if title is None else headings[titles[title]]
        span = None if start is None else _title_at(view, document_id, start, titles[title or ""])
        if span is None or not scope.holds(document_id, *span):
            continue
        if not _is_called_so(asked, view.text(document_id, *span)):
            continue
        heading = cite(view, document, *span, probability=max(p.probability for p in passages))
        return _placed(asked, Draft(heading.quote, True, KEY_PRECISION, (heading,)), heading)
    return None


def subsections_answer(
    view: LibraryView,
    documents: DocumentRows,
    question: str,
    passages: Sequence[Passage],
    *,
    scope: Scope,
) -> Draft | None:
    """Return the headings below the one that is called what is asked for.

    "What are the stages?" is answered by "Alpha" and "Beta" below "Stages". How many there are is
    not, since some may be of another kind.
    """
    asked = asked_list(question)
    for document_id in first_documents(passages):
        if asked is None or asked.asks_count:
            break
        document = documents.row(document_id)
        headings = list(_headings(view, document_id))
        titles = {section.rpartition(" > ")[2]: section for section, _ in headings}
        title = heading_about(" ".join(asked.stems), titles, most_extra=0)
        if title is None or document.media_type.startswith(_CODE):
            continue
        parts = [
            (section, start)
            for section, start in headings
            if section.rpartition(" > ")[0] == titles[title]
        ]
        spans = [_title_at(view, document_id, start, section) for section, start in parts]
        cited = tuple(
            cite(view, document, *span, probability=max(p.probability for p in passages))
            for span in spans
            if span is not None and scope.holds(document_id, *span)
        )
        is_all = _FEWEST_PARTS <= len(cited) == len(parts) <= _MOST_PARTS
        if is_all and asked.count in (None, len(cited)):
            text = "; ".join(citation.quote for citation in cited)
            return Draft(text, True, KEY_PRECISION, cited)
    return None


def with_section(
    view: LibraryView, documents: DocumentRows, asked: SectionQuestion, draft: Draft
) -> Draft | None:
    """Return the page of a quote, or the heading above it; None where there is none."""
    if not draft.citations or (asked.needs_topic and not asked.asks_page):
        return None
    first = draft.citations[0]
    if asked.asks_page:
        return _placed(asked, draft, first)
    heading = _heading_of(view, documents, asked, first)
    return None if heading is None else _placed(asked, draft, heading)


def _placed(asked: SectionQuestion, draft: Draft, heading: Citation) -> Draft | None:
    """Return a draft whose text is the page or the heading, which the quote follows."""
    if not asked.asks_page:
        others = tuple(c for c in draft.citations if c.start != heading.start)
        text = heading.quote if draft.found else ""
        return replace(draft, text=text, citations=(heading, *others), verdict=None)
    if heading.page is None:
        return None
    return replace(draft, text=f"page {heading.page}" if draft.found else "", verdict=None)


def _heading_of(
    view: LibraryView, documents: DocumentRows, asked: SectionQuestion, quote: Citation
) -> Citation | None:
    """Return the citation of the heading, or of the paragraph's number, above a quote."""
    document = documents.row(quote.document)
    if document.media_type.startswith(_CODE):
        return None
    spans = list(_path_at(view, quote.document, quote.start))
    titles = [view.text(quote.document, *span) for span in spans]
    named = [n for n, title in enumerate(titles) if re.match(rf"(?i){asked.noun} +\S", title)]
    numbered = [n for n, title in enumerate(titles) if _HAS_NUMBER.match(title)]
    span: Span | None = None
    if named:
        span = spans[named[0]]
    elif asked.noun in _NUMBERED and not numbered:
        span = _numbered_paragraph(view, document.id, quote, spans[:1])
    elif numbered and asked.noun == "chapter":  # the outermost with a number
        span = spans[numbered[-1]]
    if span is None and spans and asked.noun not in AMBIGUOUS:
        span = spans[0]
    if span is None:
        return None
    return cite(view, document, *span, probability=quote.probability)


def _numbered_paragraph(
    view: LibraryView, document_id: str, quote: Citation, heading: Sequence[Span]
) -> Span | None:
    """Return the number of the paragraph that a quote is in, with the title behind it."""
    low = heading[0][1] if heading else max(0, quote.start - _AROUND)
    text = view.text(document_id, low, quote.end + _AROUND)
    span = paragraph_number(text, quote.start - low)
    return None if span is None else (low + span[0], low + span[1])


def _is_called_so(asked: SectionQuestion, title: str) -> bool:
    """Return whether a heading has the noun that is asked for, where that may be another thing."""
    return asked.noun not in AMBIGUOUS or title.lower().startswith((f"{asked.noun} ", "\u00a7"))


def _headings(view: LibraryView, document_id: str) -> Iterator[tuple[str, int]]:
    """Yield the sections of a document, with where each begins."""
    places = [(section, start) for start, _, section in view.places(document_id)]
    for section, group in groupby(places, key=lambda place: place[0]):
        if section:
            yield section, next(group)[1]


def _path_at(view: LibraryView, document_id: str, at: int) -> Iterator[Span]:
    """Yield the headings above a character, the innermost first."""
    headings = list(_headings(view, document_id))
    number = bisect_right(headings, at, key=lambda heading: heading[1]) - 1
    section = headings[number][0] if number >= 0 else ""
    if not section or section != view.place(document_id, at)[1]:
        return
    path = section
    for name, start in reversed(headings[: number + 1]):
        if name == path or path.startswith(f"{name} > "):
            span = _title_at(view, document_id, start, name)
            if span is not None:
                yield span
            path = name.rpartition(" > ")[0]
            if not path:
                return


def _title_at(view: LibraryView, document_id: str, start: int, section: str) -> Span | None:
    """Return where the title of a section is that begins at ``start``; None without one there."""
    text = view.text(document_id, start, start + _LONGEST_HEADING)
    parts = section.split(" > ")
    for number in range(len(parts) - 1, -1, -1):  # a title may have " > " in it
        words = " > ".join(parts[number:]).split()
        title = r"[`*]*\s+[`*]*".join("[`*]*".join(map(re.escape, word)) for word in words)
        match = re.match(rf"{_MARKS}(?P<title>[`*]*{title}[`*]*)", text)
        if match:
            return start + match.start("title"), start + match.end("title")
    return None
