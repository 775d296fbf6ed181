"""Tells headings, tables of contents and titles in plain text, which marks none of them.

A heading is a line of its own, between empty lines, that is underlined, numbered, called a chapter
or written in capitals. Knows lines; the text stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from drt_engine.documents.base import Block, Notes, PassedOver, SectionPath, one_line
from drt_engine.documents.metadata import Metadata, header_fields, metadata_of
from drt_engine.documents.structure.contents import CONTENTS_LINE, has_leader

_LONGEST = 100
_FEWEST_ENTRIES = 3  # of a table of contents, one below the other
_FIELD_LINES = 60
# A title in the middle: most lines; least indent and how far middles may be apart, characters.
_MOST_CENTRED, _CENTRED, _OFF_CENTRE = 3, 8, 3
_UNDERLINE = re.compile(r"(=|-|~|\^|\*|#|_)\1{2,}[ \t]*\n?\Z")
_WORDS = r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|first|second|third|last"
_CHAPTER = re.compile(
    rf"(?:(part|book|volume|act)|chapter|canto|scene|letter|appendix|section)\s+"
    rf"(?:the\s+)?(?:[ivxlc]+|\d{{1,3}}|[A-Z]|{_WORDS})\b[.:)]?(?P<name>.*)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(
    r"(\d{1,3}(?:\.\d{1,3}){0,5}\.?|[A-Z](?:\.\d{1,3}){1,5}\.?)\s+(?=[A-Z\"\u201c`'])"
)
_ROMAN = re.compile(r"\s*(?P<number>[IVXL]{1,6})\.\s+(?=[A-Z\"\u201c`'])")
_CODE = re.compile(r"[_=<>{}\\$]")  # no words in capitals but names of constants
_MARKED = re.compile(r"(?P<mark>\*{1,6}|={1,6})[ \t]+(?P<name>\S.*)")  # Org and AsciiDoc
_BY = re.compile(r"\s*(?:by|By|BY)[ \t]+[A-Z][^.]*$")
_FIELD = re.compile(r"(?:Title|Author|Release date|Date|Creator):", re.IGNORECASE)
# Levels, outermost first.
_PART, _CHAPTERS, _UNDERLINED, _ROMANS, _NUMBERS = 1, 2, 10, 19, 20
_MOST_SKIPPED = 2  # Roman numbers that a heading may be ahead of the last
_ROMAN_LETTERS = {"I": 1, "V": 5, "X": 10, "L": 50}


class TextSections:
    """Gives every line of a plain text its section, and passes tables of contents over.

    ``marked`` says that stars or equals signs before a line make it a heading.
    """

    def __init__(self, notes: Notes, *, marked: bool = False) -> None:
        self._notes, self._marked = notes, marked
        self._path = SectionPath()
        self._styles: list[str] = []  # characters of underlines, in order of appearance
        self._entries: list[str] = []  # lines that may be a table of contents
        self._roman = 0  # the last Roman number of a heading
        self._label: tuple[int, str] | None = None  # a chapter's number that waits for its name

    def places(self, lines: Iterable[str]) -> Iterator[Block]:
        """Blocks of the lines, which have their newline unless they are cut."""
        before, line = "\n", None
        for following in lines:
            if line is not None:
                yield from self._line(before, line, following)
                before = line
            line = following
        if line is not None:
            yield from self._line(before, line, "\n")
        yield from self._end_contents()

    def _line(self, before: str, line: str, following: str) -> Iterator[Block]:
        if has_leader(line[: _LONGEST * 2]) or (self._entries and not line.strip()):
            self._entries.append(line)
            return
        yield from self._end_contents()
        if len(line) <= _LONGEST and not before.strip() and line.strip():
            heading = self._heading(line, following)
            if heading is not None:
                self._path.enter(*heading)
        yield Block(line, section=self._path.text)

    def _end_contents(self) -> Iterator[Block]:
        entries, self._entries = self._entries, []
        count = sum(bool(line.strip()) for line in entries)
        if count >= _FEWEST_ENTRIES:
            self._notes.skip(*CONTENTS_LINE, count)
            yield PassedOver("".join(entries))
        elif entries:
            yield Block("".join(entries), section=self._path.text)

    def _heading(self, line: str, following: str) -> tuple[int, str] | None:
        """Level and name of the heading that a line after an empty one is; None for text."""
        bare = one_line(line)
        label, self._label = self._label, None
        underline = _UNDERLINE.match(following)
        if underline and len(following.rstrip()) >= 0.7 * len(bare) and bare[0].isalnum():
            if underline[1] not in self._styles:
                self._styles.append(underline[1])
            return _UNDERLINED + self._styles.index(underline[1]), bare
        if self._marked and (marked := _MARKED.fullmatch(line.rstrip())):
            return _UNDERLINED + len(marked["mark"]), one_line(marked["name"])
        is_alone = not following.strip()
        if not is_alone and not (_is_capitals(bare) and following[:1] in " \t"):
            return None
        if chapter := _CHAPTER.fullmatch(bare):
            if chapter["name"].endswith((",", ";")) or len(chapter["name"]) > 80:
                return None
            level = _PART if chapter[1] else _CHAPTERS
            self._label = (level, bare) if not chapter["name"].strip() else None
            return level, bare
        ends = bare.endswith((".", ",", ";", ":", "!", "?"))
        if label is not None and not (ends and not _is_capitals(bare)):
            return label[0], f"{label[1]} {bare}"
        number = _NUMBERED.match(line)
        if number and not ends:
            return _NUMBERS + number[1].rstrip(".").count("."), bare
        if not ends and self._counts_on(_ROMAN.match(line)):
            return _ROMANS, bare
        if _is_capitals(bare) and not line[:1].isspace() and not _CODE.search(bare):
            return _NUMBERS, bare.rstrip(".:")
        return None

    def _counts_on(self, match: re.Match[str] | None) -> bool:
        """Return whether a Roman number is the first, or one of the next: "C. Ann" is a name."""
        number = _roman(match["number"]) if match else 0
        if number != 1 and not self._roman < number <= self._roman + _MOST_SKIPPED:
            return number > 0 and number == self._roman > 1  # numbered twice by mistake
        self._roman = number
        return True


def _roman(text: str) -> int:
    """Return the value of a Roman number; 0 for letters that are none."""
    values = [_ROMAN_LETTERS[letter] for letter in text]
    signed = [-v if v < after else v for v, after in pairwise([*values, 0])]
    is_one = re.fullmatch(r"(?:XL|L?X{0,3})(?:IX|IV|V?I{0,3})", text)
    return sum(signed) if is_one else 0


def _is_capitals(text: str) -> bool:
    """Return whether a line is words in capitals, no abbreviation, number or formula."""
    letters = [c for c in text if c.isalpha()]
    return len(letters) > 3 and len(letters) > 0.6 * len(text) and not any(map(str.islower, text))


def metadata_of_head(lines: Sequence[str]) -> Metadata:
    """Title, author and date of the lines that a text begins with.

    They are in fields of their own lines, ``Title: ...``; else the first line is the title where it
    is underlined as no later line is, or with an empty line below is in capitals, in the middle, or
    above a line "by ...". A title in the middle goes on in the middle of the next two lines.
    """
    fields: dict[str, str] = {}
    for number, line in enumerate(lines[:_FIELD_LINES]):
        if _FIELD.match(line):
            for name, value in header_fields(lines[number : number + 4]).items():
                fields.setdefault(name, value.partition("  [")[0])
    about = metadata_of(fields)
    if about.title:
        return about
    first = next((n for n, line in enumerate(lines) if line.strip()), None)
    if first is None or len(lines[first]) > _LONGEST:
        return about
    count = _count_centred(lines[first : first + _MOST_CENTRED + 1])
    if count:
        words = [line for line in lines[first : first + count] if "://" not in line]
        return Metadata(one_line(" ".join(words)), about.author, about.date)
    line, below = lines[first], lines[first + 1] if first + 1 < len(lines) else "x"
    is_alone = not below.strip() and (
        _is_capitals(line.strip()) or _is_above_author(lines[first + 1 :])
    )
    is_title = is_alone or _is_underlined_once(lines[first + 1 :])
    return Metadata(one_line(line) if is_title else "", about.author, about.date)


def _count_centred(lines: Sequence[str]) -> int:
    """Return how many lines, up to an empty one, are in the middle of the page; 0 without one."""
    count = next((n for n, line in enumerate(lines) if not line.strip()), 0)
    indents = [len(line) - len(line.lstrip()) for line in lines[:count]]
    middles = [indent + len(line.strip()) / 2 for indent, line in zip(indents, lines, strict=False)]
    centred = min(indents, default=0) >= _CENTRED and lines[0].strip()[0].isupper()
    return count if centred and max(middles) - min(middles) <= _OFF_CENTRE else 0


def _is_above_author(lines: Sequence[str]) -> bool:
    """Return whether the first line that is not empty names an author."""
    following = next((line for line in lines if line.strip()), "")
    return _BY.match(following) is not None


def _is_underlined_once(lines: Sequence[str]) -> bool:
    """Return whether the first line is an underline, and no later one of its character is."""
    underline = _UNDERLINE.match(lines[0]) if lines else None
    return underline is not None and not any(
        line.startswith(underline[1]) and _UNDERLINE.match(line) for line in lines[1:]
    )
