"""Reads e-mail (.eml, .mbox): the headers people read, the body, attachments that are text.

Each message of a mailbox is a section; other attachments are named, not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.errors import HeaderParseError, MessageError
from email.message import Message
from email.parser import BytesParser
from typing import Any

from drt_engine.documents.base import (
    Block,
    Notes,
    OpenDocument,
    Source,
    date_of,
    one_line,
    regroup,
    words,
)
from drt_engine.documents.encodings import empty
from drt_engine.documents.html.reader import HtmlReader
from drt_engine.documents.limits import HEADER_CHARACTERS, MESSAGE_BYTES, NESTED_MESSAGES
from drt_engine.documents.mail.headers import Headers, decode_bytes
from drt_engine.documents.mail.lines import PartLines, newlines
from drt_engine.errors import DocumentError, UnreadableDocument

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_TEXT_SUFFIXES = (".txt", ".md", ".csv", ".log", ".rst", ".json", ".ics")
# What ``_MessageWriter`` reads or needs to read the rest.
_READ_HEADERS = frozenset(map(str.lower, _HEADERS)) | words(
    "content-type content-transfer-encoding content-disposition mime-version"
)
_FIRST_LINE = re.compile(rb"From \S+.*\d\d:\d\d")
_QUOTED_FROM = re.compile(rb">+From ")  # so that it does not begin a message
_HEADER_LINE = re.compile(
    rb"(?:From|To|Subject|Date|Received|Return-Path|Delivered-To|Message-ID|MIME-Version|X-[\w-]+|"
    rb"DKIM-Signature): ?.*",
    re.IGNORECASE,
)
_KNOWING = re.compile(rb"^(?:From|Subject|Received|Message-ID):", re.IGNORECASE | re.MULTILINE)
# What the email package raises on headers and bodies that no program wrote.
_PARSE_ERRORS = (MessageError, HeaderParseError, LookupError, ValueError, TypeError, AttributeError)


def _messages(source: Source, notes: Notes) -> Iterator[tuple[int, bytes]]:
    """Yield the line of each message of a mailbox and its bytes; one for a file of one message.

    A line "From ..." with a time after an empty line begins a message (mbox); within messages such
    lines are written ">From ...".
    """
    with source.open() as file:
        mailbox = _FIRST_LINE.match(file.read(256)) is not None
        file.seek(0)
        lines: list[bytes] = []
        size, blank, number, first = 0, True, 1, 1
        while line := file.readline(1 << 20):
            number += newlines(line)
            if mailbox and blank and _FIRST_LINE.match(line):
                if lines:
                    yield first, b"".join(lines)
                lines, size, first = [], 0, number
                continue
            blank = not line.strip()
            if mailbox and _QUOTED_FROM.match(line):
                line = line[1:]
            size += len(line)
            if size <= MESSAGE_BYTES:
                lines.append(line)
            elif size - len(line) <= MESSAGE_BYTES:
                notes.skip("end of a message", "beyond 64 MB")
        if lines:
            yield first, b"".join(lines)


class _MessageWriter:
    """Writes one message; attached messages are sections within it."""

    def __init__(self, name: str, notes: Notes, lines: PartLines, headers: Headers) -> None:
        """Make the writer of a message in the source ``name``; ``lines`` has its parts' places."""
        self._name, self._notes, self._lines, self._headers = name, notes, lines, headers

    def blocks(self, message: Message, path: tuple[str, ...] = ()) -> Iterator[Block]:
        """Yield headers and body of a message that is attached within those of ``path``."""
        subject = self._headers.title(message, "Subject") or "(no subject)"
        path = (*path, subject)
        section = " > ".join(path)
        headers = []
        for name in _HEADERS:
            values = list(filter(None, self._headers.all(message, name)))
            headers += [(name, self._shortened(name, value)) for value in values[:1]]
            if len(values) > 1:
                reason = "a message has one; they may be forged"
                self._notes.skip(f"further header called {name}", reason, len(values) - 1)
        unread = sum(key.lower() not in _READ_HEADERS for key in message.keys())  # noqa: SIM118
        if unread:
            self._notes.skip("other header", "for mail programs, not the text", unread)
        for number, (name, value) in enumerate(headers, 1):
            end = "\n\n" if number == len(headers) else "\n"
            line = self._lines.header(message, name)
            yield Block(f"{name}: {value}{end}", section=section, line=line)
        yield from self._part(message, path)

    def _shortened(self, name: str, value: str) -> str:
        if len(value) > HEADER_CHARACTERS:
            self._notes.skip(f"end of {name}", f"longer than {HEADER_CHARACTERS:,} characters")
        return value[:HEADER_CHARACTERS]

    def _part(self, part: Message, path: tuple[str, ...]) -> Iterator[Block]:
        kind = part.get_content_type()
        if kind == "message/rfc822" and isinstance(part.get_payload(), list):
            yield from self._attached(part, path)
        elif kind == "multipart/alternative":
            self._note_around(part)
            preferred = self._preferred(part)
            for form in _parts(part):
                if form is not preferred:
                    reason = "the same text is read in another form"
                    self._notes.skip(f"part of type {form.get_content_type()}", reason)
            if preferred is not None:
                yield from self._part(preferred, path)
        elif part.is_multipart():
            self._note_around(part)
            for inner in _parts(part):
                yield from self._part(inner, path)
        else:
            yield from self._leaf(part, path)

    def _note_around(self, part: Message) -> None:
        around = f"{part.preamble or ''}\n{part.epilogue or ''}".split("\n")
        count = sum(bool(line.strip()) for line in around)
        if count:
            reason = "before the first part or after the last, where mail programs show nothing"
            self._notes.skip("line around the parts", reason, count)

    def _attached(self, part: Message, path: tuple[str, ...]) -> Iterator[Block]:
        if len(path) >= NESTED_MESSAGES:
            reason = f"more than {NESTED_MESSAGES} messages deep"
            self._notes.skip("attached message", reason)
            return
        for inner in _parts(part):
            yield from self.blocks(inner, path)

    def _preferred(self, part: Message) -> Message | None:
        """Of the same text in several forms the plain form, unless it is only a stub."""
        forms = list(_parts(part))
        plain = [form for form in forms if form.get_content_type() == "text/plain"]
        if plain and _decoded(plain[0]).strip():
            return plain[0]
        rich = [
            form for form in forms if form.get_content_type() == "text/html" or form.is_multipart()
        ]
        return next(iter(rich or forms), None)

    def _leaf(self, part: Message, path: tuple[str, ...]) -> Iterator[Block]:
        kind, name = part.get_content_type(), _file_name(part)
        first = self._lines.body(part)
        lines: list[int] | None
        if kind == "text/html" or name.lower().endswith((".html", ".htm")):
            text = self._html(part)
            lines = None if first is None else [first] * (text.count("\n") + 1)
        elif kind.startswith(("text/", "multipart/")) or is_text(name):
            text = _decoded(part)
            lines = self._lines.of_text(part, text)
        else:
            subject = f"attachment {name}" if name else f"part of type {kind}"
            self._notes.skip(subject, "not read; save and read separately")
            if name and part.get_content_disposition() == "attachment":
                line = f"Attachment {name} (not read)\n\n"
                yield Block(line, section=" > ".join(path), line=self._lines.top(part))
            return
        body = text.strip("\n")
        if not body.strip():
            if part.get_payload():
                self._notes.skip(f"part of type {kind}", "no text that can be decoded")
            return
        section = " > ".join(path)
        if name:
            yield Block(f"Attachment {name}:\n\n", section=section, line=self._lines.top(part))
        skipped = len(text) - len(text.lstrip("\n"))
        yield from _lined(f"{body}\n\n", None if lines is None else lines[skipped:], section)

    def _html(self, part: Message) -> str:
        data = _decoded(part).encode("utf-8", "replace")
        try:
            document = HtmlReader().open(Source.from_bytes(data, self._name))
            self._notes.merge(document.notes)
            return "".join(block.text for block in document.blocks)
        except DocumentError:
            return ""


def _lined(text: str, lines: Sequence[int] | None, section: str) -> Iterator[Block]:
    """Yield the text in blocks whose lines follow each other in the source as in the text."""
    if lines is None:
        yield Block(text, section=section)
        return
    written = [line + "\n" for line in text.removesuffix("\n").split("\n")]
    first = 0
    for at in range(1, len(written) + 1):
        # After the source's own lines come the empty ones that end the part.
        if at < min(len(written), len(lines)) and lines[at] != lines[first] + at - first:
            yield Block("".join(written[first:at]), section=section, line=lines[first])
            first = at
    yield Block("".join(written[first:]), section=section, line=lines[first])


def is_text(name: str) -> bool:
    """Return whether an attachment of this name is read."""
    return name.lower().endswith((*_TEXT_SUFFIXES, ".html", ".htm"))


def _parts(message: Message) -> Iterator[Message]:
    payload: Any = message.get_payload()
    for part in payload if isinstance(payload, list) else []:
        if isinstance(part, Message):
            yield part


def _file_name(part: Message) -> str:
    try:
        return one_line(part.get_filename() or "")
    except _PARSE_ERRORS:
        return ""


def _decoded(part: Message) -> str:
    """Return a part's text; bytes that its declared encoding does not have become U+FFFD."""
    try:
        data: Any = part.get_payload(decode=True)
        declared = part.get_content_charset()
    except _PARSE_ERRORS:
        return ""
    if not isinstance(data, bytes):
        return ""
    text = decode_bytes(data, declared)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\0", "")


def _written_messages(
    source: Source, notes: Notes, headers: Headers
) -> Iterator[tuple[Message, Iterator[Block]]]:
    parser = BytesParser()
    for first, data in _messages(source, notes):
        try:
            message = parser.parsebytes(data)
            lines = PartLines(data, message, first)
        except _PARSE_ERRORS as error:
            notes.skip("message", f"not whole: {type(error).__name__}")
            continue
        yield message, _MessageWriter(source.name, notes, lines, headers).blocks(message)


def _pieces(source: Source, notes: Notes, headers: Headers) -> Iterator[Block]:
    for _, blocks in _written_messages(source, notes, headers):
        yield from blocks


@dataclass(frozen=True)
class MailReader:
    """A message, or the messages of a mailbox."""

    def recognises(self, head: bytes) -> bool:
        """Return whether a file begins as a mailbox does, or with headers of a message."""
        if _FIRST_LINE.match(head) and _KNOWING.search(head):
            return True
        return _HEADER_LINE.match(head) is not None and len(_KNOWING.findall(head)) > 1

    def open(self, source: Source) -> OpenDocument:
        """Open the messages; subject, sender and date of a single one are the document's."""
        headers = Headers()
        first = next(_written_messages(source, Notes(), headers), None)
        if first is None or not any(b.text.strip() for b in _pieces(source, Notes(), headers)):
            raise empty(source)
        message, _ = first
        if not any(message.get(name) for name in (*_HEADERS, "Received", "Message-ID")):
            raise UnreadableDocument(
                f"{source.name} is no e-mail (none of the usual headers); "
                "save it as .txt to have it read as it stands."
            )
        with source.open() as file:
            mailbox = _FIRST_LINE.match(file.read(256)) is not None
        subject = "" if mailbox else headers.title(message, "Subject")
        media = "application/mbox" if mailbox else "message/rfc822"
        notes = Notes()
        blocks = regroup(_pieces(source, notes, headers))
        author, date = "", ""
        if not mailbox:
            author, date = headers.title(message, "From"), headers.title(message, "Date")
        title = subject or one_line(source.file_name)
        return OpenDocument(title, media, blocks, notes, author, date_of(date))
