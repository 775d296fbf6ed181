"""Verifying what a writer wrote, sentence by sentence, against the sentences that it was given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from .. import _engine
from .._types import WrittenSentence
from .evidence import Source

_NAMED = re.compile(r"\[\s*(\d{1,4}(?:\s*[,;]\s*\d{1,4})*)\s*\]")
_QUOTE = re.compile(r"[\"“”«]([^\"“”«»]{2,}?)[\"“”»]")
_FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
_END = re.compile(r"[.!?\n]")
# A sentence's numbers often follow its full stop.
_LEADING = re.compile(r"(?:\s*\[[\d,;\s]+\])+")


def written_sentences(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of a text that comes in pieces, each when the next one has begun."""
    text = ""
    for piece in pieces:
        text += piece
        if _END.search(text) is None:
            continue
        *complete, (last, _) = _spans(text) or [(0, 0)]
        # What begins with a bracket may be the numbers of the sentence before it.
        if complete and text[last] != "[":
            yield from (text[start:end].strip() for start, end in complete)
            text = text[last:]
    yield from (text[start:end].strip() for start, end in _spans(text))


def _spans(text: str) -> list[tuple[int, int]]:
    """Return the places of sentences, each with the numbers behind its full stop."""
    spans: list[tuple[int, int]] = []
    for start, end in _engine.sentence_spans(text):
        numbers = _LEADING.match(text, start, end)
        if numbers and spans:
            spans[-1] = (spans[-1][0], numbers.end())
            start = numbers.end()
        start += len(text[start:end]) - len(text[start:end].lstrip())
        if start < end:
            spans.append((start, end))
    return spans


def verified(sentence: str, sources: Mapping[int, Source]) -> WrittenSentence:
    """Return a sentence with what keeps it from being supported, if anything."""
    numbers = tuple(
        dict.fromkeys(
            int(number)
            for group in _NAMED.findall(sentence)
            for number in re.findall(r"\d+", group)
        )
    )
    return WrittenSentence(sentence, numbers, _problem(sentence, numbers, sources))


def _problem(sentence: str, numbers: tuple[int, ...], sources: Mapping[int, Source]) -> str:
    if not numbers:
        return "it names no source"
    unknown = [number for number in numbers if number not in sources]
    if unknown:
        return f"there is no source {unknown[0]}"
    plain = _NAMED.sub("", sentence)
    source = " ".join(sources[number].text for number in numbers)
    for quote in _QUOTE.findall(plain):
        if _folded(quote) not in _folded(source):
            return f"the quote {quote[:60]!r} is not in its sources"
    missing = [figure for figure in _FIGURE.findall(plain) if figure not in _FIGURE.findall(source)]
    if missing:
        return f"the figure {missing[0]} is not in its sources"
    if not _engine.supported_by(plain, source):
        return "its sources do not say it"
    return ""


def _folded(text: str) -> str:
    """Return a text for comparing quotes: white space, case, and a stop at the end do not count."""
    return " ".join(text.casefold().split()).rstrip(".,;: ")
