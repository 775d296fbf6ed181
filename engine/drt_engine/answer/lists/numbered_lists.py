"""What a question asks for by its number: an item of a list, or a section.

"What is on cylinder 8?": what stands above the list has to say what its items are. "What does
section 4.3 say?": a line has to begin with that number. Knows nothing of models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from drt_engine.answer.tables.table_question import ORDINALS
from drt_engine.answer.tables.wording import stem, table_words
from drt_engine.text.sentences import Span
from drt_engine.text.words import STOP_WORDS, word_set

_FEWEST = 3  # items
_LAST = -1  # of a list
_LONGEST = 2_000  # characters of an item
_ABOVE = 600  # characters above a list that say what it is of
# "8. Song", or "6, 7. An old tale"
_ITEM = re.compile(
    r"(?m)^[ \t]*(?:[-*][ \t]+)?(?P<first>\d{1,3})(?:(?:, ?| and |[-\u2013])(?P<last>\d{1,3}))?[.)]"
    r"[ \t]+(?P<text>\S)"
)
_END = re.compile(r"\n[ \t]*(?:\n|\Z)|\Z")
_PARAGRAPH_END = re.compile(r"\n[ \t]*(?:\n|\Z)|\Z")
_JUST_ABOVE = 100  # of these, the last
_PLURAL_ABOVE = 2_000  # characters above a list in which its items may be named: "cylinders"
_ORDINAL = re.compile(
    rf"(?i)\W*(?:what|which|who)(?:'s| is| are| was| were| does| did)? (?:\w+ ){{0,3}}?the"
    rf" (?P<ordinal>{'|'.join(ORDINALS)}|last|final) (?P<noun>[^\W\d_]{{3,}})\b"
)
_ASKED = re.compile(
    r"(?i)\W*(?:what|which|who)(?:'s| is| are| was| were| does| did)? .*?\b(?P<noun>[^\W\d_]{3,})"
    r" (?:no\.? |number )?(?P<number>\d{1,3})"
    r"(?![\w%]|[.,:/-]\d| (?!(?:of|in|on|for|about)\b)\w)"
)
# Nouns of any list, and words of asking.
_NOUNS = word_set("item point step rule entry number place line")
_COUNTED = word_set("item point step rule entry")  # "the last line" may be of a poem
_ASKING = word_set(
    "what which who is are was were does did do on in at of say says contain contains about hold"
    " holds list listed name called"
)
# "What is section 4.3 about?", "What does article 7 say?", with nothing else to ask
_SECTION_ASKED = re.compile(
    r"(?i)\W*(?:what|which)(?:'s| is| are| was| does| do| did)?"
    r"(?: the (?:title|heading|name|subject|topic|content|text)(?: of)?)?(?: the)?"
    r" (?P<noun>section|clause|article|paragraph|chapter|question|part|rule)s?(?: no\.?| number)?"
    r" (?P<number>\d{1,3}(?:\.\d{1,3}){0,4}|[ivxl]{1,6}\b)"
    r"(?: ?\((?P<letter>[a-z]|[ivx]{2,4})\))?"
    r"(?: (?:is )?(?:about|called|named|titled|says?|states?|covers?|contains?|deals? with"
    r"|regulates?|describes?|requires?|means?))?\s*[?.!]*\s*"
)
_NUMBER_LINE = re.compile(r"(?m)^[ \t]*(?:#{1,6}[ \t]+)?\d{1,3}(?:\.\d{1,3}){0,4}[.)]?[ \t]+\S")
_LETTERED = re.compile(r"(?m)^[ \t]*(?:[-*][ \t]+)?\(?(?:[a-z]|[ivx]{2,4})[.)][ \t]+\S")
# "2. **What we own.** We own ..", "7.2 The tenant shall": a paragraph with its number
_PARAGRAPH = re.compile(
    r"(?m)^[ \t]*(?:(?i:section|clause|article|rule|\u00a7)[ \t]*)?"
    r"(?P<number>\d{1,3}(?:\.\d{1,3}){0,4}[.)]?)[ \t]+(?=\S)"
)
_RUN_IN = re.compile(
    r"(?:(?P<mark>\*\*|__)(?=\S)[^*_\n]{2,90}(?P=mark)|[A-Z\u201c\"][^.:;\n]{2,60}[.:](?=[ \t]+\S))"
)
_DEEPER = re.compile(r"[ \t]|\(?[a-z]{1,4}[.)] ")  # from the indent of the number
_CONTENTS = re.compile(r"(?:\.[ .]{2,}|[ \t]{3,})\d+[ \t]*\Z")
_HEADING = 90  # characters; what a heading is about is in the paragraph below it
_LINE_END = 60  # characters in which dots lead to a page


def numbered_section(question: str, text: str) -> Span | None:
    """Return where the section, clause or question is that is asked for by its number alone."""
    asked = _SECTION_ASKED.fullmatch(question)
    if asked is None:
        return None
    line = re.compile(
        rf"(?mi)^[ \t]*(?:#{{1,6}}[ \t]+)?(?:\*\*)?(?P<noun>(?:{asked['noun']}|\u00a7)[ \t]*)?"
        rf"{re.escape(asked['number'])}(?:[.):\u2014\u2013-]+[ \t]+|[ \t]+|$)(?P<text>.*)$"
    )
    matches = [m for m in line.finditer(text) if not _CONTENTS.search(m[0][-_LINE_END:])]
    named = [match for match in matches if match["noun"]]
    matches = named or matches
    if len(matches) > 1:  # a line of its own is a heading, those in a row are contents
        matches = [match for match in matches if _is_alone(text, match)]
    # One line of a list that begins with the number is as good as another.
    if len(matches) != 1 or not (named or matches[0]["text"].strip()):
        return None
    start = len(text[: matches[0].start()]) + len(matches[0][0]) - len(matches[0][0].lstrip("# \t"))
    if asked["letter"]:
        return _lettered(asked["letter"], text, matches[0].end())
    ends = [end.start() for end in _PARAGRAPH_END.finditer(text, start, start + _LONGEST)][:2]
    if not ends:
        return start, len(text[: start + _LONGEST].rstrip())
    first = text[start : ends[0]].rstrip()
    is_line = len(first) <= _HEADING and "\n" not in first
    is_heading = is_line and len(ends) > 1 and not first.endswith((".", ";", ","))
    return start, len(text[: ends[is_heading]].rstrip())


def _is_alone(text: str, line: re.Match[str]) -> bool:
    """Return whether there are empty lines above and below a line."""
    end = max(0, line.start() - 1)
    above = text[text.rfind("\n", 0, end) + 1 : end]
    below = text[line.end() + 1 :][:_LINE_END].partition("\n")[0]
    return not above.strip() and not below.strip()


def _lettered(letter: str, text: str, start: int) -> Span | None:
    """Return where the item of a letter is, before the next number; None where it is twice."""
    end = _NUMBER_LINE.search(text, start)
    stop = min(end.start() if end else len(text), start + 2 * _LONGEST)
    begin = re.compile(rf"(?mi)^[ \t]*(?:[-*][ \t]+)?\(?{letter}[.)][ \t]+(?=\S)")
    items = list(begin.finditer(text, start, stop))
    if len(items) != 1:
        return None
    borders = [
        _LETTERED.search(text, items[0].end(), stop),
        _END.search(text, items[0].end(), stop),
    ]
    ends = [border.start() for border in borders if border]
    item = items[0].start() + len(items[0][0]) - len(items[0][0].lstrip())
    return item, len(text[: min(ends, default=stop)].rstrip())


def numbered_item(question: str, text: str) -> Span | None:
    """Return where the item is that a question names by its number; None where it is not clear."""
    match = _ASKED.match(question) or _ORDINAL.match(question)
    if match is None:
        return None
    noun, word = match["noun"].lower(), match.groupdict().get("ordinal", "").lower()
    number = ORDINALS.get(word) or (_LAST if word else int(match["number"]))
    rest = {
        stem(other)
        for other in table_words(question)
        if other not in STOP_WORDS | _ASKING | _NOUNS | {word} and other != str(number)
    }
    if not rest and noun not in (_COUNTED if word else _NOUNS):
        return None
    hits = [
        (_span(item, text), above)
        for items, above in _lists(text)
        for item in items
        if (number in _numbers(item) or (number == _LAST and item is items[-1]))
        and (rest <= _stems(above[-_ABOVE:]) or (rest == {stem(noun)} and _names(noun, above)))
    ]
    if len(hits) > 1:  # "step 3" of the list of steps
        hits = [hit for hit in hits if stem(noun) in _stems(hit[1][-_JUST_ABOVE:])]
    return hits[0][0] if len(hits) == 1 else None


def _stems(text: str) -> set[str]:
    return {stem(word) for word in table_words(text)}


def _names(noun: str, above: str) -> bool:
    """Return whether what is above a list has the plural of a noun, which its items may be."""
    return re.search(rf"(?i)\b{re.escape(noun)}e?s\b", above) is not None


def _lists(text: str) -> Iterator[tuple[list[re.Match[str]], str]]:
    """Yield the lists that count from 1, with what stands above each."""
    run: list[re.Match[str]] = []
    end = 0  # of the list before
    for match in [*_ITEM.finditer(text), None]:
        if match is not None and run and int(match["first"]) == _numbers(run[-1])[-1] + 1:
            run.append(match)
            continue
        if len(run) >= _FEWEST:
            yield run, text[max(end, run[0].start() - _PLURAL_ABOVE) : run[0].start()]
        if run:
            end = run[-1].end()
        run = [match] if match is not None and match["first"] == "1" else []


def _numbers(item: re.Match[str]) -> range:
    first = int(item["first"])
    return range(first, max(first, int(item["last"] or first)) + 1)


def _span(item: re.Match[str], text: str) -> Span:
    start = item.start("text")
    ends = [
        match.start()
        for match in (
            _END.search(text, start, start + _LONGEST),
            _ITEM.search(text, start, start + _LONGEST),
        )
        if match
    ]
    return start, len(text[: min(ends)].rstrip())


def paragraph_number(text: str, at: int) -> Span | None:
    """Return the number, with the title behind it, of the numbered paragraph a character is in.

    Other paragraphs have to go on counting: a year or an amount at the begin of a line is none.
    """
    starts = list(_PARAGRAPH.finditer(text))
    for n, match in reversed(list(enumerate(starts))):
        if match.start() > at:
            continue
        counts = any(_follows(one, other) for one, other in pairwise(starts[max(0, n - 1) : n + 2]))
        if counts and _goes_on(match, text, at):
            title = _RUN_IN.match(text, match.end())
            return match.start("number"), title.end() if title else match.end("number")
    return None


def _goes_on(number: re.Match[str], text: str, at: int) -> bool:
    """Return whether a paragraph goes on to a character: what is below a blank line is indented."""
    indent = len(number[0]) - len(number[0].lstrip())
    below = re.split(r"\n[ \t]*\n", text[number.end() : text.find("\n", at) % (len(text) + 1)])[1:]
    return all(_DEEPER.match(part, indent) for part in below)


def _follows(before: re.Match[str], after: re.Match[str]) -> bool:
    """Return whether a number counts on from another at its level: 7.2 from 7.1, 8 from 7."""
    first, second = (match["number"].strip(".)").split(".") for match in (before, after))
    return first[:-1] == second[:-1] and int(second[-1]) == int(first[-1]) + 1
