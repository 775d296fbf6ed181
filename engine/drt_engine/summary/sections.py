"""Sections of a document by name."""

from __future__ import annotations

from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.text.sentences import Span, sentence_spans


def section_spans(
    view: LibraryView, document: DocumentRow, name: str
) -> tuple[list[Span], list[str]]:
    """Return the spans of the sections with this name, and the names of all sections.

    A section matches by its whole path, or by the beginning of its own name or of the name of a
    section around it; case and spaces do not count.
    """
    prefix = " ".join(name.casefold().split())
    text = "".join(view.iter_text(document.id))
    spans: list[Span] = []
    names: dict[str, None] = {}  # in order, each once
    for start, end in sentence_spans(text):
        path = view.place(document.id, start)[1] or ""
        parts = path.split(" > ")
        names |= dict.fromkeys(part for part in parts if part)
        if path.casefold() == prefix or any(p.casefold().startswith(prefix) for p in parts):
            # Joined with the span before it where only white space is between the two.
            if spans and not text[spans[-1][1] : start].strip():
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((start, end))
    return spans, list(names)
