"""Answers which files are attached to a message, from the lines that name them."""

from __future__ import annotations

import re

from drt_engine.answer.metadata.values import Value
from drt_engine.text.words import STOP_WORDS, word_set, words

_ASKS = re.compile(r"(?i)\battach(?:ed|ments?)\b")
_CONTENTS = re.compile(r"(?i)\b(?:about|in|contains?|says?|for)\b")
_ASKING = word_set(
    """
    which what list name names named called give show file files attached attachment attachments
    message mail email e letter it sent send there title document documents
    """
)
# As the reader of mail writes it.
_NAMED = re.compile(r"(?m)^Attachment (?P<name>\S[^\n]{0,200}?)(?::| \(not read\))$")
_MOST = 20


def asks_for_attachments(question: str) -> bool:
    """Return whether a question asks for the names of a message's attachments, and nothing else."""
    if not _ASKS.search(question) or _CONTENTS.search(question):
        return False
    return not set(words(question)) - STOP_WORDS - _ASKING


def attachment_names(text: str) -> list[Value]:
    """Return the names of the attachments in the text of a message."""
    matches = list(_NAMED.finditer(text))[:_MOST]
    return [Value(match["name"], match.start("name"), match.end("name")) for match in matches]
