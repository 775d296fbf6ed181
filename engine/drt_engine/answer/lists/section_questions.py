"""Questions for a place in a document: "Which section deals with X?", "On which page is X?".

The frame of such a question is in no passage; what is left is asked instead, and the heading or the
page of its answer is what is wanted. Knows nothing of models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from drt_engine.answer.tables.wording import stem
from drt_engine.text.words import STOP_WORDS, word_set, words

_NOUN = (
    r"(?P<noun>(?:sub)?sections?|chapters?|(?:sub)?clauses?|articles?|paragraphs?|parts?|headings?"
    r"|headlines?|headers?|appendix|appendices|annex|schedules?|rules?|provisions?|pages?)"
)
_DOCUMENT = (
    r"(?:document|text|file|book|ebook|report|manual|guide|handbook|tutorial|spec(?:ification)?"
    r"|standard|agreement|contract|paper|thesis|licen[cs]e|policy|act|law|constitution|charter"
    r"|notebook|novel|readme|pdf|faq|minutes)"
)
_IN_IT = rf"(?: (?:in|of|from) (?:the|this|that) (?:[\w-]+ )?{_DOCUMENT})?"
_BE = r"(?:is|are|was|were)"
_AUXILIARY = r"(?:is|are|was|were|does|do|did|has|have|had|can|could|may|must|should|will|would)"
_TREATED = (
    r"(?:described|explained|defined|covered|discussed|treated|mentioned|addressed|documented"
    r"|specified|regulated|introduced|listed|found|given|dealt with|talked about|to be found|about"
    r"|set out|presented|shown|stated)"
)
# Of no thing, but of what is written about it.
_WRITTEN = (
    r"(?:described|explained|defined|covered|discussed|documented|specified|introduced"
    r"|dealt with|talked about)"
)
_TREATS = (
    r"(?:deals? with|is about|are about|covers?|describes?|explains?|discuss(?:es)?|address(?:es)?"
    r"|treats?|concerns?|regulates?|governs?|defines?|lists?|mentions?|introduces?|documents?"
    r"|specif(?:ies|y)|talks? about|speaks? of|tells? (?:you |me |us )?about|is on|sets? out"
    r"|presents?|handles?|has|have|contains?|includes?|gives?|provides?|shows?)"
)
_SAYS = r"(?:says?|states?|tells?(?: you| me| us)?|explains?|describes?|specif(?:ies|y))"
_ASKING = (
    r"(?:(?:in|on|at|to|from|of|by|with|for|under|until) )?"
    r"(?:who|whom|whose|what|when|where|why|how|which|whether|if)"
)
_END = r"\s*[?.!]*\s*"

# "In which section is X described?", "On which page does A meet B?"
_IN_WHICH = re.compile(
    rf"(?i)\W*(?:in|under|on|at|from) (?:which|what) {_NOUN}(?: number)?{_IN_IT}"
    rf" (?P<rest>{_AUXILIARY}\b .+?){_END}"
)
# "Which section says how X works?", "Which clause says that X?"
_WHICH_SAYS = re.compile(
    rf"(?i)\W*(?:which|what) {_NOUN}(?: number)?{_IN_IT} {_SAYS}"
    rf" (?:that (?P<claim>.+?)|(?P<question>{_ASKING}\b .+?)){_END}"
)
# "Which section deals with X?", "What section number covers X?"
_WHICH_TREATS = re.compile(
    rf"(?i)\W*(?:which|what) {_NOUN}(?: number)?{_IN_IT} {_TREATS} (?P<topic>.+?){_END}"
)
# "Where in the document is X described?", "Where does the manual describe X?"
_WHERE_IN = re.compile(
    rf"(?i)\W*where (?:in|on) (?:the|this|that) (?:[\w-]+ )?{_DOCUMENT}"
    rf" (?P<rest>{_AUXILIARY}\b .+?){_END}"
)
_WHERE_TREATS = re.compile(
    rf"(?i)\W*where (?:does|do|did) (?:it|(?:the|this|that) (?:[\w-]+ )?{_DOCUMENT}) {_TREATS}"
    rf" (?P<topic>.+?){_END}"
)
_WHERE = re.compile(
    rf"(?i)\W*where {_BE} (?P<topic>.+?) (?:{_TREATED}(?P<inside>{_IN_IT[:-1]})|{_WRITTEN}){_END}"
)
# "What page is X on?", "What is the section on X called?", "the heading of the part about X"
_PAGE_ON = re.compile(rf"(?i)\W*(?:which|what) {_NOUN} {_BE} (?P<topic>.+?) (?:on|in){_END}")
_CALLED = re.compile(
    rf"(?i)\W*(?:what(?:'s|\u2019s| is| was) )?(?:the )?(?:(?:title|name|number|heading) of the )?"
    rf"{_NOUN}(?: number)?(?: (?:on|about|for)| (?:that|which) {_TREATS}) (?P<topic>.+?)"
    rf"(?P<called> (?:called|named|titled))?{_END}"
)
_DEFINED = re.compile(r"(?i)\bdefine[sd]?\b")
_TITLE_OF = re.compile(r"(?i)\b(?:title|name|number|heading) of the\b")
_TREATED_REST = re.compile(rf"(?i){_BE} (?P<topic>.+?) {_TREATED}")
# "the section about X" of a topic says nothing but X
_TOPIC_FRAME = re.compile(
    r"(?i)(?:the )?(?:(?:topics?|subjects?|questions?|meaning|definition|description|use|usage"
    r"|details) of )"
)
# Those that are also something else: they have to be in the heading.
AMBIGUOUS = word_set("part article schedule rule")
MOST_EXTRA = 2  # words that a heading has beside those of the topic
_NUMBER = re.compile(r"(?:\d+(?:\.\d+)*|[ivxlc]+)\b[.):]?", re.IGNORECASE)
_REMARK = re.compile(r"\s*\([^()]*\)\s*\Z")
_LABELS = word_set("section chapter clause article part appendix annex")


@dataclass(frozen=True)
class SectionQuestion:
    """What a question for a place asks for, and what is left to ask for the passage.

    ``noun`` is the singular of what it asks for ("section", "page"). ``topic`` are the words of
    what the place is about, if it says nothing else. ``needs_topic`` tells that only a heading with
    them answers: "Where is X described?" may want a book. What ``is_defined`` somewhere is not
    where others are about it, too.
    """

    noun: str
    rest: str
    topic: str = ""
    needs_topic: bool = False
    is_defined: bool = False

    @property
    def asks_page(self) -> bool:
        """Whether the number of a page is wanted."""
        return self.noun == "page"


def section_question(question: str) -> SectionQuestion | None:
    """Return what a question for a section or a page asks for; None for other questions."""
    asked = _section_question(question)
    return replace(asked, is_defined=True) if asked and _DEFINED.search(question) else asked


def _section_question(question: str) -> SectionQuestion | None:
    if match := _IN_WHICH.fullmatch(question) or _WHERE_IN.fullmatch(question):
        noun, rest = match.groupdict().get("noun") or "section", match["rest"]
        treated = _TREATED_REST.fullmatch(rest)
        return _about(noun, treated["topic"]) if treated else SectionQuestion(_one(noun), rest)
    if match := _WHICH_SAYS.fullmatch(question):
        return SectionQuestion(_one(match["noun"]), match["claim"] or match["question"])
    for pattern in (_WHICH_TREATS, _PAGE_ON):
        if match := pattern.fullmatch(question):
            return _about(match["noun"], match["topic"])
    if match := _WHERE_TREATS.fullmatch(question):
        return _about("section", match["topic"])
    if match := _WHERE.fullmatch(question):
        return _about("section", match["topic"], needs_topic=match["inside"] is None)
    match = _CALLED.fullmatch(question)
    if match and (match["called"] or _TITLE_OF.search(question)):
        return _about(match["noun"], match["topic"])
    return None


def _about(noun: str, topic: str, *, needs_topic: bool = False) -> SectionQuestion:
    bare = _TOPIC_FRAME.sub("", topic, count=1)
    if re.match(rf"(?i){_ASKING}\b", topic):  # "explains how it works"
        return SectionQuestion(_one(noun), topic)
    return SectionQuestion(_one(noun), f"What is {topic}?", bare, needs_topic)


def _one(noun: str) -> str:
    noun = noun.lower()
    return "appendix" if noun == "appendices" else noun.removesuffix("s")


def heading_about(topic: str, titles: Iterable[str], *, most_extra: int = MOST_EXTRA) -> str | None:
    """Return the one title that has all words of a topic and the fewest others; else None."""
    asked = {stem(word) for word in words(topic) if word not in STOP_WORDS}
    if not asked:
        return None
    exact = {word for word in words(topic) if word not in STOP_WORDS}
    costs: dict[str, tuple[int, int]] = {}
    for title in titles:
        bare = _NUMBER.sub("", title, count=1) if _NUMBER.match(title) else title
        bare = _REMARK.sub("", bare) or bare
        title_words = {word for word in words(bare) if word not in STOP_WORDS | _LABELS}
        extra = len({stem(word) for word in title_words} - asked)
        if asked <= {stem(word) for word in title_words} and extra <= most_extra:
            costs[title] = (extra, -len(exact & title_words))  # "triggered", not "triggering"
    least = min(costs.values(), default=(0, 0))
    best = [title for title, cost in costs.items() if cost == least]
    return best[0] if len(best) == 1 else None
