"""The parts of an OpenDocument file beside its text: list styles, numbers of headings, metadata.

Knows their XML; the running text is read by ``odt.reader``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from drt_engine.documents.base import date_of, one_line
from drt_engine.documents.docx.parts import Texts, in_form, number
from drt_engine.documents.metadata import Metadata
from drt_engine.documents.xml import Handler, parse
from drt_engine.documents.zips import SafeZip

# How LibreOffice writes a form of numbers, as Word calls it.
_FORMS = {
    "1": "decimal",
    "a": "lowerLetter",
    "A": "upperLetter",
    "i": "lowerRoman",
    "I": "upperRoman",
}
_LIST_LEVELS = frozenset(("list-level-style-number", "outline-level-style"))
_MOST_LEVELS = 10
_OUTLINE = ""  # the name of the style that numbers headings


@dataclass(frozen=True)
class Level:
    """A level of a list: the form of its number, "" for none, and what is around it.

    ``shown`` is how many levels' numbers a label has: 2 for "1.2".
    """

    form: str = ""
    prefix: str = ""
    suffix: str = ""
    start: int = 1
    shown: int = 1
    is_bullet: bool = False


class ListStyles(Handler):
    """Reads the styles of lists, and that of headings, from styles.xml and content.xml."""

    def __init__(self) -> None:
        self.styles: dict[str, dict[int, Level]] = {}
        self.parents: dict[str, str] = {}  # of paragraph styles
        self.names: dict[str, str] = {}  # of paragraph styles, as people see them
        self._levels: dict[int, Level] = {}

    def start(self, name: str, attributes: dict[str, str], _namespace: str, /) -> None:
        """Take a style or a level of one."""
        if name == "list-style":
            self._levels = self.styles.setdefault(attributes.get("name", "-"), {})
        elif name == "outline-style":
            self._levels = self.styles.setdefault(_OUTLINE, {})
        elif name == "list-level-style-bullet":
            self._levels[number(attributes.get("level", ""))] = Level(is_bullet=True)
        elif name in _LIST_LEVELS:
            self._levels[number(attributes.get("level", ""))] = Level(
                _FORMS.get(attributes.get("num-format", ""), ""),
                attributes.get("num-prefix", ""),
                attributes.get("num-suffix", ""),
                number(attributes.get("start-value", "1")),
                number(attributes.get("display-levels", "1")),
            )
        elif name == "style" and attributes.get("family") == "paragraph":
            style = attributes.get("name", "")
            self.parents[style] = attributes.get("parent-style-name", "")
            self.names[style] = attributes.get("display-name", style)

    def level(self, style: str, depth: int) -> Level:
        """Return a level of a list, from 1; one without a label where the style is not known."""
        return self.styles.get(style, {}).get(depth, Level())

    def paragraph_names(self, style: str) -> list[str]:
        """Return the names of a paragraph's style and of those that it is based on."""
        names: list[str] = []
        while style and len(names) < _MOST_LEVELS:  # a file may base styles on each other
            names.append(self.names.get(style, style).lower())
            style = self.parents.get(style, "")
        return names


@dataclass
class Counter:
    """The numbers of a list so far, by level."""

    counts: list[int | None] = field(default_factory=lambda: [None] * (_MOST_LEVELS + 1))

    def label(self, levels: Mapping[int, Level], depth: int) -> str:
        """Return the next label at a level, from 1: "-" for bullets, "" for none."""
        depth = max(1, min(depth, _MOST_LEVELS))
        level = levels.get(depth, Level())
        count = self.counts[depth]
        self.counts[depth] = level.start if count is None else count + 1
        self.counts[depth + 1 :] = [None] * (_MOST_LEVELS - depth)  # deeper levels begin again
        if level.is_bullet:
            return "-"
        if not level.form:
            return ""
        first = max(1, depth - max(1, level.shown) + 1)
        numbers = (
            in_form(self.counts[n] or 1, levels.get(n, level).form or level.form)
            for n in range(first, depth + 1)
        )
        return f"{level.prefix}{'.'.join(numbers)}{level.suffix}".strip()


@dataclass
class Parts:
    """The parts of an OpenDocument file that its running text refers to."""

    styles: ListStyles = field(default_factory=ListStyles)
    metadata: Metadata = field(default_factory=Metadata)

    @classmethod
    def read(cls, archive: SafeZip, name: str) -> Parts:
        """Read the parts that exist; raise UnreadableDocument where one is broken."""
        parts, texts = cls(), Texts()
        for member, handler in (("styles.xml", parts.styles), ("meta.xml", texts)):
            if member in archive:
                for _ in parse(archive.pieces(member), handler, name):
                    pass
        fields = texts.fields
        parts.metadata = Metadata(
            one_line(fields.get("title", "")),
            one_line(fields.get("initial-creator", "") or fields.get("creator", "")),
            date_of(fields.get("creation-date", "") or fields.get("date", "")),
        )
        return parts

    @property
    def heading_levels(self) -> Mapping[int, Level]:
        """The levels that number headings."""
        return self.styles.styles.get(_OUTLINE, {})
