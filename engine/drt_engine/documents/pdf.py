"""Reads the text of PDF files page by page, through the extra `pdf` (pypdfium2).

Knows pages, not columns or headings; never looks at images, so a scanned page has no text.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from drt_engine.documents.base import Block, OpenDocument, Source, one_line, regroup
from drt_engine.errors import EmptyDocument, MissingExtra, UnreadableDocument

_WRITER_PREFIX = re.compile(r"Microsoft (?:Word|PowerPoint|Excel) - ")
_NO_TITLES = frozenset(("untitled", "title", "(anonymous)", "unknown"))
# PDFium writes a hyphen that ends a line as U+FFFE (U+0002 in old versions) and drops the line end.
_LINE_HYPHEN = re.compile("[\ufffe\x02]\n?(?=(.?))", re.DOTALL)


def _library(source: Source) -> Any:
    try:
        return importlib.import_module("pypdfium2")
    except ImportError as error:
        raise MissingExtra(
            f"{source.name} is a PDF, which needs the package pypdfium2; "
            'install it with: pip install "drt-assistant[pdf]"'
        ) from error


def _load(library: Any, source: Source) -> Any:
    file = source.open()
    try:
        return library.PdfDocument(file, autoclose=True)
    except library.PdfiumError as error:
        file.close()
        if "password" in str(error).lower():
            raise UnreadableDocument(
                f"{source.name} is protected by a password; save a copy without one."
            ) from error
        raise UnreadableDocument(
            f"{source.name} is not a whole PDF file ({_reason(error)}); get or export it again."
        ) from error
    except BaseException:
        file.close()
        raise


def _reason(error: Exception) -> str:
    found = re.search(r"PDFium: ([^).]+)", str(error))
    return found[1].lower() if found else str(error).rstrip(".")


def clean_page(text: str) -> str:
    """A page's text with \\n newlines, words split over lines joined, and no stray characters."""
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    text = _LINE_HYPHEN.sub(lambda found: "" if found[1].islower() else "-", text)
    return text.strip()


def _page_text(library: Any, document: Any, index: int, *, name: str) -> str:
    try:
        with closing(document[index]) as page, closing(page.get_textpage()) as textpage:
            return clean_page(textpage.get_text_range(errors="surrogatepass"))
    except library.PdfiumError as error:
        raise UnreadableDocument(
            f"{name} is damaged on page {index + 1} ({_reason(error)}); get or export it again."
        ) from error


def _pages(library: Any, document: Any, name: str) -> Iterator[Block]:
    for index in range(len(document)):
        text = _page_text(library, document, index, name=name)
        if text:
            yield Block(text + "\n", page=index + 1)


def _blocks(library: Any, source: Source) -> Iterator[Block]:
    with closing(_load(library, source)) as document:
        yield from regroup(_pages(library, document, source.name))


def _title(document: Any) -> str:
    title = one_line(_WRITER_PREFIX.sub("", document.get_metadata_value("Title")))
    return "" if title.lower() in _NO_TITLES else title


@dataclass(frozen=True)
class PdfReader:
    """The text layer of a PDF; pages without text are passed over."""

    label: str = "PDF (.pdf)"
    suffixes: frozenset[str] = frozenset((".pdf",))

    def recognises(self, head: bytes) -> bool:
        return b"%PDF-" in head[:1024]

    def open(self, source: Source) -> OpenDocument:
        library = _library(source)
        with closing(_load(library, source)) as document:
            title = _title(document) or one_line(source.file_name)
            if next(_pages(library, document, source.name), None) is None:
                raise EmptyDocument(
                    f"{source.name} has no text on any page ({len(document)} in all), it seems to "
                    "be scanned; run text recognition (OCR) on it first."
                )
        return OpenDocument(title, "application/pdf", _blocks(library, source))
