"""Reads subtitles (.srt, .vtt): what is said as running text; the times are places.

A speaker that a cue names (``<v Ann>``) begins a paragraph with the name. Numbers, settings and
marks of cues are no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import unescape

from drt_engine.documents.base import Block, Node, Notes, OpenDocument, Source, one_line, regroup
from drt_engine.documents.encodings import characters, empty, find_encoding, split_lines

_CLOCK = r"(?:\d{1,3}:)?\d{1,2}:\d{2}[.,]\d{1,3}"
_TIMES = re.compile(rf"\s*({_CLOCK})\s*-->\s*({_CLOCK})\b[^\n]*\n?")
_VOICE = re.compile(r"<v(?:\.[\w.]+)?[ \t]+([^>]{1,200})>")
_MARK = re.compile(r"</?[a-zA-Z][^>]{0,200}>|<(?:\d\d:)?\d\d:\d\d\.\d{3}>|\{\\[^}]{0,100}\}")
_ENDED = re.compile(r"[.!?\u2026][\"'\u201d\u2019)\]]*\Z")
_PAUSE = 4.0  # seconds of silence after which a paragraph begins
_SECTION = 60.0  # seconds that one section has at least
_NOT_CUES = ("WEBVTT", "NOTE", "STYLE", "REGION")


@dataclass(frozen=True)
class _Cue:
    """What is said from ``start`` to ``end``, in seconds; characters ``span`` of the file."""

    start: float
    end: float
    text: str
    speaker: str
    span: tuple[int, int]


def _seconds(clock: str) -> float:
    total = 0.0
    for part in clock.replace(",", ".").split(":"):
        total = total * 60 + float(part)
    return total


def _clock(seconds: float) -> str:
    full_seconds = int(seconds)
    return f"{full_seconds // 3600:02}:{full_seconds // 60 % 60:02}:{full_seconds % 60:02}"


def _cues(lines: Iterable[str], notes: Notes) -> Iterator[_Cue]:
    """Yield the cues of a file; blocks without a time are comments or styles."""
    position, block, begin = 0, list[str](), 0
    for line in lines:
        if line.strip():
            if not block:
                begin = position
            block.append(line)
        else:
            yield from _cue(block, begin, notes)
            block = []
        position += len(line)
    yield from _cue(block, begin, notes)


def _cue(block: list[str], begin: int, notes: Notes) -> Iterator[_Cue]:
    # The time is in the first line, or below a number or a name.
    at = next((n for n, line in enumerate(block[:2]) if _TIMES.match(line)), None)
    if at is None:
        if block and not block[0].lstrip("\ufeff").startswith("WEBVTT"):
            is_comment = block[0].startswith(_NOT_CUES)
            reason = "for who makes the subtitles" if is_comment else "without a time"
            notes.skip("comment or style" if is_comment else "cue", reason)
        return
    times = _TIMES.match(block[at])
    assert times is not None
    start = begin + sum(map(len, block[: at + 1]))
    raw = "".join(block[at + 1 :])
    voice = _VOICE.search(raw)
    text = " ".join(unescape(_MARK.sub("", raw)).split()).replace("\0", "")
    if text:
        yield _Cue(
            _seconds(times[1]),
            _seconds(times[2]),
            text,
            one_line(voice[1]) if voice else "",
            (start, start + len(raw.rstrip())),
        )


def _pieces(source: Source, encoding: str, notes: Notes) -> Iterator[Block]:
    last: _Cue | None = None
    section, began = "", -_SECTION
    for cue in _cues(split_lines(characters(source, encoding)), notes):
        changes = last is None or cue.speaker != last.speaker
        pauses = last is not None and cue.start - last.end >= _PAUSE
        ends = last is not None and _ENDED.search(last.text) is not None
        separator = "" if last is None else "\n\n" if changes or (pauses and ends) else " "
        if separator:
            yield Block(separator, section=section, origin=((0, cue.span[0], cue.span[0]),))
        if (changes or ends) and cue.start - began >= _SECTION:
            section, began = _clock(cue.start), cue.start
        text = f"{cue.speaker}: {cue.text}" if changes and cue.speaker else cue.text
        node = Node("cue", 0, len(text), place=_clock(cue.start))
        yield Block(text, section=section, origin=((0, *cue.span),), nodes=(node,))
        last = cue
    if last is not None:
        yield Block("\n", section=section, origin=((0, last.span[1], last.span[1]),))


@dataclass(frozen=True)
class SubtitlesReader:
    """The text of subtitles, each minute or more a section that is called after its time."""

    def recognises(self, head: bytes) -> bool:
        """Return whether a file begins as WebVTT does, or with the number and time of a cue."""
        text = head.removeprefix(b"\xef\xbb\xbf")[:200].decode("ascii", "replace")
        return (
            text.startswith("WEBVTT")
            or re.match(rf"\s*\d+\s*\r?\n{_TIMES.pattern}", text) is not None
        )

    def open(self, source: Source) -> OpenDocument:
        """Open the subtitles; raise EmptyDocument where nothing is said."""
        encoding = find_encoding(source)
        if next(_cues(split_lines(characters(source, encoding)), Notes()), None) is None:
            raise empty(source)
        notes = Notes()
        media = "text/vtt" if source.suffix == ".vtt" else "application/x-subrip"
        blocks = regroup(_pieces(source, encoding, notes))
        return OpenDocument(one_line(source.file_name), media, blocks, notes)
