"""What a writer wrote, in words: who wrote, and which sentences the passages support."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._types import WrittenSentence, WrittenText

SUPPORT = {
    "written": "every sentence is supported",
    "partly": "some sentences are supported",
    "unsupported": "no sentence is supported",
    "no answer": "the passages hold no answer",
    "failed": "it failed",
}


def writing_head(writing: WrittenText) -> str:
    """Return who wrote, and how far the passages support it."""
    support = " ".join(writing.problem.split()).rstrip(".") or SUPPORT[writing.state]
    return f"Written by {writing.model or '-'} at {writing.host}: {support}."


def support_mark(sentence: WrittenSentence) -> str:
    """Return why a sentence is not supported, to stand behind it; empty where it is."""
    return "" if sentence.supported else f" [unsupported: {sentence.problem}]"


def marked_text(writing: WrittenText) -> str:
    """Return the sentences, those without support marked with the reason."""
    return " ".join(sentence.text + support_mark(sentence) for sentence in writing.sentences)
