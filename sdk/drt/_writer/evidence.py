"""The numbered sentences that a writer is given: those of the passages that were retrieved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import _engine
from .._passages import passage
from .._types import Answer, Citation, FilterOptions

if TYPE_CHECKING:
    from .._assistant import Assistant

SENTENCE_CHARACTERS = 800  # of a longer one the rest is not given
PASSAGES = 8


@dataclass(frozen=True)
class Source:
    """One sentence and its place."""

    document: str
    start: int
    text: str

    @property
    def handle(self) -> str:
        """The place as one word."""
        return f"{self.document}:{self.start}-{self.start + len(self.text)}"


def numbered_sources(
    assistant: Assistant,
    answer: Answer,
    filters: FilterOptions,
    *,
    question: str,
    limit: int,
) -> dict[int, Source]:
    """Return at most ``limit`` sentences by number: those of the answer's quotes come first."""
    places: dict[tuple[str, int], Source] = {}
    for source in _sentences(assistant, answer, filters, question):
        if len(places) == limit:
            break
        places.setdefault((source.document, source.start), source)
    return dict(enumerate(places.values(), start=1))


def cited(assistant: Assistant, source: Source) -> Citation:
    """Return drt's own citation of a sentence."""
    return passage(assistant.library, source.handle, around=0).citation


def _sentences(
    assistant: Assistant, answer: Answer, filters: FilterOptions, question: str
) -> Iterator[Source]:
    for citation in answer.citations:
        around = passage(assistant.library, citation, around=SENTENCE_CHARACTERS // 2)
        text = around.before + around.quote + around.after
        first = citation.start - len(around.before)
        for source in _split(citation.document, first, text):
            if source.start < citation.end and citation.start < source.start + len(source.text):
                yield source
    result = assistant.search(question, top_k=PASSAGES, **filters)
    for hit in result.hits:
        yield from _split(hit.document, hit.start, hit.text)


def _split(document: str, first: int, text: str) -> Iterator[Source]:
    """Yield the sentences of a text that begins at character ``first`` of a document."""
    for start, end in _engine.sentence_spans(text):
        sentence = text[start : min(end, start + SENTENCE_CHARACTERS)]
        if any(character.isalnum() for character in sentence):
            yield Source(document, first + start, sentence)
