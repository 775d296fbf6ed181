"""The parts of a Word file beside its text: styles, list numbers, properties, relations.

Knows their XML; the running text is `docx`'s.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace

from drt_engine.documents.base import date_of, one_line
from drt_engine.documents.metadata import Metadata
from drt_engine.documents.xml import parse
from drt_engine.documents.zips import SafeZip

_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_PLACE = re.compile(r"%(\d)")
_DEEPEST_STYLE = 16
_LONGEST_NUMBER = 100_000
_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
    (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


@dataclass(frozen=True)
class Style:
    """What a paragraph style says; `outline` is a heading's level from 0."""

    name: str = ""
    based_on: str = ""
    outline: int | None = None
    list_id: str = ""
    list_level: int = 0

    @property
    def level(self) -> int | None:
        """The heading level from 1, None for running text."""
        if self.outline is not None:
            return self.outline + 1 if self.outline < 9 else None
        found = _HEADING.fullmatch(self.name)
        return int(found[1]) if found else None


class Styles:
    """Reads styles.xml; `resolved` follows what a style is based on."""

    def __init__(self) -> None:
        self._styles: dict[str, Style] = {}
        self._id = ""
        self._now = Style()

    def start(self, name: str, attributes: dict[str, str], namespace: str) -> None:
        value = attributes.get("val", "")
        if name == "style":
            self._id, self._now = attributes.get("styleId", ""), Style()
        elif name == "name":
            self._now = replace(self._now, name=value)
        elif name == "basedOn":
            self._now = replace(self._now, based_on=value)
        elif name == "outlineLvl":
            self._now = replace(self._now, outline=number(value))
        elif name == "numId":
            self._now = replace(self._now, list_id=value)
        elif name == "ilvl":
            self._now = replace(self._now, list_level=number(value))

    def end(self, name: str) -> None:
        if name == "style":
            self._styles[self._id] = self._now

    def text(self, data: str) -> None:
        pass

    def resolved(self, style_id: str) -> Style:
        """The style with what it leaves open taken from those below it."""
        found = self._styles.get(style_id, Style())
        below = found.based_on
        for _ in range(_DEEPEST_STYLE):
            base = self._styles.get(below)
            if base is None:
                break
            if found.level is None and base.level is not None:
                found = replace(found, outline=base.level - 1)
            if not found.list_id:
                found = replace(found, list_id=base.list_id, list_level=base.list_level)
            below = base.based_on
        return found


@dataclass
class _Level:
    form: str = "decimal"
    pattern: str = ""
    start: int = 1


class Numbering:
    """Reads numbering.xml; `label` counts a list's paragraphs and gives each its number."""

    def __init__(self) -> None:
        self._abstract: dict[str, dict[int, _Level]] = {}
        self._lists: dict[str, str] = {}
        self._levels: dict[int, _Level] = {}
        self._level = _Level()
        self._list = ""
        self._counts: dict[str, list[int | None]] = defaultdict(lambda: [None] * 10)

    def start(self, name: str, attributes: dict[str, str], namespace: str) -> None:
        value = attributes.get("val", "")
        if name == "abstractNum":
            self._levels = self._abstract.setdefault(attributes.get("abstractNumId", ""), {})
        elif name == "lvl":
            self._level = self._levels.setdefault(number(attributes.get("ilvl", "")), _Level())
        elif name == "numFmt":
            self._level.form = value
        elif name == "lvlText":
            self._level.pattern = value
        elif name == "start":
            self._level.start = number(value)
        elif name == "num":
            self._list, self._levels, self._level = attributes.get("numId", ""), {}, _Level()
        elif name == "abstractNumId":
            self._lists[self._list] = value

    def end(self, name: str) -> None:
        pass

    def text(self, data: str) -> None:
        pass

    def label(self, list_id: str, level: int) -> str:
        """The next number of a list with its punctuation, "-" for a bullet, "" for neither."""
        abstract = self._lists.get(list_id, "")
        levels = self._abstract.get(abstract)
        if not levels or list_id == "0":
            return ""
        level = min(level, 8)
        counts = self._counts[abstract]
        own = levels.get(level, _Level())
        counts[level] = own.start if counts[level] is None else counts[level] + 1  # type: ignore[operator]
        counts[level + 1 :] = [None] * (9 - level)
        if own.form in ("bullet", "none"):
            return "-" if own.form == "bullet" else ""
        return _PLACE.sub(lambda found: self._part(levels, counts, int(found[1]) - 1), own.pattern)

    @staticmethod
    def _part(levels: dict[int, _Level], counts: list[int | None], level: int) -> str:
        at = levels.get(level, _Level())
        count = counts[level] if 0 <= level < 9 else None
        return in_form(at.start if count is None else count, at.form)


def in_form(count: int, form: str) -> str:
    """A number as Word's `form` writes it; unknown forms as digits."""
    if not 0 < count < _LONGEST_NUMBER:
        return str(count)
    if form in ("lowerLetter", "upperLetter"):
        letters = chr(ord("a") + (count - 1) % 26) * min((count - 1) // 26 + 1, 40)
        return letters if form == "lowerLetter" else letters.upper()
    if form in ("lowerRoman", "upperRoman") and count < 5000:
        letters = ""
        for value, sign in _ROMAN:
            letters += sign * (count // value)
            count %= value
        return letters if form == "lowerRoman" else letters.upper()
    return str(count)


def number(text: str) -> int:
    """A small number of an attribute; 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0


# Of the picture fonts the signs that people put into forms and lists.
_SYMBOLS = {
    "wingdings": {
        0x6C: "\u25cf", 0x6E: "\u25a0", 0x6F: "\u2610", 0x71: "\u2610", 0xA7: "\u25aa",
        0xA8: "\u2610", 0xD8: "\u27a2", 0xE0: "\u2192", 0xDF: "\u2190", 0xF0: "\u21e8",
        0xFB: "\u2717", 0xFC: "\u2713", 0xFD: "\u2612", 0xFE: "\u2611",
    },
    "wingdings 2": {
        0x50: "\u2713", 0x4F: "\u2717", 0x51: "\u2612", 0x52: "\u2611", 0x53: "\u2612",
        0x54: "\u2612", 0xA3: "\u2610",
    },
    "symbol": {0xB0: "\u00b0", 0xB1: "\u00b1", 0xB7: "\u2022", 0xA3: "\u2264", 0xB3: "\u2265",
               0xAE: "\u2192", 0xB4: "\u00d7", 0xD2: "\u00ae", 0xD3: "\u00a9", 0xD4: "\u2122"},
}  # fmt: skip


def symbol(font: str, code: str) -> str:
    """The character that a picture font draws for a code; "" where that is not known."""
    try:
        number_of = int(code, 16)
    except ValueError:
        return ""
    return _SYMBOLS.get(font.lower(), {}).get(number_of & 0xFF, "")


class Texts:
    """Collects the text of elements by their name: the fields of docProps/core.xml."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._open: list[str] = []

    def start(self, name: str, attributes: dict[str, str], namespace: str) -> None:
        self._open.append(name)

    def end(self, name: str) -> None:
        self._open.pop()

    def text(self, data: str) -> None:
        if self._open:
            self.found[self._open[-1]] = self.found.get(self._open[-1], "") + data


@dataclass
class Parts:
    """What a Word file says beside its text."""

    main: str
    styles: Styles = field(default_factory=Styles)
    numbering: Numbering = field(default_factory=Numbering)
    metadata: Metadata = field(default_factory=Metadata)

    @classmethod
    def read(cls, archive: SafeZip, name: str) -> Parts:
        """The parts that are there; raises UnreadableDocument where one is broken."""
        parts, texts = cls(_main_part(archive)), Texts()
        folder = parts.main.rpartition("/")[0]
        for member, handler in (
            (f"{folder}/styles.xml", parts.styles),
            (f"{folder}/numbering.xml", parts.numbering),
            ("docProps/core.xml", texts),
        ):
            if member in archive:
                for _ in parse(archive.pieces(member), handler, name):
                    pass
        found = texts.found
        parts.metadata = Metadata(
            one_line(found.get("title", "")),
            one_line(found.get("creator", "")),
            date_of(found.get("created", "")),
        )
        return parts


def _main_part(archive: SafeZip) -> str:
    """The name of the part that holds the running text."""
    known = (name for name in archive.members if re.fullmatch(r"word/document\d*\.xml", name))
    return next(known, "word/document.xml")
