"""What a question asks for by its number: an item of a list, or a section.

"What is on cylinder 8?": what stands above the list has to say what its items are. "What does
section 4.3 say?": a line has to begin with that number. Knows nothing of models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from drt_engine.answer.tables.wording import stem, table_words
from drt_engine.text.sentences import Span
from drt_engine.text.words import STOP_WORDS, word_set

_FEWEST = 4  # items
_LONGEST = 2_000  # characters of an item
_ABOVE = 600  # characters above a list that say what it is of
# "8. Song", or "6, 7. An old tale"
_ITEM = re.compile(
    r"(?m)^[ \t]*(?:[-*][ \t]+)?(?P<first>\d{1,3})(?:(?:, ?| and |[-\u2013])(?P<last>\d{1,3}))?[.)]"
    r"[ \t]+(?P<text>\S)"
)
_END = re.compile(r"\n[ \t]*(?:\n|\Z)|\Z")
_PARAGRAPH_END = re.compile(r"\n[ \t]*(?:\n|\Z)|\Z")
_ASKED = re.compile(
    r"(?i)\W*(?:what|which|who)(?:'s| is| are| was| were| does| did)? .*?\b(?P<noun>[^\W\d_]{3,})"
    r" (?:no\.? |number )?(?P<number>\d{1,3})"
    r"(?![\w%]|[.,:/-]\d| (?!(?:of|in|on|for|about)\b)\w)"
)
# Nouns of any list, and words of asking.
_NOUNS = word_set("item point step rule entry number place line")
_ASKING = word_set(
    "what which who is are was were does did do on in at of say says contain contains about hold"
    " holds list listed name called"
)
# "What is section 4.3 about?", "What does article 7 say?", with nothing else to ask
_SECTION_ASKED = re.compile(
    r"(?i)\W*(?:what|which)(?:'s| is| are| was| does| do| did)?"
    r"(?: the (?:title|heading|name|subject|topic|content|text)(?: of)?)?(?: the)?"
    r" (?P<noun>section|clause|article|paragraph|chapter|question|part|rule)s?(?: no\.?| number)?"
    r" (?P<number>\d{1,3}(?:\.\d{1,3}){0,4})"
    r"(?: (?:is )?(?:about|called|named|titled|says?|states?|covers?|contains?|deals? with"
    r"|regulates?|describes?|requires?|means?))?\s*[?.!]*\s*"
)
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
    # One line of a list that begins with the number is as good as another.
    if len(matches) != 1 or not (named or matches[0]["text"].strip()):
        return None
    start = len(text[: matches[0].start()]) + len(matches[0][0]) - len(matches[0][0].lstrip("# \t"))
    ends = [end.start() for end in _PARAGRAPH_END.finditer(text, start, start + _LONGEST)][:2]
    if not ends:
        return start, len(text[: start + _LONGEST].rstrip())
    first = text[start : ends[0]].rstrip()
    is_line = len(first) <= _HEADING and "\n" not in first
    is_heading = is_line and len(ends) > 1 and not first.endswith((".", ";", ","))
    return start, len(text[: ends[is_heading]].rstrip())


def numbered_item(question: str, text: str) -> Span | None:
    """Return where the item is that a question names by its number; None where it is not clear."""
    match = _ASKED.match(question)
    if match is None:
        return None
    rest = {
        stem(word)
        for word in table_words(question)
        if word not in STOP_WORDS | _ASKING | _NOUNS and word != match["number"]
    }
    if not rest and match["noun"].lower() not in _NOUNS:
        return None
    spans = [
        span
        for span, context in _items(int(match["number"]), text)
        if rest <= {stem(word) for word in table_words(context)}
    ]
    return spans[0] if len(spans) == 1 else None


def _items(number: int, text: str) -> Iterator[tuple[Span, str]]:
    """Yield the items of a number, in lists that count from 1, with what stands above the list."""
    run: list[re.Match[str]] = []
    end = 0  # of the list before
    for match in [*_ITEM.finditer(text), None]:
        if match is not None and run and int(match["first"]) == _numbers(run[-1])[-1] + 1:
            run.append(match)
            continue
        if len(run) >= _FEWEST:
            above = text[max(end, run[0].start() - _ABOVE) : run[0].start()]
            yield from ((_span(item, text), above) for item in run if number in _numbers(item))
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
