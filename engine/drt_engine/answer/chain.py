"""Questions about somebody whom they do not name, such as "the code of the keeper of the mill".

Who that is stands somewhere else than what is asked, so it is asked first, and its answer is put
into the question, which retrieves again with it, as the groups of arXiv 2410.01651 do within one
pass. Knows questions and drafts; retrieves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from drt_engine.answer.result import Draft
from drt_engine.answer.tables.wording import content_stems

_DESCRIBED = re.compile(
    r"\bthe (?P<role>[a-z][a-z-]+(?: [a-z][a-z-]+)?)"
    r" (?P<link>of|at|in|for|who|whose) (?P<what>\S.*)"
)
_MOST_LEFT = 2  # words behind the description: "What is the keeper of the mill paid?"
_NAME = re.compile(
    r"[A-Z][^\W\d_]*(?:[.'’-][^\W\d_]*)*"
    r"(?:,? (?:[A-Z][^\W\d_]*(?:[.'’-][^\W\d_]*)*|of|de|van|von|der|la|du|and|the))*"
)
_LONGEST_NAME = 6  # words
_LONGEST = 400  # characters of a question


@dataclass(frozen=True)
class Link:
    """Somebody ``described`` in a question, between what stands before and after it."""

    before: str
    described: str
    after: str

    @property
    def question(self) -> str:
        """The question of who that is."""
        return f"Who is {self.described}?"

    def is_in(self, said: frozenset[str]) -> bool:
        """Return whether a sentence says both who it is and something of what is asked."""
        asked = content_stems(self.before + self.after)
        return content_stems(self.described) <= said and not said.isdisjoint(asked)

    def with_name(self, name: str) -> str:
        """Return the question with a name instead of the description."""
        return f"{self.before}{name}{self.after}?"


def link_of(question: str, texts: Sequence[str], sentence: str | None) -> Link | None:
    """Return whom a question describes, unless what was found says who it is.

    ``sentence`` is the one around the quote, ``None`` where nothing was found. What somebody is
    described by must stand there or in one of the ``texts`` of the retrieved passages; a clause
    ("who inherits"), which has other words there, is taken where nothing else was found.
    """
    said = content_stems(sentence or "")
    folded = [_folded(text) for text in (*texts, sentence or "")]
    for match in _descriptions(question) if len(question) <= _LONGEST else ():
        if match["link"].startswith("who"):
            link = _link(match, match["what"]) if sentence is None else None
        else:
            # What stands behind the description is no part of it where the text does not say so.
            ends = _ends(match["what"])
            what = next((w for w in ends if any(_folded(w) in text for text in folded)), None)
            link = None if what is None else _link(match, what)
        if link is not None and not link.is_in(said):
            return link
    return None


def name_in(inner: Draft, question: str) -> str | None:
    """Return the name that answers who somebody is, if there is one that a question has not."""
    name = inner.text.strip().rstrip(".,;")
    if not inner.found or not _NAME.fullmatch(name) or len(name.split()) > _LONGEST_NAME:
        return None
    return None if _folded(name) in _folded(question) else name


def joined(question: str, draft: Draft, inner: Draft, outer: Draft, *, name: str) -> Draft:
    """Return the answer about ``name``, with the place that says who it is behind it.

    The ``draft`` remains where the sentence of the outer quote has not the name, and so is about
    somebody else, and where its words are what the question says: "Who wrote the history of the
    mill?" has its answer in the name, and "Who wrote Ann Lee?" leads back to the history.
    """
    if not (outer.found and outer.citations):
        return draft
    place, asked = outer.citations[0], _folded(question)
    is_said = _folded(outer.text) in asked or _folded(place.span) in asked
    if is_said or _folded(name) not in _folded(place.sentence):
        return draft
    return replace(
        outer,
        confidence=min(inner.confidence, outer.confidence),
        quote_probability=min(inner.probability, outer.probability),
        citations=(*outer.citations[:1], *inner.citations[:1], *outer.citations[1:]),
    )


def _descriptions(question: str) -> Iterator[re.Match[str]]:
    """Yield what may be a description of somebody up to the question's end, the shortest first."""
    asked = question.strip().rstrip("?").rstrip()
    for start in reversed([match.start() for match in re.finditer(r"\bthe ", asked)]):
        match = _DESCRIBED.match(asked, start)
        if match is not None:
            yield match


def _ends(what: str) -> Iterator[str]:
    """Yield what somebody may be described by, without a verb at the question's end."""
    parts = what.split(" ")
    yield what
    for left in range(1, min(_MOST_LEFT, len(parts) - 1) + 1):
        if not parts[-left].islower():  # a name goes on
            return
        if content_stems(parts[-left - 1]):
            yield " ".join(parts[:-left])


def _link(match: re.Match[str], what: str) -> Link | None:
    before, after = match.string[: match.start()], match["what"][len(what) :]
    # Otherwise who it is is all that is asked.
    if not content_stems(before + after) or not content_stems(what):
        return None
    return Link(before, f"the {match['role']} {match['link']} {what}", after)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
