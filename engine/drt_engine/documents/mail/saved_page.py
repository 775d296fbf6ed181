"""Reads pages that a browser saved as one file (.mht, .mhtml): the HTML alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from email.message import Message
from email.parser import BytesParser

from drt_engine.documents.base import OpenDocument, Source, one_line
from drt_engine.documents.encodings import empty
from drt_engine.documents.html.reader import HtmlReader
from drt_engine.documents.limits import MESSAGE_BYTES
from drt_engine.documents.mail.headers import Headers
from drt_engine.errors import UnreadableDocument


@dataclass(frozen=True)
class SavedPageReader:
    """The page of a MIME archive, which is its first part of HTML."""

    def recognises(self, head: bytes) -> bool:
        """Return whether a file begins with the headers of a saved page."""
        lower = head[:4096].lower()
        return b"multipart/related" in lower and (
            b"snapshot-content-location:" in lower or lower.startswith(b"from: <saved by")
        )

    def open(self, source: Source) -> OpenDocument:
        """Open the page; pictures and frames beside it are noted."""
        with source.open() as file:
            data = file.read(MESSAGE_BYTES + 1)
        if len(data) > MESSAGE_BYTES:
            raise UnreadableDocument(
                f"{source.name} is a saved page of more than {MESSAGE_BYTES >> 20} MB; "
                "save it as .html to have it read."
            )
        message = BytesParser().parsebytes(data)
        parts = [part for part in message.walk() if not part.is_multipart()]
        pages = [part for part in parts if part.get_content_type() == "text/html"]
        if not pages:
            raise empty(source)
        document = HtmlReader().open(Source.from_bytes(_decoded(pages[0]), source.name))
        for part in parts:
            if part is not pages[0]:
                kind = part.get_content_maintype()
                document.notes.skip(f"{kind} file", "beside the text of the page")
        title = document.title
        if title == one_line(source.name):
            title = Headers().title(message, "Subject") or one_line(source.file_name)
        return replace(document, title=title)


def _decoded(part: Message) -> bytes:
    data: object = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""
