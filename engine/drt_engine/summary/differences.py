"""Differences between two texts, sentence by sentence. Knows nothing of documents or models."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from drt_engine.text.sentences import Span, sentence_spans

# Share of their words from which two sentences are versions of one.
_LEAST_ALIKE = 0.5
# Old sentences compared with a new one: more would take minutes on a rewritten book.
_COMPARED = 100
_NUMBER = re.compile(r"\A\(?\d+(\.\d+)*[.)]?\s")
_LABELS = {"added": "Added:", "changed": "Changed:", "removed": "Removed:"}


@dataclass(frozen=True)
class Difference:
    """A sentence of either text or of both: its spans, None in the text that lacks it."""

    kind: Literal["added", "changed", "removed"]
    old: Span | None
    new: Span | None
    at: int  # where in the new text it is, or would be


@dataclass(frozen=True)
class Wording:
    """A difference with its old and new sentence on a line each, empty where there is none."""

    difference: Difference
    old: str
    new: str

    @classmethod
    def of(cls, difference: Difference, old: str, new: str) -> Wording:
        """Return the wording of a difference between the texts ``old`` and ``new``."""
        return cls(difference, _one_line(old, difference.old), _one_line(new, difference.new))

    @property
    def is_renumbered(self) -> bool:
        """Whether the sentences differ only by the number that they begin with."""
        return _NUMBER.sub("", self.old, count=1) == _NUMBER.sub("", self.new, count=1)

    def line(self) -> str:
        """Return the difference as a line of a report."""
        kind = self.difference.kind
        text = _merged(self.old, self.new) if kind == "changed" else self.new or self.old
        return f"{_LABELS[kind]} {text}"


def differences(old: str, new: str) -> list[Difference]:
    """Return the sentences by which two texts differ, in the new one's order.

    White space does not count.
    """
    old_spans, new_spans = sentence_spans(old), sentence_spans(new)
    old_sentences = [_one_line(old, span) for span in old_spans]
    new_sentences = [_one_line(new, span) for span in new_spans]
    matcher = difflib.SequenceMatcher(None, old_sentences, new_sentences, autojunk=False)
    out: list[Difference] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            at = new_spans[c][0] if c < len(new_spans) else len(new)
            versions = _versions(old_sentences[a:b], new_sentences[c:d])
            out += _differences_of(old_spans[a:b], new_spans[c:d], versions, at)
    return out


def _versions(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Return for new sentences the old one that each is a version of, in order, by number."""
    versions: dict[int, int] = {}
    first = 0
    for new_number, sentence in enumerate(new):
        words = sentence.split()
        for old_number in range(first, min(first + _COMPARED, len(old))):
            matcher = difflib.SequenceMatcher(None, old[old_number].split(), words, autojunk=False)
            # ``quick_ratio`` is an upper bound and cheap; it rules most pairs out.
            if matcher.quick_ratio() >= _LEAST_ALIKE and matcher.ratio() >= _LEAST_ALIKE:
                versions[new_number], first = old_number, old_number + 1
                break
    return versions


def _differences_of(
    old: Sequence[Span], new: Sequence[Span], versions: dict[int, int], at: int
) -> Iterator[Difference]:
    for number, span in enumerate(old):
        if number not in versions.values():
            yield Difference("removed", span, None, at)
    for number, span in enumerate(new):
        old_number = versions.get(number)
        if old_number is None:
            yield Difference("added", None, span, span[0])
        else:
            yield Difference("changed", old[old_number], span, span[0])


def _one_line(text: str, span: Span | None) -> str:
    return "" if span is None else " ".join(text[slice(*span)].split())


def _merged(old: str, new: str) -> str:
    """Return the new sentence, with the older words in brackets after each change."""
    old_words, new_words = old.split(), new.split()
    out: list[str] = []
    matcher = difflib.SequenceMatcher(None, old_words, new_words, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        out += new_words[c:d]
        if tag != "equal" and b > a:
            out.append(f"[was: {' '.join(old_words[a:b])}]")
    return " ".join(out)
