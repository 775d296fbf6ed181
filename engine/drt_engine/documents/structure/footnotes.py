"""Nodes of footnotes, each with the sentence that refers to it.

Readers write a note as a paragraph behind its mark in brackets, and the same mark where the text
refers to it. Read alone, "[3] Paid by the parish." does not say what was paid for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from drt_engine.documents.base import Node, one_line
from drt_engine.text.sentences import sentence_spans

_NOTE = re.compile(r"^(\[\w{1,4}\]) (?=\S)", re.MULTILINE)
_BEFORE = 600  # characters in which the sentence of a mark begins
_LONGEST = 300  # characters of a sentence that is kept


def note_nodes(notes: str, text: str) -> Iterator[Node]:
    """Yield a node for each note in ``notes`` that ``text`` refers to."""
    marks = list(_NOTE.finditer(notes))
    ends = [mark.start() for mark in marks[1:]] + [len(notes)]
    for mark, limit in zip(marks, ends, strict=True):
        header = _noted(text, mark[1])
        if header:
            end = mark.start() + len(notes[mark.start() : limit].rstrip())
            yield Node("note", mark.start(), end, header=header)


def _noted(text: str, mark: str) -> str:
    """Return what is in front of a mark in its sentence, "" where the text has no such mark."""
    at = text.find(mark)
    if at < 0:
        return ""
    before = text[max(0, at - _BEFORE) : at]
    spans = sentence_spans(before)
    sentence = one_line(before[spans[-1][0] :]) if spans else ""
    return sentence if len(sentence) <= _LONGEST else ""
