"""A whole list, or how many items it has, by the line that leads to it.

"What are the four principles?", "How many principles are there?": the heading or the last line
above a list has all words of what is asked for. Knows nothing of models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from drt_engine.answer.tables.table_question import NUMBERS
from drt_engine.answer.tables.wording import stem, table_words
from drt_engine.text.sentences import Span
from drt_engine.text.words import STOP_WORDS, word_set

_FEWEST = 2  # items
_LONGEST = 4_000  # characters of a list that is shown as a whole
_LONGEST_LEAD = 300
_LEAST_OF_LEAD = 0.6  # of the content words of a lead, or of a heading, that the question has
_MOST_BETWEEN = 2  # paragraphs between a heading and its list, the last of which ends in a colon
_ITEM = re.compile(
    r"(?P<indent>[ \t]*)(?P<mark>[-*+\u2022\u2023\u25a0\u25aa\u25cf\u25e6\u25a1]"
    r"|\(?(?:\d{1,3}|[a-z]|[ivx]{2,5})[.)])[ \t]+\S.*"
)
_RULE = re.compile(r"[ \t]*([-=~^*_+#.])\1{2,}[ \t]*")
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]|[ \t]*\*\*[^*]+\*\*:?[ \t]*\Z")
_LONGEST_HEADING = 80
_THERE = (
    r"(?:(?:are|were) (?:there|listed|named|given|mentioned|described|defined|set out)"
    r"|(?:do|does) (?:it|(?:the|this) [\w -]{3,40}) (?:have|list|name|contain|give|take|mention))"
)
_HOW_MANY = re.compile(rf"(?i)\W*how many (?P<what>[\w' -]+?) {_THERE}(?P<rest>\b.*)")
_COUNT = rf"(?:(?P<count>{'|'.join(NUMBERS)}|\d{{1,2}}) )?"
_ALL = re.compile(
    rf"(?i)\W*(?:what|which) (?:are|were) (?:all )?(?:the )?{_COUNT}(?P<what>\S.*)"
    rf"|\W*(?:please )?(?:list|name|enumerate|give)(?: me)? (?:all )?(?:of )?(?:the )?"
    rf"(?P<all_count>{'|'.join(NUMBERS)}|\d{{1,2}})? ?(?P<all>\S.*)"
)
_ASKING = word_set(
    """
    list listed lists named given name mentioned described defined item items following main
    different various document text there called exist
    """
)


@dataclass(frozen=True)
class LedList:
    """Where a list is with its lead, the number of its items, and whether that is asked for."""

    start: int
    end: int
    count: int
    asks_count: bool


@dataclass(frozen=True)
class _List:
    lead: Span
    heading: str
    end: int
    count: int


def asks_list(question: str) -> bool:
    """Return whether a question may be one that ``led_list`` answers."""
    return bool(_HOW_MANY.fullmatch(question) or _ALL.fullmatch(question))


def led_list(question: str, text: str, context: Collection[str] = ()) -> LedList | None:
    """Return the one list whose lead or heading has all words that a question asks for.

    ``context`` are words of what the document is called. None where several lists fit, or the
    number of items is another one than the question says.
    """
    counted, listed = _HOW_MANY.fullmatch(question), _ALL.fullmatch(question)
    if counted:
        what, count = f"{counted['what']} {counted['rest']}", None
    elif listed:
        what = listed["what"] or listed["all"]
        number = (listed["count"] or listed["all_count"] or "").lower()
        count = NUMBERS.get(number) or (int(number) if number else None)
    else:
        return None
    asking = {stem(word) for word in _ASKING}
    asked = _stems(what) - asking
    if not asked - {stem(word) for word in context}:
        return None
    hits = []
    for block in _lists(text):
        leads = [_stems(text[slice(*block.lead)]) - asking, _stems(block.heading) - asking]
        known = leads[0] | leads[1] | {stem(word) for word in context}
        # Of a lead that says more, the list is of something else.
        is_of_it = any(len(asked & lead) >= _LEAST_OF_LEAD * len(lead) > 0 for lead in leads)
        if asked <= known and is_of_it:
            hits.append(block)
    if len(hits) != 1 or (count is not None and hits[0].count != count):
        return None
    block = hits[0]
    start, end = block.lead[0], block.end
    if end - start > _LONGEST:
        return None
    return LedList(start, end, block.count, counted is not None)


def _stems(text: str) -> set[str]:
    return {stem(word) for word in table_words(text) if word not in STOP_WORDS}


def _lists(text: str) -> Iterator[_List]:
    """Yield the lists of a text: items of one mark and indent, one below the other."""
    heading, lead = "", (0, 0)
    between, has_list = 0, False  # paragraphs since the heading; whether it has had a list
    items: list[int] = []  # where the items begin
    indent, kind, end = "", "", 0
    blank, at = True, 0
    for line in [*text.split("\n"), "."]:
        start, at = at, at + len(line) + 1
        if not line.strip():
            blank = True
            continue
        item = _ITEM.fullmatch(line)
        if items:
            width = len(line) - len(line.lstrip())
            same = item is not None and item["indent"] == indent and _kind(item["mark"]) == kind
            if same or width > len(indent) or not (blank or item):
                items += [start] if same else []
                end, blank = start + len(line.rstrip()), False
                continue
            if len(items) >= _FEWEST and lead[1]:
                is_led = has_list and text[lead[1] - 1] == ":"  # by its own line alone
                yield _List(lead, "" if is_led else heading, end, len(items))
                has_list = True
            items, lead = [], (0, 0)
        if item is not None:
            items, indent, kind = [start], item["indent"], _kind(item["mark"])
            end = start + len(line.rstrip())
        elif _RULE.fullmatch(line):
            heading, between, has_list = text[slice(*lead)], 0, False
        elif _HEADING.match(line) or (blank and len(line) <= _LONGEST_HEADING and _is_title(line)):
            heading, between, has_list = line, 0, False
            lead = (start, start + len(line.rstrip()))
        else:
            begin = start if blank or not lead[1] else lead[0]
            between += blank
            lead = (begin, start + len(line.rstrip()))
            if lead[1] - lead[0] > _LONGEST_LEAD:
                lead = (start, lead[1])
            if between > _MOST_BETWEEN:
                heading = ""
        blank = False


def _kind(mark: str) -> str:
    """Return what marks of one list have in common."""
    return mark if mark[-1:] not in ".)" else re.sub(r"\w+", "1", mark)


def _is_title(line: str) -> bool:
    return line.strip()[:1].isupper() and not line.rstrip().endswith((".", ":", ",", ";", "?", "!"))
