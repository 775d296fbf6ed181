"""Reads Outlook messages (.msg) through the extra ``msg`` (python-oxmsg).

The message is written as an e-mail and read as one: its headers, its text, attachments of text.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any

from drt_engine.documents.base import Block, OpenDocument, Source, one_line, reason_of
from drt_engine.documents.limits import MESSAGE_BYTES
from drt_engine.documents.mail.reader import MailReader, is_text
from drt_engine.errors import DocumentError, UnreadableDocument

_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # of the container, which old Word files share
_NAMES = "__properties_version1.0".encode("utf-16-le")
_FIRST_YEAR = 1970
# What python-oxmsg was seen to raise for files that are damaged.
_FAULTS = (
    OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError,
    struct.error,
)  # fmt: skip


def _message(source: Source) -> Any:
    library = importlib.import_module("oxmsg")
    with source.open() as file:
        data = file.read(MESSAGE_BYTES + 1)
    if len(data) > MESSAGE_BYTES:
        raise UnreadableDocument(
            f"{source.name} is a message of more than {MESSAGE_BYTES >> 20} MB; "
            "save it without its attachments."
        )
    return library.Message.load(data)


def _as_mail(message: Any) -> EmailMessage:
    """Return the message as an e-mail; an attachment that is no text keeps its name alone."""
    mail = EmailMessage()
    headers = {name.lower(): value for name, value in message.message_headers.items()}
    people = [_address(person) for person in message.recipients]
    date = message.sent_date
    if date is not None and date.year < _FIRST_YEAR:
        date = None  # the clock's beginning, in place of a date that is not known
    for name, value in (
        ("From", message.sender),
        ("To", headers.get("to") or ", ".join(filter(None, people))),
        ("Cc", headers.get("cc")),
        ("Date", headers.get("date") or (format_datetime(date) if date else "")),
        ("Subject", message.subject),
    ):
        if text := one_line(value or ""):
            mail[name] = text
    if sender := ", ".join(str(address) for address in getattr(mail["From"], "addresses", ())):
        mail.replace_header("From", sender)  # without the quotation marks of a plain name
    plain, html = message.body, message.html_body
    if plain and plain.strip() or not html:
        mail.set_content(plain or "", cte="8bit")
    else:
        mail.set_content(html, subtype="html", cte="8bit")
    for attachment in message.attachments:
        name = one_line(attachment.file_name or "") or "without a name"
        data = attachment.file_bytes or b"" if is_text(name) else b""
        mail.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return mail


def _address(person: Any) -> str:
    name, address = one_line(person.name or ""), one_line(person.email_address or "")
    return f"{name} <{address}>" if name and address and name != address else name or address


@dataclass(frozen=True)
class OutlookReader:
    """A message that Outlook saved."""

    def recognises(self, head: bytes) -> bool:
        """Return whether a file begins as Outlook's do."""
        return head.startswith(_SIGNATURE) and _NAMES in head

    def open(self, source: Source) -> OpenDocument:
        """Open the message; its subject, sender and date are the document's."""
        try:
            data = _as_mail(_message(source)).as_bytes()
        except DocumentError:
            raise
        except _FAULTS as error:
            raise UnreadableDocument(
                f"{source.name} is not a whole Outlook message ({reason_of(error)}); "
                "get or export it again."
            ) from error
        document = MailReader().open(Source.from_bytes(data, source.name))
        blocks = _without_lines(document.blocks)
        return replace(document, media_type="application/vnd.ms-outlook", blocks=blocks)


def _without_lines(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield blocks without lines, which the file does not have."""
    return (replace(block, line=None) for block in blocks)
