"""Questions of two parts: which parts a question has, and one answer from those of its parts.

"Who wrote it and when was it published?" has two questions, "What is the difference between A and
B?" two sides, each of which may stand somewhere else. Knows questions and drafts; retrieves
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from drt_engine.answer.follow_up import in_context
from drt_engine.answer.result import Draft
from drt_engine.answer.tables.wording import stem
from drt_engine.results import Citation
from drt_engine.text.words import STOP_WORDS, content_words, words

_ASKING = r"(?:who|whom|whose|what|when|where|why|how|which)"
_PREPOSITION = (
    r"(?:(?:in|at|on|for|by|to|from|of|with|since|until|into|under|after|before|through|about) )?"
)
_TWO_QUESTIONS = re.compile(
    rf"(?i)\s*(?P<first>{_PREPOSITION}{_ASKING}\b.+?)(?:[,;]? and (?:also )?|[?;] (?:and )?)"
    rf"(?P<second>{_PREPOSITION}{_ASKING}\b[^?]*)\??\s*"
)
_TWO_WORDS = re.compile(
    rf"(?i)\s*(?P<first>{_ASKING})(?:,? and |/)(?P<second>{_ASKING}) (?P<rest>\S.*)"
)
_SIDES = re.compile(
    r"(?i).*\b(?:differences? between|differ between|compare|comparison (?:of|between))"
    r" (?P<one>[^?]+?) (?:and|with|to|from) (?P<other>[^?]+?)\s*\??\s*"
    r"|\W*how (?:do|does|did|is|are) (?P<this>[^?]+?) (?:differ(?:ent)? from|compare (?:to|with))"
    r" (?P<that>[^?]+?)\s*\??\s*"
)
# "/usr/lib" is another thing than "/lib", "--all-files" than "--all".
_NAME = re.compile(r"(?<!\S)[\"'(\[`]*(?:[.~]{0,2}/|--?(?=\w))[^\s?,;]*")
_MARKS = "\"'()[]`.:"
_LEAST_COVERED = 0.5  # of the words that only one side has


@dataclass(frozen=True)
class Part:
    """A question in a question; ``in_context`` has the words with it that it is about."""

    question: str
    in_context: str


def question_parts(question: str) -> tuple[Part, ...]:
    """Return the two questions that one asks; none where it asks for one thing."""
    match = _TWO_WORDS.fullmatch(question)
    if match is not None:
        parts = [f"{match[name].capitalize()} {match['rest']}" for name in ("first", "second")]
        return tuple(Part(part, part) for part in parts)
    match = _TWO_QUESTIONS.fullmatch(question)
    if match is None:
        return ()
    first, second = (match[name].strip() for name in ("first", "second"))
    # A clause such as "what happens when it fails" is part of one question.
    if any(len(re.findall(rf"(?i)\b{_ASKING}\b", part)) > 1 for part in (first, second)):
        return ()
    if len(words(first)) < 3:  # noqa: PLR2004  "Who signs": less is no question
        return ()
    return Part(f"{first}?", f"{first}?"), Part(f"{second}?", _with_words_of(first, f"{second}?"))


def _with_words_of(first: str, second: str) -> str:
    """Return the second question, with the words of the first where it does not say of what."""
    context = in_context(second, [{"question": first}])
    says_enough = len([word for word in words(second) if word in content_words(second)]) > 1
    if context != second or says_enough:
        return context
    return f"{second} ({' '.join(content_words(first))})"


def combined(parts: Sequence[Part], drafts: Sequence[Draft]) -> Draft | None:
    """Return one answer from those of the parts; ``None`` where they say too little.

    One part at least is answered; what is likely to answer another follows, if it is in the same
    document: "it" of a second question is what the first one is about.
    """
    found = [draft for draft in drafts if draft.found]
    if not found:
        return None
    texts = list(dict.fromkeys(draft.text for draft in found))
    documents = {citation.document for draft in found for citation in draft.citations[:1]}
    said = [
        draft.found or (draft.likely and draft.citations[0].document in documents)
        for draft in drafts
    ]
    citations: list[Citation] = []
    for draft, is_said in zip(drafts, said, strict=True):
        for citation in draft.citations[:1] if is_said else ():
            if not any(_same_place(citation, other) for other in citations):
                citations.append(replace(citation, likely=not draft.found))
    unanswered = [part.question for part, is_said in zip(parts, said, strict=True) if not is_said]
    return Draft(
        "; ".join(texts),
        True,
        min(draft.confidence for draft in found),
        tuple(sorted(citations, key=lambda citation: citation.likely)),
        quote_probability=min(draft.probability for draft in found),
        unanswered=tuple(unanswered),
    )


def _same_place(one: Citation, other: Citation) -> bool:
    return (one.document, one.start, one.end, one.metadata) == (
        other.document,
        other.start,
        other.end,
        other.metadata,
    )


def missing_side(question: str, citations: Sequence[Citation]) -> Part | None:
    """Return a question for the side of a comparison that no citation speaks of, if there is one.

    ``None``, too, where they speak of neither.
    """
    match = _SIDES.fullmatch(question)
    if match is None:
        return None
    one, other = match["one"] or match["this"], match["other"] or match["that"]
    stems = [_stems(side) for side in (one, other)]
    said = {word for citation in citations for word in _stems(citation.quote)}
    covered = [_is_covered(stems[0] - stems[1], said), _is_covered(stems[1] - stems[0], said)]
    if covered[0] == covered[1]:
        return None
    side = other if covered[0] else one
    return Part(f"What is {side}?", f"What is {side}?")


def with_side(question: str, draft: Draft, side: Draft) -> Draft:
    """Return the answer to a comparison with the other side's place, where that speaks of it."""
    first = draft.citations[:1]
    place = replace(side.citations[0], likely=not side.found) if side.citations else None
    if place is None or not (side.found or side.likely) or missing_side(question, (*first, place)):
        return draft
    if not draft.found:
        return replace(draft, citations=(*first, place))
    text = f"{draft.text}; {side.text}" if side.found else draft.text
    return replace(draft, text=text, citations=(*first, place, *draft.citations[1:]))


def without_a_side(question: str, draft: Draft) -> Draft:
    """Return an answer to a comparison that speaks of one side alone as a place that may be it."""
    if not draft.found or missing_side(question, draft.citations) is None:
        return draft
    return replace(draft, text="", found=False, likely=True, citations=draft.citations[:2])


def _stems(text: str) -> set[str]:
    """Return the stems of the words, and paths and options as they are written."""
    names = {name.strip(_MARKS) for name in _NAME.findall(text)}
    return {stem(word) for word in words(_NAME.sub(" ", text)) if word not in STOP_WORDS} | names


def _is_covered(own: set[str], said: set[str]) -> bool:
    return not own or len(own & said) / len(own) >= _LEAST_COVERED
