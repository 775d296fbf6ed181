"""Sentences of a text as slices with exact character offsets.

Rules for English; other scripts are cut at their own full stops and at line ends. Knows nothing of
tokens, chunks or files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from drt_engine.text.words import STOP_WORDS, word_set

Span = tuple[int, int]

# Words that make an ambiguous "Inc. The" a border: no name begins with them.
_STARTERS = STOP_WORDS - {"i", "d", "m", "s", "t", "re", "ve", "ll", "may", "will"}

# Abbreviations, by what follows their period: never a border, none before a number, and one only
# before a starter ("Acme Inc. The ...", but "Acme Inc. Europe").
_NEVER_LAST = word_set(
    """
    mr mrs ms messrs mme mlle dr prof st mt rev hon gen col capt cpt cmdr lt sgt maj adm gov
    sen rep pres e.g i.e eg ie cf viz vs v al ca approx
    """
)
_BEFORE_NUMBER = word_set(
    """
    no nos vol vols p pp fig figs eq eqs sec secs ch chap art arts para paras pt tab ver app
    jan feb mar apr jun jul aug sep sept oct nov dec
    """
)
_MAYBE_LAST = word_set("inc ltd co corp llc etc jr sr bros dept est ave blvd rd ph.d esq")

# Possessive quantifiers do not backtrack, and a run of stops is entered only at its head, so that a
# page of dots costs linear time.
_CANDIDATE = re.compile(
    r"(?P<stop>(?<![.!?…])[.!?…]++(?:\[\d{1,3}\])*+[\"'”’»)\]*_]*+(?=\s))"
    r"|(?P<wide>[。！？]++[」』”’）]*+)"
    r"|(?P<line>\n\s*+)"
)
_FOLLOWING = re.compile(r"\s*+[\"'“‘«(\[*_]*+(\w{1,20}+)?")
_LIST_MARKER = re.compile(r"\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})\Z")
_DOTTED = re.compile(r"(?:\w\.)+\w{1,2}\Z")
_BLOCK_START = re.compile(
    r"#{1,6}\s|[-*+•–]\s|\d{1,3}[.)]\s|\([A-Za-z\d]{1,3}\)\s|[A-Za-z]\)\s|[|>]|```|~~~|[=-]{3}"
    # A speaker of a transcript or the name of a field: "Ann Lee: ".
    r"|[A-Z][\w.'’-]*(?: [A-Z][\w.'’-]*){0,2}: "
    # A record of a log or of subtitles, by its time or level.
    r"|\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:|\[?\d\d:\d\d:\d\d|\[ *\d+\.\d+\] "
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\[?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|CRITICAL)\b"
    # A property of a calendar or a card: "DTSTART;VALUE=DATE:20260401".
    r"|[A-Z][A-Z-]{2,}+[:;]\S"
)
_BLOCK_LINE = re.compile(r"#{1,6}\s|\||```|~~~|[=-]{3}")
# A setting, where the next line is one, too: "port: 5433", "port = 5433". Alone it may be of a
# sentence that goes on, or of a formula.
_SETTING = re.compile(r"[\w.-]++(?::(?=\s)| = \S)")

# Lines of wrapped prose are between these lengths; outside them a line end is a border.
_SHORTEST_WRAPPED = 40
_LONGEST_WRAPPED = 160
# Characters; a longer piece without a border (a table, binary text) is cut at a space.
_LONGEST_SENTENCE = 2000


class Sentence(NamedTuple):
    """A sentence, heading or list line: ``text`` is the document's slice ``start:end``."""

    start: int
    end: int
    text: str


def sentence_spans(text: str) -> list[Span]:
    """Return the character spans of the sentences in order, without surrounding white space.

    Spans never overlap, and together they hold every character of ``text`` that is no white space.
    """
    spans: list[Span] = []
    start = 0
    for border in _borders(text):
        spans.extend(_trimmed(text, start, border))
        start = border
    spans.extend(_trimmed(text, start, len(text)))
    return spans


def split_sentences(text: str) -> list[Sentence]:
    """Return the sentences of ``text`` with their spans."""
    return [Sentence(start, end, text[start:end]) for start, end in sentence_spans(text)]


def is_heading(sentence: str) -> bool:
    """Return whether a sentence is a Markdown heading line."""
    return re.match(r"#{1,6}\s", sentence) is not None


def _borders(text: str) -> Iterator[int]:
    line_start = len(text) - len(text.lstrip())
    for match in _CANDIDATE.finditer(text):
        if match["line"] is not None:
            if _line_breaks(text, line_start, match):
                yield match.start()
            line_start = match.end()
        elif match["wide"] is not None or _stop_ends(text, line_start, match):
            yield match.end()


def _trimmed(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the piece without white space around it, in parts where it is far too long."""
    piece = text[start:end]
    visible = piece.strip()
    if not visible:
        return
    start += len(piece) - len(piece.lstrip())
    end = start + len(visible)
    while end - start > _LONGEST_SENTENCE:
        head = text[start : start + _LONGEST_SENTENCE]
        gap = max(head.rfind(" "), head.rfind("\n"))
        middle = start + (gap if gap > 0 else _LONGEST_SENTENCE)
        yield start, start + len(text[start:middle].rstrip())
        tail = text[middle:end]
        start = end - len(tail.lstrip())
    yield start, end


def _line_breaks(text: str, line_start: int, match: re.Match[str]) -> bool:
    """Return whether a line end is a border: blank lines, list items, headings, odd lengths."""
    stop, after = match.span()
    if after >= len(text) or match["line"].count("\n") > 1:
        return True
    if _BLOCK_START.match(text, after) or _BLOCK_LINE.match(text, line_start):
        return True
    length = stop - line_start
    if length > _LONGEST_WRAPPED:
        return True
    if _SETTING.match(text, line_start) and _SETTING.match(text, after):
        return True
    if length >= _SHORTEST_WRAPPED or text[after].islower():
        return False
    # A short line goes on where a comma, a hyphen or a stop word ends it.
    line = text[line_start:stop].rstrip()
    return line[-1:] not in ",;-" and line.rsplit(None, 1)[-1].lower() not in STOP_WORDS


def _stop_ends(text: str, line_start: int, match: re.Match[str]) -> bool:
    """Return whether a run of stops ends its sentence, by the words on both sides."""
    following = _FOLLOWING.match(text, match.end())
    word = following[1] if following and following[1] else ""
    if word[:1].islower():
        return False
    run = match["stop"].rstrip("\"'”’»)]*_")
    # Only a single period can belong to an abbreviation.
    if not run.startswith(".") or run[:2] == "..":
        return True
    return _period_ends(_token_before(text, line_start, match.start()), word)


class _Before(NamedTuple):
    token: str
    opens_line: bool


def _token_before(text: str, line_start: int, stop: int) -> _Before:
    # 30 characters hold every abbreviation; looking back to the line's start would be quadratic.
    before_stop = text[max(line_start, stop - 30) : stop]
    if not before_stop or before_stop[-1].isspace():
        return _Before("", False)
    token = before_stop.rsplit(None, 1)[-1]
    return _Before(token.lstrip("\"'“‘«([*_"), stop - len(token) == line_start)


def _period_ends(before: _Before, word: str) -> bool:
    """Return whether a period ends its sentence, by the token before it and the word after it."""
    token, lower = before.token, before.token.lower()
    if lower in _NEVER_LAST or (before.opens_line and _LIST_MARKER.match(token)):
        return False
    if lower in _BEFORE_NUMBER and word[:1].isdigit():
        return False
    initial = len(token) == 1 and token.isupper()
    if initial or lower in _MAYBE_LAST or _DOTTED.match(token):
        return not word or word.lower() in _STARTERS
    return True
