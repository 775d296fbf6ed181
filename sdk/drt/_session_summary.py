"""A question that requests a summary: which documents it means, and its answer.

"Summarize it" means what was asked last, "Summarize handbook.md" a document by its name.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import _engine
from ._errors import NotFoundError
from ._filters import NAMES, day_of
from ._types import Answer, AskOptions, DocumentInfo, Turn

if TYPE_CHECKING:
    from ._assistant import Assistant

MODE = "summary"


def requested_summary(
    assistant: Assistant, question: str, options: AskOptions, turns: Sequence[Turn]
) -> Answer | None:
    """Return the summary that a question asks for, as an answer; None where it asks for none.

    None, too, where it does not say of what: of a library with several documents.
    """
    name = _engine.requested_summary(question)
    if name is None:
        return None
    began = time.perf_counter()
    filters = {key: options[key] for key in NAMES if options.get(key)}  # type: ignore[literal-required]
    documents = _named(assistant, name) if name else _implied_documents(assistant, options, turns)
    if documents is None and (name or not filters):
        return None
    if "since" in filters:  # which a summary may take for the name of a file
        filters["since"] = day_of(filters["since"])
    summary = assistant.summarize(documents, **filters)
    return Answer(
        text=f"{summary.about}\n{summary.text}" if summary.about else summary.text,
        found=True,
        confidence=1.0,
        mode=MODE,
        citations=summary.sentences,
        tokens_read=summary.tokens_read,
        seconds=time.perf_counter() - began,
        model=summary.model,
        question=question,
        state="answer",
        quote_probability=None,
        origin="summary",
        unread_libraries=summary.unread_libraries,
    )


def _named(assistant: Assistant, name: str) -> list[str | DocumentInfo] | None:
    """Return the document of a name, or None where there is none, or several."""
    try:
        return [assistant.library.show(name)]
    except NotFoundError:
        return None


def _implied_documents(
    assistant: Assistant, options: AskOptions, turns: Sequence[Turn]
) -> list[str | DocumentInfo] | None:
    """Return the documents that "it" means: those asked, the one quoted last, or the only one."""
    selected = options.get("documents")
    if selected:
        return [selected] if isinstance(selected, str | DocumentInfo) else list(selected)
    documents = {document.id: document for document in assistant.library.documents()}
    for turn in reversed(turns):
        if turn.state != "none" and turn.citations and turn.citations[0].document in documents:
            return [documents[turn.citations[0].document]]
    return list(documents.values()) if len(documents) == 1 else None
