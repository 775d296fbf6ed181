"""Reads source code: the text verbatim, classes and functions as sections, lines as places.

Python goes by its own tokens, other languages by the look of their definitions and the depth of
their lines; neither needs a parser that a hostile file could exhaust.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from drt_engine.documents.base import Block, OpenDocument, Source, one_line, regroup, words
from drt_engine.documents.encodings import characters, find_encoding, split_lines

_PYTHON = words(".py .pyi .pyx")
# Beyond, a file is data that happens to be code.
_MAX_PYTHON_BYTES = 4 << 20
_MAX_DEFINITION = 300
_NAME = r"([A-Za-z_$~][\w$:.~]*)"
_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|override|"
    r"open|sealed|data|inline|virtual|extern|unsafe|const|typedef|pub(?:\([^)]*\))?|partial|suspend)\s+)*"
)
_DEFINITION = re.compile(
    rf"(?P<indent>[ \t]*){_MODIFIERS}(?:"
    rf"(?:class|struct|enum|interface|trait|impl(?:<[^>]*>)?|module|namespace|protocol|object|"
    rf"record|union|mod|type)\s+(?P<type>{_NAME})"
    rf"|(?:func|fn|fun|function\*?|def|sub|proc|procedure|defn-?|defun|macro)\b\s*"
    rf"(?:\([^)]*\)\s*)?\(?(?P<function>{_NAME})"
    rf"|(?:const|let|var)\s+(?P<arrow>{_NAME})\s*=\s*(?:async\s*)?(?:function\b|\([^)]*\)\s*=>)"
    rf"|(?P<c>[A-Za-z_][\w<>,:*&\[\] \t]*?[\s*&]{_NAME})\s*\([^;{{}}]*\)?[^;=(]*$"
    r")"
)
_NOT_DEFINED = words("if for while switch return else catch do new throw case using typedef goto")
# A function that is only declared, as in a header: macros may be around its names.
_DECLARED = re.compile(
    rf"(?P<c>[A-Za-z_][\w<>,:*&\[\] \t]*?[\s*&]{_NAME})\s*\([^;{{}}]*\)[^;=(]*;\s*$"
)
_MEMBER = re.compile(r";\s*(?:/[/*].*)?$")
_HEADERS = words(".h .hh .hpp .hxx")
_SLASH_COMMENTS = words(
    ".c .h .cc .cpp .cxx .hpp .cs .java .js .mjs .cjs .jsx .ts .tsx .go .rs .php .swift .kt .scala "
    ".cu .dart .groovy .sql .zig .v"
)
_C_STYLE = words(".c .h .cc .cpp .cxx .hpp .cs .java .cu .dart .groovy")


@dataclass(frozen=True)
class _Definition:
    """A class or function: its first line (from 1), the column it starts at, its name."""

    line: int
    column: int
    name: str


def _statements(text: str) -> Iterator[list[tokenize.TokenInfo]]:
    """Yield the logical lines of Python code up to where it stops being Python."""
    passed = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
    tokens: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NEWLINE:
                yield [*tokens, token]
                tokens = []
            elif token.type not in passed:
                tokens.append(token)
    except (tokenize.TokenError, SyntaxError):
        return  # the statements before are read all the same


def _structure(text: str) -> tuple[dict[int, _Definition], set[int]]:
    """Return the definitions by their first line, and the lines whose depth says nothing.

    Decorators belong to the definition below them; within a string or bracket of several lines
    there is no depth.
    """
    definitions: dict[int, _Definition] = {}
    no_depth: set[int] = set()
    decorated = 0
    for tokens in _statements(text):
        first, last = tokens[0].start[0], tokens[-1].start[0]
        no_depth.update(range(first + 1, last + 1))
        strings = [token.string for token in tokens[:3]]
        if strings[0] == "@":
            decorated = decorated or first
            continue
        strings = strings[1:] if strings[0] == "async" else strings
        if strings[0] in ("def", "class") and len(strings) > 1:
            line = decorated or first
            no_depth.update(range(line + 1, last + 1))
            definitions[line] = _Definition(line, tokens[0].start[1], strings[1])
        decorated = 0
    return definitions, no_depth


def _definition(line: str, number: int, suffix: str) -> _Definition | None:
    """Return the definition that a line of another language opens, by its look."""
    if len(line) > _MAX_DEFINITION:
        return None
    match = _DEFINITION.match(line.rstrip("\n"))
    if match is None:
        return _declaration(line, number) if suffix in _HEADERS else None
    name = match["type"] or match["function"] or match["arrow"]
    if name is None:
        declared = match["c"].split()
        if suffix not in _C_STYLE or len(declared) < 2 or _NOT_DEFINED & set(declared):
            return None
        name = _declared_name(declared, line)
    elif match["type"] and suffix in _C_STYLE and _MEMBER.search(line):
        return None  # ``struct name *member;``
    return _Definition(number, len(match["indent"].expandtabs(4)), name.strip("$:"))


def _declaration(line: str, number: int) -> _Definition | None:
    """Return the function that a line of a header declares at the left margin."""
    match = _DECLARED.match(line.rstrip("\n"))
    declared = match["c"].split() if match else []
    if len(declared) < 2 or _NOT_DEFINED & set(declared):
        return None
    return _Definition(number, 0, _declared_name(declared, line))


def _declared_name(declared: list[str], line: str) -> str:
    """Return the last word, or the one before a macro as in ``int read OF((int n));``."""
    macro = declared[-1].isupper() and len(declared) > 2 and f"{declared[-1]}((" in line
    return declared[-2 if macro else -1].lstrip("*&")


class _Comments:
    """Follows comments between slashes and stars, whose prose defines nothing."""

    def __init__(self) -> None:
        self._open = False

    def take(self, line: str) -> bool:
        """Return whether the line begins within a comment."""
        inside, index = self._open, 0
        while True:
            index = line.find("*/" if self._open else "/*", index)
            if index < 0:
                return inside
            if not self._open and (line.count('"', 0, index) % 2 or line.count("'", 0, index) % 2):
                index += 2  # in a string
                continue
            self._open, index = not self._open, index + 2


class _Sections:
    """The definitions that are open at a line: each ends where a line is not deeper than it."""

    def __init__(self) -> None:
        self._open: list[_Definition] = []

    def at(self, line: str, definition: _Definition | None) -> str | None:
        """Return the path at a line, which may open a definition."""
        bare = line.strip()
        if definition is not None:
            self._close(definition.column)
            self._open.append(definition)
        elif bare and not bare.startswith(("}", ")", "]", "end", "#", "{", "//", "*", "/*")):
            column = len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
            self._close(column)
        return ".".join(opened.name for opened in self._open) or None

    def _close(self, column: int) -> None:
        while self._open and self._open[-1].column >= column:
            self._open.pop()


def _other_places(lines: Iterator[str], suffix: str) -> Iterator[Block]:
    sections, comments = _Sections(), _Comments()
    at_line_start = True
    section: str | None = None
    for number, line in enumerate(lines, 1):
        if not (suffix in _SLASH_COMMENTS and comments.take(line)):
            definition = _definition(line, number, suffix) if at_line_start else None
            section = sections.at(line, definition)
        yield Block(line, section=section)
        at_line_start = line.endswith("\n")


def _python_places(text: str) -> Iterator[Block]:
    """Yield a definition goes on to the next line at its depth that is code."""
    definitions, no_depth = _structure(text)
    sections = _Sections()
    section: str | None = None
    for number, line in enumerate(io.StringIO(text), 1):
        if number not in no_depth:
            section = sections.at(line, definitions.get(number))
        yield Block(line, section=section)


def _blocks(source: Source, encoding: str) -> Iterator[Block]:
    if source.suffix in _PYTHON and source.size <= _MAX_PYTHON_BYTES:
        pieces = _python_places("".join(characters(source, encoding)))
    else:
        pieces = _other_places(split_lines(characters(source, encoding)), source.suffix)
    return regroup(pieces, verbatim=True)


@dataclass(frozen=True)
class CodeReader:
    """Source code, kept as it is written so that quotes are verbatim."""

    def recognises(self, head: bytes) -> bool:
        return head.startswith(b"#!")

    def open(self, source: Source) -> OpenDocument:
        encoding = find_encoding(source)
        return OpenDocument(one_line(source.file_name), "text/x-source", _blocks(source, encoding))
