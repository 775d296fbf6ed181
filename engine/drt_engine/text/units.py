"""Cuts text into sentences and words; every sentence is a slice with exact character offsets.

Knows nothing of tokens, chunks or files. English rules; other scripts get borders at their own
full stops and at line ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

Span = tuple[int, int]


def _listed(words: str) -> list[str]:
    return words.split()


STOP_WORDS = frozenset(
    _listed(
        """
        a about above after again against all also am an and any are aren as at be because been
        before being below between both but by can cannot could couldn d did didn do does doesn
        doing don down during each either else ever few for from further had hadn has hasn have
        haven having he her here hers herself him himself his how however i if in into is isn it
        its itself just ll m may me might more most must my myself neither no nor not now of off
        on once only or other our ours ourselves out over own re s same shall she should shouldn
        since so some such t than that the their theirs them themselves then there these they
        this those through to too under until up upon us ve very was wasn we were weren what
        when where whether which while who whom whose why will with within without won would
        wouldn yet you your yours yourself yourselves
        """
    )
)

# Words that make an ambiguous "Inc. The" a border: no name begins with them.
_STARTERS = STOP_WORDS - {"i", "d", "m", "s", "t", "re", "ve", "ll", "may", "will"}
_NEVER_LAST = frozenset(
    _listed(
        """
        mr mrs ms messrs mme mlle dr prof st mt rev hon gen col capt cpt cmdr lt sgt maj adm gov
        sen rep pres e.g i.e eg ie cf viz vs v al ca approx
        """
    )
)
_BEFORE_NUMBER = frozenset(
    _listed(
        """
        no nos vol vols p pp fig figs eq eqs sec secs ch chap art arts para paras pt tab ver app
        jan feb mar apr jun jul aug sep sept oct nov dec
        """
    )
)
_MAYBE_LAST = frozenset(_listed("inc ltd co corp llc etc jr sr bros dept est ave blvd rd ph.d esq"))

# A run of stops is entered only at its head, so that a page of dots costs linear time.
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
)
_BLOCK_LINE = re.compile(r"#{1,6}\s|\||```|~~~|[=-]{3}")
_WORD = re.compile(r"[^\W_]+")

# Lines of wrapped prose are between these lengths; outside them a line end is a border.
_SHORTEST_WRAPPED = 40
_LONGEST_WRAPPED = 160
_LONGEST_SENTENCE = 2000


class Sentence(NamedTuple):
    """A sentence, heading or list line: `text` is the document's slice from `start` to `end`."""

    start: int
    end: int
    text: str


def sentence_spans(text: str) -> list[Span]:
    """Return the character spans of the sentences in order, without surrounding white space.

    Spans never overlap, and together they hold every character of `text` that is no white space.
    """
    spans: list[Span] = []
    start = 0
    for border in _borders(text):
        spans.extend(_trimmed(text, start, border))
        start = border
    spans.extend(_trimmed(text, start, len(text)))
    return spans


def split_sentences(text: str) -> list[Sentence]:
    """Return the sentences of `text` with their spans."""
    return [Sentence(start, end, text[start:end]) for start, end in sentence_spans(text)]


def words(text: str) -> list[str]:
    """Return the lower-case words: runs of letters and digits, so "Ann's" gives "ann", "s"."""
    return _WORD.findall(text.lower())


def content_words(text: str) -> list[str]:
    """Return the words that are no stop words, or all of them where nothing else is left."""
    every = words(text)
    return [word for word in every if word not in STOP_WORDS] or every


def is_heading(sentence: str) -> bool:
    """Say whether a sentence is a Markdown heading line."""
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
    kept = piece.strip()
    if not kept:
        return
    start += len(piece) - len(piece.lstrip())
    end = start + len(kept)
    while end - start > _LONGEST_SENTENCE:
        head = text[start : start + _LONGEST_SENTENCE]
        gap = max(head.rfind(" "), head.rfind("\n"))
        middle = start + (gap if gap > 0 else _LONGEST_SENTENCE)
        yield start, start + len(text[start:middle].rstrip())
        rest = text[middle:end]
        start = end - len(rest.lstrip())
    yield start, end


def _line_breaks(text: str, line_start: int, match: re.Match[str]) -> bool:
    """Say whether a line end is a border: blank lines, list items, headings, odd line lengths."""
    stop, after = match.span()
    if after >= len(text) or match["line"].count("\n") > 1:
        return True
    if _BLOCK_START.match(text, after) or _BLOCK_LINE.match(text, line_start):
        return True
    length = stop - line_start
    if length > _LONGEST_WRAPPED:
        return True
    if length >= _SHORTEST_WRAPPED or text[after].islower():
        return False
    line = text[line_start:stop].rstrip()
    return line[-1:] not in ",;-" and line.rsplit(None, 1)[-1].lower() not in STOP_WORDS


def _stop_ends(text: str, line_start: int, match: re.Match[str]) -> bool:
    """Say whether a run of stops ends its sentence, by the words on both sides."""
    following = _FOLLOWING.match(text, match.end())
    word = following[1] if following and following[1] else ""
    if word[:1].islower():
        return False
    run = match["stop"].rstrip("\"'”’»)]*_")
    if not run.startswith(".") or run[:2] == "..":
        return True
    return _period_ends(_token_before(text, line_start, match.start()), word)


class _Before(NamedTuple):
    token: str
    opens_line: bool


def _token_before(text: str, line_start: int, stop: int) -> _Before:
    nearby = text[max(line_start, stop - 30) : stop]
    if not nearby or nearby[-1].isspace():
        return _Before("", False)
    token = nearby.rsplit(None, 1)[-1]
    return _Before(token.lstrip("\"'“‘«([*_"), stop - len(token) == line_start)


def _period_ends(before: _Before, word: str) -> bool:
    token, lower = before.token, before.token.lower()
    if lower in _NEVER_LAST or (before.opens_line and _LIST_MARKER.match(token)):
        return False
    if lower in _BEFORE_NUMBER and word[:1].isdigit():
        return False
    initial = len(token) == 1 and token.isupper()
    if initial or lower in _MAYBE_LAST or _DOTTED.match(token):
        return not word or word.lower() in _STARTERS
    return True


def whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Grow ``start:end`` so that it cuts no word and no number such as 6,120 or 07:45 or 8.5."""
    while start > 0 and _joined(text, start):
        start -= 1
    while end < len(text) and _joined(text, end):
        end += 1
    return start, end


def _joined(text: str, at: int) -> bool:
    """Whether the characters before and after a border belong to one word or number."""
    before, after = text[at - 1 : at], text[at : at + 1]
    if before.isalnum() and after.isalnum():
        return True
    if before.isdigit() and after in ",.:/" and after:
        return text[at + 1 : at + 2].isdigit()
    return after.isdigit() and before in ",.:/" and bool(before) and text[at - 2 : at - 1].isdigit()
