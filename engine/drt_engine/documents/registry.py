"""Chooses the reader of a document, by suffix and then by content, and opens it.

Knows which formats exist; knows nothing of what their readers do.
"""

from __future__ import annotations

from drt_engine.documents.base import OpenDocument, Source
from drt_engine.documents.formats import (
    BUILT_IN,
    Format,
    all_formats,
    by_suffix,
    format_named,
    plugins,
)
from drt_engine.documents.opening import failure, open_here
from drt_engine.errors import EmptyDocument, MissingExtra, UnsupportedFormat

_HEAD_BYTES = 8192
_SIGNATURES = (b"%PDF-", b"PK\x03\x04", b"{\\rtf", b"<", b"\xef\xbb\xbf<", b"WEBVTT")
_SIGNED = ("pdf", "docx", "odt", "xlsx", "pptx", "xls", "epub", "rtf", "feed", "subtitles")


def find_format(source: Source) -> Format | None:
    """Return the format of a source, None when no reader knows it; raise OSError as it comes.

    A suffix decides, unless the first bytes are those of another format that has its own.
    """
    by_name = by_suffix(source.file_name) if source.path is not None else None
    if by_name is not None:
        return _hidden(source, by_name) or by_name
    with source.open() as file:
        head = file.read(_HEAD_BYTES)
    # Spreadsheets, programs and much else are zip files too: a suffix of their own says so.
    candidates = (entry for entry in all_formats() if not (entry.archive and source.suffix))
    return next((entry for entry in candidates if _recognises(entry, head)), None)


def _hidden(source: Source, by_name: Format) -> Format | None:
    """Return the format whose bytes a file begins with that is named as of another; mostly None."""
    if by_name.archive or by_name.distribution:
        return None
    try:
        with source.open() as file:
            head = file.read(_HEAD_BYTES)
    except OSError:  # which reading it will say
        return None
    # Plain text recognises whatever is text, such as RTF and XML.
    is_named = by_name.name != "text" and _recognises(by_name, head)
    if is_named or not head.startswith(_SIGNATURES):
        return None
    named = (format_named(name) for name in _SIGNED)
    return next((entry for entry in named if _recognises(entry, head)), None)


def _recognises(document_format: Format, head: bytes) -> bool:
    try:
        return document_format.load().recognises(head)
    except (ImportError, AttributeError):
        if document_format.distribution is None:
            raise
        return False  # a plug-in that lacks something must not stop all others


def unsupported(source: Source) -> UnsupportedFormat:
    """Return the error for a file that no reader knows."""
    formats = ", ".join(f"{entry.label} ({entry.suffixes[0]})" for entry in BUILT_IN)
    broken = "".join(f"; {plugin.name} is broken: {plugin.why}" for plugin in plugins().broken)
    return UnsupportedFormat(
        f"{source.name} looks like a binary file of a format that drt does not read; convert it to "
        f"one of: {formats}, or install a plug-in that reads it (drt formats lists them){broken}."
    )


def open_document(source: Source, *, isolate: bool = True) -> OpenDocument:
    """Open a document with the reader that fits it, in a child process where its format is complex.

    ``isolate=False`` reads trusted files in this process, which is quicker for small ones.
    Raises DocumentError here for all that can be seen before reading, and from ``blocks`` when the
    file becomes unreadable or changes on the way.
    """
    try:
        document_format = readable_format(source)
        if document_format.isolated and isolate:
            from drt_engine.documents.sandbox.process import read_isolated

            return read_isolated(document_format, source)
        return open_here(document_format, source)
    except (OSError, UnicodeError) as error:
        raise failure(source, error) from error


def readable_format(source: Source) -> Format:
    """Return a source's format; raises DocumentError for one that is empty or has no reader.

    Raises OSError as it comes.
    """
    with source.open() as file:
        if not file.read(1):
            raise EmptyDocument(f"{source.name} is empty; there is nothing to read.")
    document_format = find_format(source)
    if document_format is None:
        raise unsupported(source)
    expect_readable(document_format, source)
    return document_format


def expect_readable(document_format: Format, source: Source) -> None:
    """Refuse what only a package that is missing or another command can read."""
    if document_format.archive:
        raise UnsupportedFormat(
            f"{source.name} is an archive, not a document; read its members with: "
            f"drt ingest {source.name}"
        )
    if not document_format.installed:
        remedy = f'pip install "drt-assistant[{document_format.extra}]"'
        if document_format.extra is None:
            remedy = f"pip install {document_format.package}"
        raise MissingExtra(
            f"{source.name} is a {document_format.label} file, which needs the package "
            f"{document_format.package}; install it with: {remedy}"
        )
