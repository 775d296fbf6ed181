"""Reads RTF through the extra ``rtf`` (striprtf): paragraphs, and tables as rows."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from drt_engine.documents.base import Block, Notes, OpenDocument, Source, one_line
from drt_engine.documents.encodings import empty
from drt_engine.documents.metadata import Metadata
from drt_engine.documents.writer import BlockWriter, document_of, tidy
from drt_engine.errors import UnreadableDocument

MEDIA = "application/rtf"
_INFO = re.compile(r"\{\\info\b(?P<fields>(?:[^{}]|\{[^{}]{0,1000}\}){0,60})")
_FIELD = re.compile(r"\{\\(?P<name>title|author)\s+(?P<value>[^{}\\]{1,400})\}")
_IMAGE = re.compile(r"\\pict\b")
_MOST_BYTES = 64 << 20


def _source_text(source: Source) -> str:
    with source.open() as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UnreadableDocument(
            f"{source.name} is an RTF file of more than {_MOST_BYTES >> 20} MB; "
            "save it as .docx to have it read."
        )
    return data.decode("cp1252", "replace")  # ASCII, whatever the encoding of the text is


def _text(source: Source, rtf: str) -> str:
    library = importlib.import_module("striprtf.striprtf")
    try:
        text = str(library.rtf_to_text(rtf, errors="replace"))
    except (ValueError, LookupError, IndexError, OverflowError) as error:
        raise UnreadableDocument(
            f"{source.name} is not a whole RTF file ({type(error).__name__}); "
            "get or export it again."
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _read(source: Source, notes: Notes) -> Iterator[tuple[BlockWriter, list[Block]]]:
    rtf = _source_text(source)
    if pictures := len(_IMAGE.findall(rtf)):
        notes.skip("image", "no text to read", pictures)
    writer = BlockWriter()
    for line in _text(source, rtf).split("\n"):
        if line.count("|") > 1 and line.rstrip().endswith("|"):  # cells, as striprtf writes them
            writer.write("row", " | ".join(cell.strip() for cell in line.rstrip()[:-1].split("|")))
        elif text := tidy(line).strip():
            writer.write("paragraph", text)
        else:
            writer.end_table()
        yield writer, writer.take()
    writer.finish()
    yield writer, writer.take()


@dataclass(frozen=True)
class RtfReader:
    """The text of an RTF file."""

    def recognises(self, head: bytes) -> bool:
        """Return whether a file begins as RTF does."""
        return head.startswith(b"{\\rtf")

    def open(self, source: Source) -> OpenDocument:
        """Open the file; title and author are those of its properties."""
        rtf = _source_text(source)
        if not rtf.startswith("{\\rtf"):
            raise UnreadableDocument(
                f"{source.name} is not an RTF file (it does not begin with {{\\rtf); "
                "save it as .txt to have it read as it stands."
            )
        if not _text(source, rtf).strip():
            raise empty(source)
        info = _INFO.search(rtf)
        fields = {
            m["name"]: one_line(m["value"]) for m in _FIELD.finditer(info["fields"] if info else "")
        }
        title = fields.get("title") or one_line(source.file_name)
        about = Metadata(title, fields.get("author", ""))
        return document_of(source, _read, title=title, media_type=MEDIA, about=about)
