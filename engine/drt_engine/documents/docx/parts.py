"""The parts of a Word file beside its text: styles, list numbers, properties, relations.

Knows their XML; the running text is read by ``docx.reader``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace

from drt_engine.documents.base import date_of, one_line
from drt_engine.documents.metadata import Metadata
from drt_engine.documents.xml import Handler, parse
from drt_engine.documents.zips import SafeZip

_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_PLACE = re.compile(r"%(\d)")
_MAX_STYLE_DEPTH = 16
_MAX_NUMBER = 100_000
_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
    (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


@dataclass(frozen=True)
class Style:
    """A paragraph style; ``outline`` is a heading's level from 0, with 9 for running text."""

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
        match = _HEADING.fullmatch(self.name)
        return int(match[1]) if match else None


class Styles(Handler):
    """Reads styles.xml; ``resolved`` follows what a style is based on."""

    def __init__(self) -> None:
        self._styles: dict[str, Style] = {}
        self._id = ""
        self._current = Style()

    def start(self, name: str, attributes: dict[str, str], _namespace: str, /) -> None:
        """Take a property of the current style."""
        value = attributes.get("val", "")
        if name == "style":
            self._id, self._current = attributes.get("styleId", ""), Style()
        elif name == "name":
            self._current = replace(self._current, name=value)
        elif name == "basedOn":
            self._current = replace(self._current, based_on=value)
        elif name == "outlineLvl":
            self._current = replace(self._current, outline=number(value))
        elif name == "numId":
            self._current = replace(self._current, list_id=value)
        elif name == "ilvl":
            self._current = replace(self._current, list_level=number(value))

    def end(self, name: str, /) -> None:
        """Store a style at its end."""
        if name == "style":
            self._styles[self._id] = self._current

    def resolved(self, style_id: str) -> Style:
        """Return a style with what it leaves open taken from the styles it is based on."""
        style = self._styles.get(style_id, Style())
        base_id = style.based_on
        for _ in range(_MAX_STYLE_DEPTH):  # a file may base styles on each other in a circle
            base = self._styles.get(base_id)
            if base is None:
                break
            if style.level is None and base.level is not None:
                style = replace(style, outline=base.level - 1)
            if not style.list_id:
                style = replace(style, list_id=base.list_id, list_level=base.list_level)
            base_id = base.based_on
        return style


@dataclass
class _Level:
    """A level of a list; ``pattern`` is its label with ``%1`` to ``%9`` for the levels' numbers."""

    form: str = "decimal"
    pattern: str = ""
    start: int = 1


class Numbering(Handler):
    """Reads numbering.xml; ``label`` counts a list's paragraphs and gives each its number.

    Lists (``num``) refer to definitions (``abstractNum``); lists of one definition count together.
    """

    def __init__(self) -> None:
        self._abstract: dict[str, dict[int, _Level]] = {}
        self._lists: dict[str, str] = {}
        self._levels: dict[int, _Level] = {}
        self._level = _Level()
        self._list = ""
        self._counts: dict[str, list[int | None]] = defaultdict(lambda: [None] * 10)

    def start(self, name: str, attributes: dict[str, str], _namespace: str, /) -> None:
        """Take a definition, one of its levels, or a list."""
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

    def label(self, list_id: str, level: int) -> str:
        """Return the next number of a list with its punctuation; "-" for bullets, "" for none."""
        abstract = self._lists.get(list_id, "")
        levels = self._abstract.get(abstract)
        if not levels or list_id == "0":
            return ""
        level = min(level, 8)
        counts = self._counts[abstract]
        style = levels.get(level, _Level())
        count = counts[level]
        counts[level] = style.start if count is None else count + 1
        counts[level + 1 :] = [None] * (9 - level)  # deeper levels begin again
        if style.form in ("bullet", "none"):
            return "-" if style.form == "bullet" else ""
        return _PLACE.sub(
            lambda match: self._part(levels, counts, int(match[1]) - 1), style.pattern
        )

    @staticmethod
    def _part(levels: dict[int, _Level], counts: list[int | None], level: int) -> str:
        style = levels.get(level, _Level())
        count = counts[level] if 0 <= level < 9 else None
        return in_form(style.start if count is None else count, style.form)


def in_form(count: int, form: str) -> str:
    """Return a number as Word's ``form`` writes it; unknown forms as digits."""
    if not 0 < count < _MAX_NUMBER:
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
    """Return a small number of an attribute; 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0


# The signs of picture fonts that people put into forms and lists, by the low byte of their code:
# Word writes F06F as well as 6F.
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


_UNICODE_SIGNS = range(0x2000, 0xE000)  # beyond, codes are the fonts' own


def symbol(font: str, code: str) -> str:
    """Return the character that a picture font draws for a code; "" where that is not known."""
    try:
        code_point = int(code, 16)
    except ValueError:
        return ""
    signs = _SYMBOLS.get(font.lower())
    if signs is None and code_point in _UNICODE_SIGNS:  # tick boxes of MS Gothic and the like
        return chr(code_point)
    return (signs or {}).get(code_point & 0xFF, "")


class Texts(Handler):
    """Collects the text of elements by their name: the fields of docProps/core.xml."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self._open: list[str] = []

    def start(self, name: str, _attributes: dict[str, str], _namespace: str, /) -> None:
        """Open an element."""
        self._open.append(name)

    def end(self, _name: str, /) -> None:
        """Close the innermost element."""
        self._open.pop()

    def text(self, data: str, /) -> None:
        """Add text to the innermost element."""
        if self._open:
            self.fields[self._open[-1]] = self.fields.get(self._open[-1], "") + data


@dataclass
class Parts:
    """The parts of a Word file that its running text refers to."""

    main: str
    styles: Styles = field(default_factory=Styles)
    numbering: Numbering = field(default_factory=Numbering)
    metadata: Metadata = field(default_factory=Metadata)

    @classmethod
    def read(cls, archive: SafeZip, name: str) -> Parts:
        """Read the parts that exist; raise UnreadableDocument where one is broken."""
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
        parts.metadata = Metadata(
            one_line(texts.fields.get("title", "")),
            one_line(texts.fields.get("creator", "")),
            date_of(texts.fields.get("created", "")),
        )
        return parts


def _main_part(archive: SafeZip) -> str:
    """Return the name of the part that holds the running text."""
    # Some programs write document2.xml; the relations, which say so, need not be read for that.
    names = (name for name in archive.members if re.fullmatch(r"word/document\d*\.xml", name))
    return next(names, "word/document.xml")
