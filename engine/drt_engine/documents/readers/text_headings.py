"""Tells headings and tables of contents in plain text, which marks neither of them.

A heading is a line of its own, between empty lines, that is underlined, numbered, called a chapter
or written in capitals. Knows lines; the text stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from drt_engine.documents.base import Block, Notes, PassedOver, SectionPath, one_line, words
from drt_engine.documents.readers.paged_text import without_page_breaks
from drt_engine.documents.structure.contents import CONTENTS_LINE, has_leader

_PARTING_LINE = ("line of page heads and feet", "they are on every page")
_LONGEST = 100
_FEWEST_ENTRIES = 3  # of a table of contents, one below the other
UNDERLINE = re.compile(r"(=|-|~|\^|\*|#|_)\1{2,}[ \t]*\n?\Z")
_WORDS = r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|first|second|third|last"
_CHAPTER = re.compile(
    rf"(?:(part|book|volume|act)|chapter|canto|scene|letter|appendix|section)\s+"
    rf"(?:the\s+)?(?:[ivxlc]+|\d{{1,3}}|[A-Z]|{_WORDS})\b[.:)]?(?P<name>.*)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(
    r"(\d{1,3}(?:\.\d{1,3}){0,5}\.?|[A-Z](?:\.\d{1,3}){1,5}\.?)\s+(?=[A-Z\"\u201c`'])"
)
_ENTRY = re.compile(r"\s+\d{1,3}(?:\.\d{1,3})*\.\s+\S")
_ROMAN = re.compile(r"\s*(?P<number>[IVXL]{1,6})\.\s+(?=[A-Z\"\u201c`'])")
_CODE = re.compile(r"[_=<>{}\\$]")  # no words in capitals but names of constants
_MARKED = re.compile(r"(?P<mark>\*{1,6}|={1,6})[ \t]+(?P<name>\S.*)")  # Org and AsciiDoc
_SIGNS = words("note notes warning warnings important caution attention tip")
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
        """Blocks of the lines, which have their newline unless they are cut.

        What only parts two pages is passed over.
        """
        before, line = "\n", None
        for following, parting in without_page_breaks(lines):
            if line is not None:
                yield from self._line(before, line, following or "\n")
                before = line
            if parting and self._entries:  # in their order
                self._entries.append(parting)
            elif parting:
                yield PassedOver(parting)
                self._notes.skip(*_PARTING_LINE, parting.count("\n"))
            line = following or None
        if line is not None:
            yield from self._line(before, line, "\n")
        yield from self._end_contents()

    def _line(self, before: str, line: str, following: str) -> Iterator[Block]:
        if has_leader(line[: _LONGEST * 2]) or (
            self._entries and (not line.strip() or _is_further_entry(before, line))
        ):
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
        underline = UNDERLINE.match(following)
        if underline and len(following.rstrip()) >= 0.7 * len(bare) and bare[0].isalnum():
            if underline[1] not in self._styles:
                self._styles.append(underline[1])
            return _UNDERLINED + self._styles.index(underline[1]), bare
        if self._marked and (marked := _MARKED.fullmatch(line.rstrip())):
            return _UNDERLINED + len(marked["mark"]), one_line(marked["name"])
        is_alone = not following.strip()
        if not is_alone and not (is_capitals(bare) and following[:1] in " \t"):
            return None
        if chapter := _CHAPTER.fullmatch(bare):
            if chapter["name"].endswith((",", ";")) or len(chapter["name"]) > 80:
                return None
            level = _PART if chapter[1] else _CHAPTERS
            self._label = (level, bare) if not chapter["name"].strip() else None
            return level, bare
        ends = bare.endswith((".", ",", ";", ":", "!", "?"))
        if label is not None and not (ends and not is_capitals(bare)):
            return label[0], f"{label[1]} {bare}"
        number = _NUMBERED.match(line)
        if number and not ends:
            return _NUMBERS + number[1].rstrip(".").count("."), bare
        if not ends and self._counts_on(_ROMAN.match(line)):
            return _ROMANS, bare
        if is_capitals(bare) and not (line[:1].isspace() or _CODE.search(bare) or _is_sign(bare)):
            return _NUMBERS, bare.rstrip(".:")
        return None

    def _counts_on(self, match: re.Match[str] | None) -> bool:
        """Return whether a Roman number is the first, or one of the next: "C. Ann" is a name."""
        number = _roman(match["number"]) if match else 0
        if number != 1 and not self._roman < number <= self._roman + _MOST_SKIPPED:
            return number > 0 and number == self._roman > 1  # numbered twice by mistake
        self._roman = number
        return True


def _is_further_entry(before: str, line: str) -> bool:
    """Return whether a line goes on with entries of a table of contents, if without a leader.

    A long name leaves no room for one, or goes on in the next line.
    """
    return bool(before.strip()) and line[:1].isspace() and _ENTRY.match(line) is not None


def _roman(text: str) -> int:
    """Return the value of a Roman number; 0 for letters that are none."""
    values = [_ROMAN_LETTERS[letter] for letter in text]
    signed = [-v if v < after else v for v, after in pairwise([*values, 0])]
    is_one = re.fullmatch(r"(?:XL|L?X{0,3})(?:IX|IV|V?I{0,3})", text)
    return sum(signed) if is_one else 0


def _is_sign(text: str) -> bool:
    """Return whether a line says what the paragraph below it is, and begins no section."""
    return text.rstrip(":!.").lower() in _SIGNS


def is_capitals(text: str) -> bool:
    """Return whether a line is words in capitals, no abbreviation, number or formula."""
    letters = [c for c in text if c.isalpha()]
    return len(letters) > 3 and len(letters) > 0.6 * len(text) and not any(map(str.islower, text))
