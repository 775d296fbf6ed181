"""How much of the document answers a question: the words, their sentence, or the whole list.

The reader points at few words. The type of the expected answer says whether they can be the answer:
a definition, a reason, a manner, a verdict and a comparison need their sentence, a list all its
items, wherever chunks begin and end. Knows stored text; knows nothing of models.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from drt_engine.answer.citations import with_whole_marks
from drt_engine.answer.sentences import sentences_at
from drt_engine.documents.structure.block_kinds import NEVER_QUOTED, block_kind
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.text.brackets import strip_lone_brackets

# Types that a clause, a sentence or several places answer; a short span of them is rarely right.
OPEN_TYPES = ("definition", "why", "how", "yesno", "list", "compare")
LIST_TYPES = ("list", "how")  # that a whole list may answer
SENTENCE = "definition"  # the type that a sentence answers
_LONGEST_SENTENCE = 700  # characters; what is longer is no sentence but text without stops
LONGEST_LIST = 4000  # characters; of a longer one the first items are shown
_WHOLE_LIST = 2000  # up to here any list is taken; a longer one must be one by its lead-in or items
_SHORT_ITEM = 80
_FEWEST_LEADING = 5  # words of a sentence without a stop that leads to a list; fewer are a heading
_FARTHEST_ITEM = 40_000  # characters from the span; what follows is not counted
_BULLETS = r"-*+\u00b7\u2022\u2013\u2023\u2219\u25a0\u25aa\u25cf\u25e6"
_ITEM = re.compile(
    rf"\s*(?:[{_BULLETS}]|\(?(?:\d{{1,3}}|[A-Za-z]|[ivx]{{2,5}})[.)]|#\.|o(?=\s\s))\s+\S"
)
# "Which values can ..", "What are the ..", "Which two ..", but not "Which status is ..".
_AUXILIARY = (
    r"(?:are|were|do|did|does|have|had|has|is|was|can|could|may|might|must|should|shall|will|would)"
)
_SEVERAL = re.compile(
    rf"(?i)\W*(?:(?:in|at|on|for|to|from|of|by|with|under) )?(?:which|what) (?:"
    rf"(?:(?!{_AUXILIARY}\b)\w+ ){{0,2}}?[a-z]*[^\Wsui]s(?= (?!is|was|has|does){_AUXILIARY}\b)"
    rf"|(?:are|were)\b|(?:two|three|four|five|six|seven|eight|nine|ten)\b)"
    rf"|\W*(?:list|name) (?:all|the)\b"
)
# What opens an item, a docstring or a comment, and says nothing.
_OPENING_MARK = re.compile(rf"(?:[{_BULLETS}]|/\*+!?|//+!?)[ \t]+|(?:\"{{3}}|'{{3}})[ \t]*")
_LONGEST_MARK = 10  # characters
_STEP = re.compile(r"\s*(?:\(?\d{1,3}[.)]|#\.)\s+\S")
_HOW_MUCH = re.compile(
    r"(?i)\W*how (?:many|much|long|old|big|large|high|tall|far|often|fast|deep|wide|heavy)\b"
)


class Grown(NamedTuple):
    """Characters of a document that answer; ``more_items`` of their list are left out behind."""

    start: int
    end: int
    more_items: int = 0


@dataclass(frozen=True)
class _Line:
    start: int
    end: int
    text: str
    listed: bool  # an item, or what an item goes on with

    @property
    def blank(self) -> bool:
        return not self.text.strip()


def answer_type(types: Mapping[str, float]) -> str:
    """Return the most likely type of the expected answer; empty where nothing is known."""
    return max(types, key=lambda name: types[name], default="")


def expected_type(types: Mapping[str, float], question: str) -> str:
    """Return the type of the expected answer: a list, too, where the question asks for several."""
    expected = answer_type(types)
    if expected == "how" and _HOW_MUCH.match(question):
        return "number"  # "How fast is it?" wants no steps
    return "list" if expected not in OPEN_TYPES and _SEVERAL.match(question) else expected


def grown_span(
    view: LibraryView,
    document: DocumentRow,
    span: tuple[int, int],
    expected: str,
    *,
    with_list: bool = True,
) -> Grown:
    """Return the characters of what answers a question of the type ``expected`` around a span.

    That is the span's sentence, or the list it belongs to, with its lead-in. A sentence that ends
    in a colon goes on with the list behind it, unless not ``with_list``, whether or not the span
    has some of its items. A span whose sentence is endless stays as it is.
    """
    if expected in LIST_TYPES:
        steps = expected == "how"
        block = list_around(view, document, span, asked=not steps, steps=steps)
        if block is not None:
            return block
    sentences = sentences_at(view, document, *span)
    if not sentences or sentences[-1][1] - sentences[0][0] > _LONGEST_SENTENCE:
        return Grown(*span)
    start, end = min(span[0], sentences[0][0]), max(span[1], sentences[-1][1])
    while len(sentences) > 1 and block_kind(view, document, *sentences[-1]) in NEVER_QUOTED:
        del sentences[-1]  # a heading, which begins something else
        end = sentences[-1][1]
    for first, stop in sentences if with_list else ():
        place = _led_place(view, document, first, stop)
        block = list_around(view, document, place, asked=expected == "list") if place else None
        if block is not None:
            return block._replace(start=min(start, block.start), end=max(end, block.end))
    mark = _OPENING_MARK.match(view.text(document.id, start, min(span[0], start + _LONGEST_MARK)))
    start += mark.end() if mark else 0
    text = view.text(document.id, start, end)
    first, last = strip_lone_brackets(text, 0, end - start)
    first, last = with_whole_marks(text, first, last)
    return Grown(start + first, start + last)


def _led_place(
    view: LibraryView, document: DocumentRow, start: int, stop: int
) -> tuple[int, int] | None:
    """Return a place of the list that a sentence leads to, as a colon or no stop at all shows."""
    last = view.text(document.id, stop - 1, stop)
    if last == ":":
        return stop - 1, stop
    if not last.isalnum() or len(view.text(document.id, start, stop).split()) < _FEWEST_LEADING:
        return None
    behind = view.text(document.id, stop, stop + _LONGEST_MARK + _SHORT_ITEM)
    blank = re.match(r"[ \t]*\n\s*", behind)
    if blank is None or not _ITEM.match(behind, blank.end()):
        return None
    return stop + blank.end(), stop + blank.end() + 1


def list_around(
    view: LibraryView,
    document: DocumentRow,
    span: tuple[int, int],
    *,
    asked: bool = False,
    steps: bool = False,
) -> Grown | None:
    """Return the characters of the list that a span is in or leads to; ``None`` without a list.

    Of lists within lists it is the innermost that has all of the span. The sentence before it is
    taken, too, where it ends in a colon. ``steps`` takes numbered lists alone. Of a long list that
    was ``asked`` for it is the first items, ``None`` where the span is in none of these; long lists
    without a lead-in are mostly change logs, clauses or questions.
    """
    low = max(0, span[0] - LONGEST_LIST)
    text = view.text(document.id, low, min(document.characters, span[1] + _FARTHEST_ITEM))
    lines = _lines(text, low)
    at = _line_of(lines, span[0])
    if at < 0 or not lines[at].listed:
        return None
    edges = (_edge(lines, at, -1), _edge(lines, at, 1))
    block_of = partial(
        _list_block, view, document, lines, at=at, span=span, asked=asked, steps=steps
    )
    whole = block_of(edges)
    longest = _WHOLE_LIST if whole is not None else 0  # what is in no list of its own is prose
    return block_of(_inner_list(lines, at, edges), longest=longest) or whole


def _inner_list(lines: list[_Line], at: int, whole: tuple[int, int]) -> tuple[int, int]:
    """Return first and last line of the items beside that of line ``at``, without outer ones."""
    first = last = next((n for n in range(at, -1, -1) if _ITEM.match(lines[n].text)), at)
    level = _indent(lines[first].text)
    for number in range(first - 1, whole[0] - 1, -1):
        if not lines[number].blank and _indent(lines[number].text) < level:
            break
        if _ITEM.match(lines[number].text) and _indent(lines[number].text) == level:
            first = number
    for number in range(last + 1, whole[1] + 1):
        if not lines[number].blank:
            if _indent(lines[number].text) < level:
                break
            last = number
    return first, last


def _list_block(
    view: LibraryView,
    document: DocumentRow,
    lines: list[_Line],
    edges: tuple[int, int],
    *,
    at: int,
    span: tuple[int, int],
    asked: bool,
    steps: bool,
    longest: int = _WHOLE_LIST,
) -> Grown | None:
    """Return the characters of the list between two lines; see ``list_around``."""
    first, last = edges
    if steps and not _STEP.match(lines[first].text):
        return None
    while last > at and _is_heading(view, document, lines[last]):
        last = _last_line(lines, last)  # what follows begins something else
    items = [n for n in range(first, last + 1) if _ITEM.match(lines[n].text)]
    if len(items) < 2 or (first == 0 and lines[0].start > 0):  # it began long before
        return None
    start = lines[first].start
    lead = next((line for line in reversed(lines[:first]) if not line.blank), None)
    is_led = lead is not None and lead.text.rstrip().endswith(":")
    if lead is not None and is_led:
        stop = lead.start + len(lead.text.rstrip())
        start = sentences_at(view, document, stop - 1, stop)[0][0]
    # Each item ends where the next one begins; those that fit are shown, with all their parts.
    outer_items = [n for n in items if _indent(lines[n].text) <= _indent(lines[first].text)]
    items = outer_items if len(outer_items) > 1 else items
    ends = [lines[_last_line(lines, n)].end for n in items[1:]] + [lines[last].end]
    is_one = asked and (is_led or ends[-1] - lines[first].start <= _SHORT_ITEM * len(items))
    if ends[-1] - start > longest and not is_one:
        return None
    shown = sum(end - start <= LONGEST_LIST for end in ends)
    if shown < 2 or ends[shown - 1] < span[1]:
        return None
    return Grown(start, ends[shown - 1], len(items) - shown)


def _is_heading(view: LibraryView, document: DocumentRow, line: _Line) -> bool:
    is_item = _ITEM.match(line.text) is not None
    return not is_item and block_kind(view, document, line.start, line.end) == "heading"


def _line_of(lines: list[_Line], position: int) -> int:
    """Return the line at a position, or the first one behind it where it leads to a list."""
    at = next((n for n, line in enumerate(lines) if line.end > position), len(lines) - 1)
    if at >= 0 and not lines[at].listed and lines[at].text.rstrip().endswith(":"):
        at = next((n for n in range(at + 1, len(lines)) if not lines[n].blank), at)
    return at


def _lines(text: str, base: int) -> list[_Line]:
    """Return the lines of a text that begins at the character ``base``."""
    lines: list[_Line] = []
    indent = -1  # of the last item; what is deeper behind a blank line belongs to it
    for match in re.finditer(r"[^\n]*\n|[^\n]+\Z", text):
        line = match.group().rstrip("\n")
        is_item = _ITEM.match(line) is not None
        before = lines[-1] if lines else None
        if is_item:
            indent = _indent(line)
        elif line.strip() and not (before is not None and before.listed):
            is_after_item = before is not None and before.blank and indent >= 0
            indent = indent if is_after_item and _indent(line) > indent else -1
        listed = bool(line.strip()) and indent >= 0
        start = base + match.start()
        lines.append(_Line(start, start + len(line.rstrip()), line, listed))
    return lines


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _last_line(lines: list[_Line], item: int) -> int:
    """Return the last line of what is before an item that is not blank."""
    return next(n for n in range(item - 1, -1, -1) if not lines[n].blank)


def _edge(lines: list[_Line], at: int, step: int) -> int:
    """Return the last line of the list of line ``at``, up (-1) or down (1), over blank lines."""
    edge = at
    number = at + step
    while 0 <= number < len(lines) and (lines[number].listed or lines[number].blank):
        if lines[number].listed:
            edge = number
        number += step
    return edge
