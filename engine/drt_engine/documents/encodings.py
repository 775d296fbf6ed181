"""Finds the encoding of every format that is text underneath, and decodes it piece by piece.

Knows bytes and characters; knows no format.
"""

from __future__ import annotations

import codecs
import importlib
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from drt_engine.documents.base import BLOCK_CHARACTERS, Source
from drt_engine.documents.formats import importable
from drt_engine.errors import EmptyDocument, UnreadableDocument

_READ_BYTES = 1 << 16
_GUESSER = "charset_normalizer"
_GUESS_BYTES = 1 << 18
_MAX_CONTROL_SHARE = 0.05
# Western text has accents on about one letter in ten; Cyrillic or Chinese bytes read as cp1252
# would be nearly all above 127.
_MAX_HIGH_SHARE = 0.3
_HEAD_BYTES, _WIDE_SHARE = 4096, 0.6
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Tab, line feed, vertical tab, form feed, carriage return; backspace and escape are in logs.
_CONTROLS = bytes(b for b in (*range(32), 127) if b not in (8, 9, 10, 11, 12, 13, 27))
_HIGH = bytes(range(128, 256))
_NOT_CP1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_ESCAPED = re.compile("[\udc80-\udcff]")
# Only codecs that turn bytes to text and cannot be confused with a transformation such as rot13.
_DECLARABLE = (
    "iso8859", "cp125", "koi8", "shift_jis", "cp932", "euc_", "gb", "big5", "cp949", "iso2022_",
    "mac-roman", "cp866", "cp874", "tis-620",
)  # fmt: skip


@dataclass
class _Survey:
    """Statistics of one pass over the bytes of a file without a byte order mark."""

    size: int = 0
    controls: int = 0
    high: int = 0
    escaped: int = 0
    continued: int = 0  # bytes after the first of well-formed UTF-8 characters
    first_error: int | None = None
    nul: int | None = None
    blank: bool = True
    cp1252: bool = True

    def __post_init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def feed(self, data: bytes, *, final: bool) -> None:
        pending = len(self._decoder.getstate()[0])
        text = self._decoder.decode(data, final)
        if self.nul is None and b"\0" in data:
            self.nul = self.size + data.index(0)
        self.controls += len(data) - len(data.translate(None, _CONTROLS))
        self.blank = self.blank and (not text or text.isspace())
        if not data.isascii() or pending:
            self._feed_high(data, text, start=self.size - pending)
        self.size += len(data)

    def _feed_high(self, data: bytes, text: str, *, start: int) -> None:
        self.high += len(data) - len(data.translate(None, _HIGH))
        self.cp1252 = self.cp1252 and not _NOT_CP1252.search(data)
        try:
            encoded = text.encode()
        except UnicodeEncodeError as error:
            if self.first_error is None:
                self.first_error = start + len(text[: error.start].encode())
            self.escaped += len(_ESCAPED.findall(text))
            encoded = text.encode("utf-8", "surrogateescape")
        self.continued += len(encoded) - len(text)

    @property
    def binary(self) -> bool:
        return self.nul is not None or self.controls > _MAX_CONTROL_SHARE * self.size

    @property
    def damaged_utf8(self) -> bool:
        return self.continued > self.escaped > 0

    @property
    def plausible_cp1252(self) -> bool:
        return self.cp1252 and not self.controls and self.high <= _MAX_HIGH_SHARE * self.size


def read_bytes(file: BinaryIO) -> Iterator[bytes]:
    """Yield the file in pieces of constant size."""
    while data := file.read(_READ_BYTES):
        yield data


def find_encoding(source: Source, declared: str | None = None) -> str:
    """Return the encoding to give to ``characters``, after one full pass over the bytes.

    A byte order mark decides, or zeros as UTF-16 has them; else UTF-8 where the bytes are that,
    then the declared encoding, then cp1252 where it is plausible, then a guess by
    charset-normalizer where it is installed.

    ``declared`` is what the document says of itself. Raises EmptyDocument when there is nothing but
    white space, UnreadableDocument when the bytes are not text or in no encoding that fits.
    """
    with source.open() as file:
        head = file.read(4)
    for bom, encoding in _BOMS:
        if head.startswith(bom):
            _check(source, encoding)
            return encoding
    survey = _survey(source)
    if survey.nul is not None and (wide := _wide(source)):
        return wide
    if survey.binary:
        raise _binary(source, survey.nul)
    if survey.blank:
        raise empty(source)
    return _choose(source, survey, codec_name(declared))


def _wide(source: Source) -> str | None:
    """Return UTF-16 with the order of its bytes where a file without their mark is text in that.

    Every second byte of Western text is zero then, and no other one.
    """
    with source.open() as file:
        head = file.read(_HEAD_BYTES)
    counts = [head[parity::2].count(0) for parity in (0, 1)]
    if min(counts) or max(counts) < _WIDE_SHARE * len(head) / 2:
        return None
    encoding = "utf-16-le" if counts[1] else "utf-16-be"
    survey = _Survey()
    try:
        for text in _decoded(source, encoding):
            survey.feed(text.encode(), final=False)
    except UnicodeError:
        return None
    return None if survey.binary or survey.blank else encoding


def _choose(source: Source, survey: _Survey, declared: str | None) -> str:
    shifted = declared is not None and declared.startswith("iso2022")
    if not survey.escaped and not shifted:
        return "utf-8"
    if declared is not None and _decodes(source, declared):
        return declared
    if survey.damaged_utf8:
        raise UnreadableDocument(
            f"{source.name} is UTF-8 with a wrong byte at {survey.first_error}; "
            "repair the file or save it as UTF-8 again."
        )
    if not survey.escaped:
        return "utf-8"
    if survey.plausible_cp1252:
        return "cp1252"
    guessed = _guess(source)
    if guessed is not None:
        return guessed
    remedy = "" if importable(_GUESSER) else ', or pip install "drt-assistant[encodings]"'
    raise UnreadableDocument(
        f"{source.name} is text in an unknown encoding (byte {survey.first_error} is not UTF-8); "
        f"save it as UTF-8{remedy}."
    )


def _guess(source: Source) -> str | None:
    """Return charset-normalizer's guess, where it is installed and all bytes agree.

    It is asked only where cp1252 is ruled out: Western text it takes for other code pages.
    """
    if not importable(_GUESSER):
        return None
    with source.open() as file:
        best = importlib.import_module(_GUESSER).from_bytes(file.read(_GUESS_BYTES)).best()
    encoding = codec_name(best.encoding) if best is not None else None
    return encoding if encoding is not None and _decodes(source, encoding) else None


def _survey(source: Source) -> _Survey:
    survey = _Survey()
    with source.open() as file:
        for data in read_bytes(file):
            survey.feed(data, final=False)
    survey.feed(b"", final=True)
    return survey


def _check(source: Source, encoding: str) -> None:
    """Check that a file is text in the encoding that its byte order mark names."""
    survey = _Survey()
    try:
        for text in _decoded(source, encoding):
            survey.feed(text.encode(), final=False)
    except UnicodeDecodeError as error:
        raise UnreadableDocument(
            f"{source.name} has the byte order mark of {encoding.removesuffix('-sig').upper()} but "
            f"is not valid in it ({error.reason}); save it as UTF-8."
        ) from error
    if survey.binary:
        raise _binary(source, None)
    if survey.blank:
        raise empty(source)


def _decodes(source: Source, encoding: str) -> bool:
    try:
        for _ in _decoded(source, encoding):
            pass
    except UnicodeDecodeError:
        return False
    return True


def codec_name(declared: str | None) -> str | None:
    """Return Python's name of a declared encoding that may be tried; None for others."""
    try:
        name = codecs.lookup(declared.strip()).name if declared else ""
    except (LookupError, ValueError):
        return None
    if name in ("iso8859-1", "ascii"):
        return "cp1252"  # as browsers do: pages that say Latin-1 are written on Windows
    return name if name.startswith(_DECLARABLE) else None


def empty(source: Source) -> EmptyDocument:
    """Return the error for a document without words."""
    return EmptyDocument(f"{source.name} is empty (it holds no text); give a document with words.")


def _binary(source: Source, nul: int | None) -> UnreadableDocument:
    reason = "control characters" if nul is None else f"a NUL byte at {nul}"
    return UnreadableDocument(
        f"{source.name} looks like a binary file ({reason}); give a text, or convert it to UTF-8."
    )


def looks_like_text(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` may be text; ``find_encoding`` decides."""
    if any(head.startswith(bom) for bom, _ in _BOMS):
        return True
    survey = _Survey()
    survey.feed(head, final=False)
    utf8 = not survey.escaped or survey.damaged_utf8
    return not survey.binary and (utf8 or survey.plausible_cp1252)


def _decoded(source: Source, encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    with source.open() as file:
        for data in read_bytes(file):
            yield decoder.decode(data)
        yield decoder.decode(b"", True)


def characters(source: Source, encoding: str) -> Iterator[str]:
    """Yield the decoded text in pieces of constant size, newlines as \\n."""
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    for text in _decoded(source, encoding):
        yield newlines.decode(text)
    yield newlines.decode("", final=True)


def split_lines(pieces: Iterable[str], limit: int = BLOCK_CHARACTERS) -> Iterator[str]:
    """Yield lines with their newline; lines longer than ``limit`` in parts that have none."""
    unfinished = ""
    for piece in pieces:
        unfinished += piece
        lines = unfinished.split("\n")
        unfinished = lines.pop()
        for line in lines:
            yield line + "\n"
        if len(unfinished) > limit:
            yield unfinished
            unfinished = ""
    if unfinished:
        yield unfinished
