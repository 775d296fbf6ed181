"""Chooses the reader of a document, by suffix and then by content, and opens it.

Knows which formats exist; knows nothing of what their readers do.
"""

from __future__ import annotations

from drt_engine.documents.base import OpenDocument, Source
from drt_engine.documents.formats import BUILT_IN, Format, all_formats, by_suffix, plugins
from drt_engine.documents.opening import failure, open_here
from drt_engine.errors import EmptyDocument, MissingExtra, UnsupportedFormat

_HEAD_BYTES = 8192


def find_format(source: Source) -> Format | None:
    """The format of a source, None when no reader knows it; raises OSError as it comes."""
    named = by_suffix(source.file_name) if source.path is not None else None
    if named is not None:
        return named
    with source.open() as file:
        head = file.read(_HEAD_BYTES)
    # Spreadsheets, programs and much else are zip files too: a suffix of their own says so.
    asked = (one for one in all_formats() if not (one.archive and source.suffix))
    return next((one for one in asked if _recognises(one, head)), None)


def _recognises(chosen: Format, head: bytes) -> bool:
    try:
        return chosen.load().recognises(head)
    except (ImportError, AttributeError):
        if chosen.distribution is None:
            raise
        return False  # a plug-in that lacks something must not stop all others


def unsupported(source: Source) -> UnsupportedFormat:
    """The sentence for a file that no reader knows."""
    known = ", ".join(f"{one.label} ({one.suffixes[0]})" for one in BUILT_IN)
    broken = "".join(f"; {one.name} is broken: {one.why}" for one in plugins().broken)
    return UnsupportedFormat(
        f"{source.name} looks like a binary file of a format that drt does not read; convert it to "
        f"one of: {known}, or install a plug-in that reads it (drt formats lists them){broken}."
    )


def open_document(source: Source, *, isolate: bool = True) -> OpenDocument:
    """Open a document with the reader that fits it, in a child process where its format is complex.

    `isolate=False` reads files that are trusted in this process, which is quicker for small ones.
    Raises DocumentError here for all that can be seen before reading, and from `blocks` when the
    file becomes unreadable or changes on the way.
    """
    try:
        with source.open() as file:
            if not file.read(1):
                raise EmptyDocument(f"{source.name} is empty; there is nothing to read.")
        chosen = find_format(source)
        if chosen is None:
            raise unsupported(source)
        _check(chosen, source)
        if chosen.isolated and isolate:
            from drt_engine.documents.sandbox.process import read_isolated

            return read_isolated(chosen, source)
        return open_here(chosen, source)
    except (OSError, UnicodeError) as error:
        raise failure(source, error) from error


def _check(chosen: Format, source: Source) -> None:
    """Refuse what only a package that is missing or another command can read."""
    if chosen.archive:
        raise UnsupportedFormat(
            f"{source.name} is an archive, not a document; read its members with: "
            f"drt ingest {source.name}"
        )
    if not chosen.installed:
        remedy = f'pip install "drt-assistant[{chosen.extra}]"'
        if chosen.extra is None:
            remedy = f"pip install {chosen.package}"
        raise MissingExtra(
            f"{source.name} is a {chosen.label} file, which needs the package {chosen.package}; "
            f"install it with: {remedy}"
        )
