"""Questions of two parts: which parts a question has, and one answer from those of its parts.

"Who wrote it and when was it published?" has two questions, whose answers may be far apart. Knows
questions and drafts; retrieves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from drt_engine.answer.follow_up import in_context
from drt_engine.answer.result import Draft
from drt_engine.results import Citation
from drt_engine.text.words import content_words, words

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
    probabilities = [draft.probability for draft in found if draft.probability is not None]
    unanswered = [part.question for part, is_said in zip(parts, said, strict=True) if not is_said]
    return Draft(
        "; ".join(texts),
        True,
        min(draft.confidence for draft in found),
        tuple(sorted(citations, key=lambda citation: citation.likely)),
        quote_probability=min(probabilities) if len(probabilities) == len(found) else None,
        origin="parts",
        unanswered=tuple(unanswered),
    )


def _same_place(one: Citation, other: Citation) -> bool:
    return (one.document, one.start, one.end, one.metadata) == (
        other.document,
        other.start,
        other.end,
        other.metadata,
    )
