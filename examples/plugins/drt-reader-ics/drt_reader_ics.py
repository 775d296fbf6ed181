"""Reads calendars (.ics): each event is a paragraph, its summary a section."""

from __future__ import annotations

import re
from collections.abc import Iterator

from drt_engine.documents.base import Block, OpenDocument, Source
from drt_engine.documents.formats import Format
from drt_engine.errors import UnreadableDocument

ICS = Format("ics", "calendar", (".ics",), "drt_reader_ics:CalendarReader", isolated=False)
FIELDS = ("SUMMARY", "DTSTART", "LOCATION", "DESCRIPTION")


class CalendarReader:
    """Reads files that begin with BEGIN:VCALENDAR."""

    def recognises(self, head: bytes) -> bool:
        """Return whether the first bytes of a file are a calendar's."""
        return head.lstrip()[:15].upper() == b"BEGIN:VCALENDAR"

    def open(self, source: Source) -> OpenDocument:
        """Return the events; raises ``UnreadableDocument`` where there is none."""
        with source.open() as file:
            text = file.read().decode("utf-8", errors="replace")
        events = list(_events(text))
        if not events:
            raise UnreadableDocument(f"{source.name} holds no event; export the calendar again.")
        blocks = [Block(_words(event), section=event.get("SUMMARY")) for event in events]
        return OpenDocument(source.name, "text/calendar", iter(blocks))


def _events(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each event; a line that begins with a space goes on with the last."""
    event: dict[str, str] = {}
    for line in re.sub(r"\r?\n[ \t]", "", text).splitlines():
        name, _, value = line.partition(":")
        if line.upper() == "BEGIN:VEVENT":
            event = {}
        elif line.upper() == "END:VEVENT":
            yield event
        else:
            event[name.partition(";")[0].upper()] = re.sub(r"\\([,;nN])", _plain, value)


def _plain(match: re.Match[str]) -> str:
    return " " if match[1] in "nN" else match[1]


def _words(event: dict[str, str]) -> str:
    return ". ".join(event[name].rstrip(".") for name in FIELDS if event.get(name)) + ".\n\n"
