"""Answers that are below what the reader points at: the output of code, the setting of a comment.

Knows the texts of documents as they are stored; knows nothing of models.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice

from drt_engine.answer.citations import cite
from drt_engine.answer.documents import DocumentRows
from drt_engine.answer.result import Draft
from drt_engine.store.view import LibraryView
from drt_engine.text.sentences import Span

_NOTEBOOK = "application/x-ipynb+json"
_ABOVE, _BELOW = 3_000, 3_000  # characters around a quote that are looked at
_LONGEST_OUTPUT = 600  # characters; of a longer one the first lines are shown
_MOST_OUTPUTS = 6  # of one piece of code
_PROGRESS = re.compile(r"\d{1,3}%\|")  # bars that tell how far a program is
_FARTHEST_SETTING = 600  # characters
_OUTPUT_ASKED = re.compile(
    r"(?i)\b(?:print(?:s|ed)?|outputs?|values?|results?|returns?|returned|evaluates?|gives?"
    r"|shows?|shown|displayed)\b"
)
_WHY = re.compile(r"(?i)\W*(?:why|how (?:do|does|did|is|are|can|to)|who)\b")
# A fence with a language opens code; one without, right behind it, opens what the code printed.
_FENCE = re.compile(r"(?m)^`{3,}(?P<language>\w*)$")
_LED_CODE = re.compile(r"\s*`{3,}\w+\n")
_COMMENT = re.compile(r"[ \t]*(?:#|;|//)")
_SETTING = re.compile(
    r"[ \t]*(?P<name>[A-Za-z][\w.-]*)"
    r"(?:[ \t]*[=:][ \t]*\S[^\n]{0,150}|(?:[ \t]+\S{1,150}){1,3}(?<!\.))[ \t]*"
)
# "#Port 22", "# HOME = /home": a setting that is left at its default
_DEFAULT = re.compile(
    r"[#;](?:[ \t]?(?P<name>[A-Za-z][\w.-]*)[ \t]*=[ \t]*\S{0,150}"
    r"|(?P<key>[A-Za-z][\w.-]*)[ \t]+\S{1,150})[ \t]*"
)
_MOST_SETTINGS = 12  # below a comment
_MOST_UNNAMED = 3  # that are all meant by a comment which names none
_SETTING_ASKED = re.compile(
    r"(?i)\W*(?:(?:in|on|at|to|from|up to|within|after|by|with|for) )?"
    r"(?:what|which(?! (?:two|three|four|five|six)\b)|how (?!do|does|did|is|are|can|to)\w+|where)\b"
)
_FEWEST_WORDS = 4  # of a comment; fewer are the value that was asked for
_NAME_IN_TEXT = re.compile(r"\b[A-Z][A-Z\d]*_[A-Z\d_]+\b|\b[a-z]\w*(?:[A-Z_.-]\w+)+")


def with_output(view: LibraryView, documents: DocumentRows, question: str, draft: Draft) -> Draft:
    """Return what the code of a notebook printed, where a quote is the code or leads to it.

    Code is what a question wants of it only where it asks for an output.
    """
    if not draft.found or not draft.citations or _WHY.match(question):
        return draft
    first, *others = draft.citations
    document = documents.row(first.document)
    if document.media_type != _NOTEBOOK:
        return draft
    low = max(0, first.start - _ABOVE)
    text = view.text(document.id, low, min(document.characters, first.end + _BELOW))
    quote = (first.start - low, first.end - low)
    led = _LED_CODE.match(text, quote[1]) if text[quote[1] - 1] == ":" else None
    if led is None and not _OUTPUT_ASKED.search(question):
        return draft
    span = output_of(text, (led.end(), led.end()) if led else quote)
    if span is None:
        return draft
    output = cite(view, document, low + span[0], low + span[1], first.probability)
    return replace(draft, text=output.quote, citations=(output, first, *others), verdict=None)


def output_of(text: str, quote: Span) -> Span | None:
    """Return where the output is of the code that a quote is in; None where it is in no code."""
    above = [fence["language"] for fence in _FENCE.finditer(text, 0, quote[0])]
    if not above or not above[-1]:
        return None
    # The end of the code; then the beginning and the end of each of its outputs.
    fences = [*islice(_FENCE.finditer(text, quote[1]), 1 + 2 * _MOST_OUTPUTS)]
    outputs: list[Span] = []
    for before, opening, closing in zip(fences[::2], fences[1::2], fences[2::2], strict=False):
        between = text[before.end() : opening.start()].strip()
        if between or before["language"] or opening["language"]:
            break
        if text[opening.end() : closing.start()].strip():
            outputs.append((opening.end() + 1, closing.start()))
    printed = [span for span in outputs if not _PROGRESS.search(text, *span)]
    if not printed:
        return None
    start, end = printed[0]
    if end - start > _LONGEST_OUTPUT:
        end = max(text.rfind("\n", start, start + _LONGEST_OUTPUT), start + 1)
    return start, start + len(text[start:end].rstrip())


def with_setting(view: LibraryView, documents: DocumentRows, question: str, draft: Draft) -> Draft:
    """Return a comment with the setting below it, where a question asks for what it explains."""
    if not draft.found or not draft.citations or not _SETTING_ASKED.match(question):
        return draft
    first, *others = draft.citations
    document = documents.row(first.document)
    if document.media_type != "text/plain" or len(first.quote.split()) < _FEWEST_WORDS:
        return draft
    low = max(0, first.start - _ABOVE)
    text = view.text(document.id, low, min(document.characters, first.end + _BELOW))
    span = setting_below(text, (first.start - low, first.end - low))
    if span is None:
        return draft
    whole = cite(view, document, first.start, low + span[1], first.probability)
    setting = replace(whole, span_start=low + span[0], span_end=low + span[1])
    return replace(draft, text=setting.quote, citations=(setting, *others))


def setting_below(text: str, quote: Span) -> Span | None:
    """Return where the setting is that a quote in a comment is about; None without one.

    That is the setting that the quote names, or else the few that are directly below the comment.
    """
    line_start = text.rfind("\n", 0, quote[0]) + 1
    if any(not _COMMENT.match(line) for line in text[line_start : quote[1]].split("\n")):
        return None
    names = set(_NAME_IN_TEXT.findall(text[line_start : quote[1]]))
    settings: list[tuple[str, Span]] = []
    at = quote[1] + len(text[quote[1] :].partition("\n")[0]) + 1
    for line in text[at:].split("\n"):
        match = _DEFAULT.fullmatch(line) or (
            None if _COMMENT.match(line) else _SETTING.fullmatch(line)
        )
        if match:
            name = match["name"] or match["key"]
            settings.append((name, (at + line.index(name), at + len(line.rstrip()))))
        elif settings or not _COMMENT.match(line):  # the end of those below the comment, or prose
            break
        if len(settings) == _MOST_SETTINGS or at > quote[1] + _FARTHEST_SETTING:
            break
        at += len(line) + 1
    named = [span for name, span in settings if name in names]
    if len(named) == 1:
        return named[0]
    if names or not 0 < len(settings) <= _MOST_UNNAMED:
        return None
    return settings[0][1][0], settings[-1][1][1]
