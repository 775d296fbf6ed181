"""From a citation to the passage around it; loads no model."""

from __future__ import annotations

import re

from . import _engine
from ._errors import NotFoundError, engine_errors
from ._library import Library
from ._types import Citation, PageImage, Passage, SearchHit, TraceCandidate, TraceEntry

AROUND = 400
_HANDLE = re.compile(r"(?P<document>.+):(?P<start>\d{1,12})-(?P<end>\d{1,12})\Z", flags=re.S)


def passage(
    library: Library,
    citation: str | Citation | SearchHit | TraceEntry | TraceCandidate,
    *,
    around: int = AROUND,
) -> Passage:
    """Return the passage of a citation, a chunk of a trace, or a handle: 43f8db2c:67218-67228.

    Of a search's hit it is that of the best sentence.

    ``before`` and ``after`` have up to ``around`` characters, without cutting words. Raises
    ``NotFoundError`` where there is no such document or place.
    """
    if isinstance(citation, str):
        document, start, end = _parsed(citation)
    elif isinstance(citation, SearchHit):
        document = citation.document
        start, end = citation.sentence_start, citation.sentence_end
    else:
        document, start, end = citation.document, citation.start, citation.end
    with library._reading() as store:  # noqa: SLF001  only the SDK opens stores
        row = store.document(document)
        if not start < end <= row.characters:
            raise NotFoundError(
                f"{row.title!r} has {row.characters} characters, {start}-{end} was asked for; "
                "ask again for the places of the document as it is now."
            )
        low = max(0, start - around)
        text = store.text(row.id, low, min(row.characters, end + around))
        page, section = store.place(row.id, start)
        label = None if page is None else _engine.page_label(store, row.id, start)
        place = _engine.place_in_source(store, row, start, end)
        sentence = _engine.sentence_around(store, row, start, end)
    before, quote, after = text[: start - low], text[start - low : end - low], text[end - low :]
    cited = Citation(
        document=row.id,
        title=row.title,
        source=row.source,
        start=start,
        end=end,
        quote=quote,
        page=page,
        section=section,
        line=place.line,
        source_start=place.start,
        source_end=place.end,
        page_label=label,
        probability=citation.probability if isinstance(citation, Citation) else 0.0,
        context=sentence,
    )
    if low > 0:
        before = _from_word(before)
    if end + len(after) < row.characters:
        after = _from_word(after[::-1])[::-1]
    return Passage(cited, before, quote, after)


def page_image(
    library: Library,
    citation: str | Citation | SearchHit | TraceEntry | TraceCandidate,
    *,
    page: int | None = None,
    width: int = 1200,
    marked: bool = True,
) -> PageImage:
    """Draw the page of a PDF that a citation is on, ``width`` pixels wide, its quote in yellow.

    ``page`` draws another one, and without ``marked`` nothing is yellow. The file is opened in a
    confined process, and must be the one that was read, byte for byte. Raises ``NotFoundError`` for
    what is not in a PDF, ``UnreadableDocumentError`` where the file is gone or has changed,
    ``MissingExtraError``.
    """
    cited = passage(library, citation, around=0).citation
    if cited.page is None:
        raise NotFoundError(f"{cited.title!r} has no pages to draw; `drt show` prints the passage.")
    number = cited.page if page is None else page
    characters = None
    marked = marked and number == cited.page
    if marked and cited.source_start is not None and cited.source_end is not None:
        characters = (cited.source_start, cited.source_end)
    with library._reading() as store:  # noqa: SLF001  only the SDK opens stores
        row = store.document(cited.document)
        if not row.media_type.startswith("application/pdf"):
            raise NotFoundError(
                f"{cited.title!r} is not a PDF, and only pages of PDFs can be drawn; `drt show`"
                " prints the passage."
            )
        source = _engine.original_file(store, row)
    try:
        with engine_errors():
            drawn = _engine.page_picture(source, page=number, characters=characters, width=width)
    finally:
        source.close()
    return PageImage(
        citation=cited,
        page=number,
        pages=drawn.pages,
        width=drawn.width,
        height=drawn.height,
        boxes=drawn.boxes,
        png=drawn.png,
    )


def _parsed(handle: str) -> tuple[str, int, int]:
    match = _HANDLE.match(handle.strip())
    if match is None:
        raise NotFoundError(
            f"{handle!r} is not a citation; expected DOCUMENT:START-END, as `drt ask` prints it."
        )
    start, end = int(match["start"]), int(match["end"])
    if start >= end:
        raise NotFoundError(
            f"{handle!r} ends where it begins or before; expected DOCUMENT:START-END with START"
            " below END."
        )
    return match["document"], start, end


def _from_word(text: str) -> str:
    """Return ``text`` without the piece of a word that it begins with."""
    gap = re.search(r"\s", text[:60])
    return text[gap.end() :] if gap else text
