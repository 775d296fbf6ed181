"""Reads slides (.pptx) through the extra ``slides`` (python-pptx): a slide is a page.

Boxes are read from top to bottom, each a unit of its own; tables as rows, the speaker's notes
behind their slide. Hidden slides and pictures are named, not read.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from drt_engine.documents.base import (
    Block,
    Notes,
    OpenDocument,
    SectionPath,
    Source,
    date_of,
    one_line,
)
from drt_engine.documents.metadata import Metadata
from drt_engine.documents.writer import BlockWriter, document_of, tidy
from drt_engine.documents.xml import Handler, parse
from drt_engine.documents.zips import DAMAGE, SafeZip
from drt_engine.errors import UnreadableDocument

MEDIA = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_MAIN = "ppt/presentation.xml"
_DEEPEST_GROUP = 16
# What python-pptx was seen to raise for files that are damaged.
_FAULTS = (*DAMAGE, KeyError, ValueError, TypeError, AttributeError)


def _check_parts(source: Source) -> None:
    """Read the parts once, since the library trusts the sizes and the XML of a file."""
    with SafeZip(source, "PowerPoint") as archive:
        if _MAIN not in archive:
            raise UnreadableDocument(
                f"{source.name} holds no slides (no {_MAIN}); get or export it again."
            )
        for name in archive.members:
            if name.endswith((".xml", ".rels")):
                for _ in parse(archive.pieces(name), Handler(), source.name):
                    pass


def _presentation(source: Source) -> Any:
    library = importlib.import_module("pptx")
    _check_parts(source)
    with source.open() as file:
        try:
            return library.Presentation(file)
        except _FAULTS as error:
            raise _damaged(source, error) from error


def _damaged(source: Source, error: Exception) -> UnreadableDocument:
    reason = one_line(str(error)).rstrip(".").lower() or type(error).__name__
    return UnreadableDocument(
        f"{source.name} is not a whole PowerPoint file ({reason}); get or export it again."
    )


def _shapes(shapes: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the shapes of a slide from top to bottom, those of groups in the group's place."""
    for shape in sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
        inner = getattr(shape, "shapes", None)
        if inner is not None and depth < _DEEPEST_GROUP:
            yield from _shapes(inner, depth + 1)
        else:
            yield shape


def _write_slide(writer: BlockWriter, slide: Any, number: int, notes: Notes) -> None:
    writer.page = number
    title = slide.shapes.title
    name = one_line(title.text_frame.text) if title is not None and title.has_text_frame else ""
    writer.path = SectionPath()
    if name:
        writer.write("paragraph", name, 1)
    for shape in _shapes(slide.shapes):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if getattr(shape, "has_table", False):
            _write_table(writer, shape.table)
        elif getattr(shape, "has_text_frame", False):
            _write_box(writer, shape.text_frame)
        elif getattr(shape, "has_chart", False) or hasattr(shape, "image"):
            notes.skip("picture or chart", "no text to read")
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        _write_box(writer, slide.notes_slide.notes_text_frame)


def _write_box(writer: BlockWriter, frame: Any) -> None:
    """Write the paragraphs of a box; those of several levels, or more than one, as items."""
    paragraphs = [(p.level, tidy(p.text.replace("\v", " ")).strip()) for p in frame.paragraphs]
    paragraphs = [(level, text) for level, text in paragraphs if text]
    if len(paragraphs) == 1:
        writer.write("paragraph", paragraphs[0][1])
        return
    for first, (level, text) in enumerate(paragraphs):
        if first == 0:
            writer.last_kind = "box" if writer.last_kind else ""  # apart from the last box's items
        writer.write("item", "  " * min(level, 8) + f"- {text}")


def _write_table(writer: BlockWriter, table: Any) -> None:
    writer.end_table()
    above: list[str] = []
    for row in table.rows:
        cells: list[str] = []
        for column, cell in enumerate(row.cells):
            text = " ".join(cell.text.split())
            if cell.is_spanned and not text:  # merged with the cell above or before it
                text = above[column] if column < len(above) else ""
            cells.append(text)
        above = cells
        writer.write("row", " | ".join(cells))
    writer.end_table()


def _read(source: Source, notes: Notes) -> Iterator[tuple[BlockWriter, list[Block]]]:
    writer = BlockWriter()
    try:
        for number, slide in enumerate(_presentation(source).slides, 1):
            if slide.element.get("show") == "0":
                notes.skip("slide", "hidden")
                continue
            _write_slide(writer, slide, number, notes)
            yield writer, writer.take()
    except _FAULTS as error:
        raise _damaged(source, error) from error
    writer.finish()
    yield writer, writer.take()


@dataclass(frozen=True)
class SlidesReader:
    """The visible slides of a presentation."""

    def recognises(self, head: bytes) -> bool:
        """Return whether a zip file begins with the parts of a presentation."""
        return head.startswith(b"PK\x03\x04") and b"ppt/" in head

    def open(self, source: Source) -> OpenDocument:
        """Open the slides; title, author and date are those of the properties."""
        core = _presentation(source).core_properties
        title = one_line(core.title or "")
        if title.lower() in ("", "powerpoint presentation"):
            title = one_line(source.file_name)
        date = date_of(core.created.date().isoformat()) if core.created else ""
        about = Metadata(title, one_line(core.author or ""), date)
        return document_of(source, _read, title=title, media_type=MEDIA, about=about)
