"""A whole list, or how many items it has, by the line that leads to it.

"What are the four principles?", "How many principles are there?": the heading or the last line
above a list has all words of what is asked for. Knows nothing of models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from drt_engine.answer.tables.table_question import NUMBERS
from drt_engine.answer.tables.wording import content_stems, stem
from drt_engine.text.sentences import Span, sentence_spans
from drt_engine.text.words import STOP_WORDS, word_set

_FEWEST = 2  # items
_LONGEST = 4_000  # characters of a list that is shown as a whole
_LONGEST_LEAD = 300
_MOST_WITHIN = 2_000  # lists that lines with a colon lead to; each is walked through
# A list within a sentence: "the layouts: even, main, or tiled."
_FEWEST_INLINE, _MOST_ITEM_WORDS, _LONGEST_INLINE_LEAD = 3, 6, 150
_INLINE = re.compile(r"(?<=\w):\s+(?P<items>[^.:;!?]{5,400}?)(?=[.;]|\n[ \t]*\n|\Z)")
_SEPARATOR = re.compile(r",\s*(?:(?:and|or)\s+)?|\s+(?:and|or)\s+")
_WORD = re.compile(r"[^\W_]+")
_LEAST_OF_LEAD = 0.6  # of the content words of a lead, or of a heading, that the question has
_MOST_BETWEEN = 2  # paragraphs between a heading and its list, the last of which ends in a colon
_ITEM = re.compile(
    r"(?P<indent>[ \t]*)(?P<mark>[-*+\u2022\u2023\u25a0\u25aa\u25cf\u25e6\u25a1]"
    r"|\(?(?:\d{1,3}|[a-z]|[ivx]{2,5})[.)]|[A-Z]\)|#\.|o(?= {2}))[ \t]+\S.*"
)
# Tried at the begins of lines alone: from each of many spaces, it would read all that follow.
_LINE = re.compile(r"(?m)^[^\n]*\S[^\n]*")
_ROMANS = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")
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
    rf"(?i)\W*(?:what|which|who) (?:are|were) (?:all )?(?:the )?{_COUNT}(?P<what>\S.*)"
    rf"|\W*what (?:must|should|do|does|can|may) (?P<holder>[\w '-]{{3,60}}?)"
    rf" (?:contain|include|consist of|comprise)\W*\Z"
    rf"|\W*(?:please )?(?:list|name|enumerate|give)(?: me)? (?:all )?(?:of )?(?:the )?"
    rf"(?P<all_count>{'|'.join(NUMBERS)}|\d{{1,2}})? ?(?P<all>\S.*)"
)
_ASKING = word_set(
    """
    list listed lists named given name mentioned described defined item items following main
    different various document text there called exist contain consist include comprise
    information detail least supported available step steps
    """
)
_ASKING_STEMS = frozenset(map(stem, _ASKING))
_STEPS = re.compile(r"(?i)\bsteps?\b")
_INCLUDING = re.compile(
    r"(?P<lead>[,;]?\s+(?:including|such as|namely|as follows|in particular|for example)"
    r"[^.:\n]{0,60}:)[ \t]*\n"
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


@dataclass(frozen=True)
class AskedList:
    """The content words of what a question asks all of, how many it says there are, or asks."""

    stems: frozenset[str]
    count: int | None
    asks_count: bool


def asked_list(question: str) -> AskedList | None:
    """Return what a question asks all items, or the number, of; None for other questions."""
    if counted := _HOW_MANY.fullmatch(question):
        what, count = f"{counted['what']} {counted['rest']}", None
    elif listed := _ALL.fullmatch(question):
        what = listed["what"] or listed["holder"] or listed["all"]
        number = (listed["count"] or listed["all_count"] or "").lower()
        count = NUMBERS.get(number) or (int(number) if number else None)
    else:
        return None
    stems = content_stems(what) - _ASKING_STEMS
    return AskedList(frozenset(stems), count, counted is not None) if stems else None


def led_list(question: str, text: str, context: Collection[str] = ()) -> LedList | None:
    """Return the one list whose lead or heading has all words that a question asks for.

    ``context`` are words of what the document is called. None where several lists fit, or the
    number of items is another one than the question says.
    """
    asked = asked_list(question)
    names = {stem(word) for word in context}
    if asked is None or (asked.stems <= names and not _STEPS.search(question)):
        return None
    hits = []
    for block in map(partial(_with_last_sentence, text), _lists(text)):
        leads = [
            content_stems(part) - _ASKING_STEMS
            for part in (text[slice(*block.lead)], block.heading)
        ]
        # Of a lead that says more, the list is of something else.
        is_of_it = any(
            len(asked.stems & lead) >= _LEAST_OF_LEAD * len(lead) > 0 for lead in leads
        ) or _counts(asked, text[slice(*block.lead)])
        if asked.stems <= leads[0] | leads[1] | names and is_of_it:
            hits.append(block)
    if not hits and not asked.asks_count:
        return _inline_list(asked, text)
    if len(hits) != 1 or (asked.count is not None and hits[0].count != asked.count):
        return None
    start, end = hits[0].lead[0], hits[0].end
    if end - start > _LONGEST:
        return None
    return LedList(start, end, hits[0].count, asked.asks_count)


def _with_last_sentence(text: str, block: _List) -> _List:
    """Return a list whose lead is the last sentence of the paragraph above it."""
    start, end = block.lead
    *_, (last, _) = [(0, 0), *sentence_spans(text[start:end])]
    return replace(block, lead=(start + last, end))


def _counts(asked: AskedList, lead: str) -> bool:
    """Return whether a lead ends with the number and the name of what is asked for."""
    if asked.count is None or not lead.rstrip().endswith(":"):
        return False
    said = [word.lower() for word in _WORD.findall(lead)]
    places = [n for n, word in enumerate(said) if NUMBERS.get(word) == asked.count]
    return bool(places) and {stem(w) for w in said[places[-1] + 1 :]} == asked.stems


def _inline_list(asked: AskedList, text: str) -> LedList | None:
    """Return the one list within a sentence that the words asked for lead to, with a colon.

    "one of the three layouts: even, main, or tiled."
    """
    hits = []
    for match in _INLINE.finditer(text):
        low = max(0, match.start() - _LONGEST_INLINE_LEAD)
        low = max(low, text.rfind("\n\n", low, match.start()))
        named = [
            word
            for word in _WORD.finditer(text, low, match.start())
            if word[0].lower() not in STOP_WORDS
        ][-len(asked.stems) :]
        items = [item for item in _SEPARATOR.split(match["items"]) if item.strip()]
        is_short = all(len(item.split()) <= _MOST_ITEM_WORDS for item in items)
        is_named = {stem(word[0].lower()) for word in named} == asked.stems
        if is_named and is_short and len(items) >= _FEWEST_INLINE:
            start, end = named[0].start(), match.end("items")
            hits.append(LedList(start, end, len(items), asks_count=False))
    is_clear = len(hits) == 1 and asked.count in (None, hits[0].count)
    return hits[0] if is_clear else None


def list_behind(text: str, at: int) -> int | None:
    """Return where the list ends that goes on with what is before ``at``: ".., including:".

    None where no such words with a colon are behind it, or no list is below them.
    """
    lead = _INCLUDING.match(text, at)
    if lead is None:
        return None
    start = text.rfind("\n", 0, at) + 1
    window = text[start : lead.end() + _LONGEST]
    colon = lead.end("lead") - start
    ends = (block.end for block in _lists(window) if block.lead[0] < colon <= block.lead[1])
    end = next(ends, None)
    return None if end is None or start + end - at > _LONGEST else start + end


@dataclass(frozen=True)
class _Line:
    start: int
    text: str
    item: re.Match[str] | None

    @property
    def end(self) -> int:
        return self.start + len(self.text.rstrip())

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())


def _lists(text: str) -> Iterator[_List]:
    """Yield the lists of a text, those within items too, with what leads to each."""
    lines = [
        _Line(match.start(), match[0], _ITEM.fullmatch(match[0])) for match in _LINE.finditer(text)
    ]
    leads = _Leads(text)
    end = 0  # of the last list, or of the lists within it
    within = 0  # lists within items that were looked at
    for number, line in enumerate(lines):
        is_lead = number > 0 and lines[number - 1].text.rstrip().endswith(":")
        is_within = line.start < end
        if is_within:
            is_lead = is_lead and within < _MOST_WITHIN
            within += is_lead
        if line.item is not None and leads.lead is not None and (not is_within or is_lead):
            items, last = _items(lines, number, within=is_within)
            if len(items) >= _FEWEST:
                heading = "" if is_within else leads.heading
                yield _List(leads.lead, leads.heading_for_list(heading), last, len(items))
            end = max(end, last)
        above = lines[number - 1].start + len(lines[number - 1].text) if number else -2
        leads.see(line, after_blank=line.start - above > 1, in_list=line.start < end)


class _Leads:
    """What leads to the next line of a text: the paragraph above it, and the last heading."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.lead: Span | None = None
        self.heading = ""
        self._paragraphs, self._lists = 0, 0  # since the heading

    def heading_for_list(self, heading: str) -> str:
        """Return the heading of a list: a later one that has a lead with a colon has none."""
        self._lists += 1
        assert self.lead is not None
        is_led = self._lists > 1 and self._text[self.lead[1] - 1] == ":"
        return "" if is_led else heading

    def see(self, line: _Line, *, after_blank: bool, in_list: bool) -> None:
        """Take the next line that is not blank."""
        span = (line.start, line.end)
        is_title = after_blank and len(line.text) <= _LONGEST_HEADING and _is_title(line.text)
        if line.item is None and not in_list:
            if _RULE.fullmatch(line.text):
                if self.lead is not None:
                    self._enter(self._text[slice(*self.lead)])
                return
            if _HEADING.match(line.text) or is_title:
                self._enter(line.text)
            else:
                self._paragraphs += after_blank
                if self._paragraphs > _MOST_BETWEEN:
                    self.heading = ""
                is_same = not after_blank and self.lead is not None
                if is_same and self.lead and line.end - self.lead[0] <= _LONGEST_LEAD:
                    span = (self.lead[0], line.end)
        self.lead = span

    def _enter(self, heading: str) -> None:
        self.heading, self._paragraphs, self._lists = heading, 0, 0


def _items(lines: Sequence[_Line], first: int, *, within: bool) -> tuple[list[_Line], int]:
    """Return the items of the list that begins with a line, and where the last one ends.

    No items of a list ``within`` another that is too long to be shown.
    """
    base, before = lines[first], lines[first]
    items, end = [base], base.end
    for number in range(first + 1, len(lines)):
        line = lines[number]
        if within and line.start - base.start > _LONGEST:
            return [], end
        if line.item is None:
            is_below = line.start - before.start - len(before.text) <= 1
            if line.indent <= base.indent and not is_below:
                break
        elif line.indent == base.indent and _is_next(items[-1], line):
            items.append(line)
        elif line.indent < base.indent or not (line.indent > base.indent or _is_first(line)):
            break
        before, end = line, line.end
    return items, end


def _is_next(item: _Line, line: _Line) -> bool:
    """Return whether a line has the mark that follows that of an item: b) is next to a)."""
    assert item.item is not None and line.item is not None
    marks = (item.item["mark"], line.item["mark"])
    if marks[0] == marks[1] == "o":  # a bullet of RFCs
        return True
    one, other = (mark.strip("().") for mark in marks)
    if not one.isalnum() or not other.isalnum():
        return marks[0] == marks[1]
    if one.isdigit() and other.isdigit():
        return int(other) == int(one) + 1
    if one in _ROMANS and other in _ROMANS and _ROMANS.index(other) == _ROMANS.index(one) + 1:
        return True
    return len(one) == len(other) == 1 and ord(other) == ord(one) + 1


def _is_first(line: _Line) -> bool:
    """Return whether a line begins a list within an item, or goes on with one."""
    assert line.item is not None
    mark = line.item["mark"].strip("().")
    return not mark.isalnum() or mark in ("1", "a", "i") or mark in _ROMANS


def _is_title(line: str) -> bool:
    return line.strip()[:1].isupper() and not line.rstrip().endswith((".", ":", ",", ";", "?", "!"))
