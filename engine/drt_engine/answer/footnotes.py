"""The footnote of a quote, where a question asks what the note says.

A mark behind the quote ("[3]", "[*]", "[^rain]") leads to a line that begins with it. Knows
documents as text; knows nothing of models.
"""

from __future__ import annotations

import re
from dataclasses import replace

from drt_engine.answer.citations import cite
from drt_engine.answer.documents import DocumentRows
from drt_engine.answer.result import Draft
from drt_engine.results import Citation
from drt_engine.store.view import LibraryView
from drt_engine.text.sentences import Span

_ASKS = re.compile(r"(?i)\b(?:foot|end)notes?\b|\basterisk|\b(?:the|a|its) notes?\b(?! that\b)")
# "[3]", "[*]", "[^rain]", "[#rain]_", or a small raised figure.
_MARK = re.compile(
    r"\[(?P<mark>\d{1,3}|[a-z]|[*\u2020\u2021\u00a7]{1,3}|[\^#][\w-]{1,40})\]"
    r"|(?P<raised>[\u00b9\u00b2\u00b3\u2070\u2074-\u2079\u2020\u2021]{1,3})"
)
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_PARAGRAPH = 1_500  # characters behind the begin of a quote in which its mark may stand
_NEAR = 200_000  # characters behind it that may have the note; else the last of the document
_LONGEST = 600  # characters of a note
_NEXT_NOTE = re.compile(r"\n[ \t]*(?:[-*+] |\.\. )?(?:\[[^\]\n]{1,40}\]|\d{1,3}[.)] )")
_WORDS = re.compile(r"(?<![\w/:.@-])[^\W\d_]{2,}(?![\w/:@-])")
_FEWEST_WORDS = 2  # of a note; a line with an address alone is where a link leads


def with_footnote(view: LibraryView, documents: DocumentRows, question: str, draft: Draft) -> Draft:
    """Return a draft with the footnote of its quote, where the question asks for a note."""
    if not _ASKS.search(question):
        return draft
    for citation in draft.citations:
        note = _note_of(view, documents, citation)
        if note is not None:
            others = tuple(other for other in draft.citations if other != citation)
            return replace(
                draft,
                text=note.quote if draft.found else "",
                citations=(note, citation, *others) if draft.found else (note, citation),
                verdict=None,
            )
    return draft


def _note_of(view: LibraryView, documents: DocumentRows, citation: Citation) -> Citation | None:
    document = documents.row(citation.document)
    first = view.text(document.id, max(0, citation.start - 1), citation.end)
    if _MARK.match(first.lstrip()):
        return None  # which is a note itself
    start, end = citation.start, citation.end
    paragraph = view.text(document.id, start, min(document.characters, start + _PARAGRAPH))
    mark = note_mark(paragraph, end - start)
    if mark is None:
        return None
    for low in (end, max(end, document.characters - _NEAR)):
        text = view.text(document.id, low, min(document.characters, low + _NEAR))
        span = note_span(text, mark)
        if span is not None:
            return cite(view, document, low + span[0], low + span[1], citation.probability)
    return None


def note_mark(paragraph: str, length: int) -> str | None:
    """Return the first mark of a note within or behind the first ``length`` characters."""
    border = _BLANK_LINE.search(paragraph, min(length, len(paragraph)))
    for match in _MARK.finditer(paragraph, 0, border.start() if border else len(paragraph)):
        if paragraph[: match.start()].rpartition("\n")[2].strip():  # not the begin of a note
            return match["mark"] or match["raised"]
    return None


def note_span(text: str, mark: str) -> Span | None:
    """Return where the note of a mark stands: a line that begins with it, or the last item so."""
    name = re.escape(mark)
    begins = re.compile(
        rf"(?m)^[ \t]*(?:[-*+] |\.\. )?\[(?:(?:Foot|End)?note )?{name}(?:\]:?|:)[ \t]+(?=\S)"
    )
    spans = [_note_from(text, match.end()) for match in begins.finditer(text)]
    if not spans and not mark.startswith(("^", "#")):
        items = re.compile(rf"(?m)^[ \t]*{name}[.)]?[ \t]+(?=\S)")
        spans = [_note_from(text, match.end()) for match in items.finditer(text)][-1:]
    return next((s for s in spans if len(_WORDS.findall(text, *s)) >= _FEWEST_WORDS), None)


def _note_from(text: str, start: int) -> Span:
    """Return a note from its first word to the next note, or to a blank line."""
    rest = text[start : start + _LONGEST]
    borders = (pattern.search(rest) for pattern in (_BLANK_LINE, _NEXT_NOTE))
    end = min((border.start() for border in borders if border), default=len(rest))
    note = rest[:end].rstrip()
    if note.endswith("]") and note.count("]") > note.count("["):  # "[Footnote 1: as of a book.]"
        note = note[:-1]
    return start, start + len(note)
