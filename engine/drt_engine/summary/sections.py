"""Parts of a document: sections by name, and pages."""

from __future__ import annotations

from drt_engine.retrieval.filters import section_matches
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.text.sentences import Span, sentence_spans


def section_spans(
    view: LibraryView,
    document: DocumentRow,
    name: str | None,
    pages: tuple[int, int] | None = None,
) -> tuple[list[Span], list[str]]:
    """Return the spans of the sections with this name, and the names of all sections.

    A section matches by its whole path, or by the beginning of its own name or of the name of a
    section around it; case and spaces do not count. Only what is on ``pages``, the first and the
    last, counts where they are given.
    """
    text = "".join(view.iter_text(document.id))
    spans: list[Span] = []
    names: dict[str, None] = {}  # in order, each once
    for start, end in sentence_spans(text):
        page, path = view.place(document.id, start)
        names |= dict.fromkeys(part for part in (path or "").split(" > ") if part)
        on_pages = pages is None or (page is not None and pages[0] <= page <= pages[1])
        if on_pages and (name is None or section_matches(path, name)):
            # Joined with the span before it where only white space is between the two.
            if spans and not text[spans[-1][1] : start].strip():
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((start, end))
    return spans, list(names)
