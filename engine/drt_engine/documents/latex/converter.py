"""Converts LaTeX to readable text line by line, so that every text keeps its source line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from drt_engine.documents.base import Block, Notes, SectionPath, one_line
from drt_engine.documents.latex.commands import (
    ACCENT,
    BUILT_IN,
    DRAWINGS,
    DROPPED,
    KEPT_ENVIRONMENTS,
    LEVELS,
    LISTS,
    MATH,
    MORE_ARGUMENTS,
    OTHER_FILES,
    QUANTITIES,
    REFERENCES,
    SIGNS,
    SILENT,
    TYPOGRAPHY,
    UNWRAPPED,
    VERBATIM,
    WITH_ARGUMENTS,
    accented,
)
from drt_engine.documents.latex.macros import PARAMETER, Macro, balanced, definitions
from drt_engine.documents.latex.units import unit_text
from drt_engine.documents.latex.unknown import LENGTH, guess

_TOKEN = re.compile(
    r"\\([A-Za-z@]+)(\*?)[ \t]*|\\(.)|(?<!\\)%.*|([{}\[\]])|(\$\$?)|(~)|(---?|``|''|&)|"
    r"[^\\%{}\[\]$~`'&-]+|.|\n",
)
_BEGIN = re.compile(r"\{([A-Za-z]+)\*?\}[ \t]*")
_LABEL = re.compile(r"[ \t]*\[([^\[\]\\{}$]*)\][ \t]*")
_ARGUMENTS = re.compile(r"(?:[ \t]*(?:\[[^\[\]]*\]|\{[^{}]*\}))*")
_GROUP = re.compile(r"[ \t]*\{([^{}]*)\}")
_OPTION = re.compile(r"[ \t]*\[[^\[\]]*\]")
_NAME = re.compile(r"\[[^\W\d_][^\[\]=]{2,}\]")
_LONE_COMMAND = re.compile(r"\s*\\([A-Za-z@]{3,})\s*")
_LONE_BULLET = re.compile(r"\s*(?:-|\d{1,4}\.)\s*")
# A command with a name such as \OpenMC, and nothing it may take
_PRODUCT = re.compile(
    r"\\(?P<name>(?=[a-z]*[A-Z])[A-Za-z]{3,})(?:\{\}|\\(?=[ \n]))?(?P<space>[ \t]+)?"
    r"(?![{\[@A-Za-z*])"
)
_OPEN_GROUPS = 200
_DEEPEST_EXPANSION = 8
_EXPANDED_CHARACTERS = 1 << 20  # by all macros of a file: they can double at each level


@dataclass
class _Group:
    """An open brace: what becomes of its text, and what is written before and after it."""

    kind: str  # "text", "drop", "heading", "title"
    before: str = ""
    after: str = ""
    level: int = 0
    more: int = 0  # groups after this one that are alike
    begun: tuple[int, int] = (0, 0)  # line and character of the source
    collected: list[str] = field(default_factory=list)


class Converter:
    """Turns lines into readable ones, one for one, so that line numbers stay.

    Groups, lists, formulas and verbatim text may go on over several lines: their state is kept from
    line to line. Text within a heading or a dropped argument is collected in its group, all other
    text in the output of the line.
    """

    def __init__(self, preamble: str | None, notes: Notes) -> None:
        """``preamble`` is what comes before the document begins; None where nothing says so."""
        self.path = SectionPath()
        self.title = ""
        self.after_end = 0  # lines with words that TeX does not read
        self._notes = notes
        self._macros = definitions(preamble or "")
        self._depth, self._expanded = 0, 0
        self._groups: list[_Group] = []
        self._lists: list[int | None] = []
        self._pending: _Group | None = None  # what the next brace opens
        self._verbatim = ""
        self._math = ""
        self._math_depth = 0
        self._in_text = preamble is None
        self._is_apart = True  # the line before has no text
        self._ended = False
        self._output: list[str] = []
        self._number, self._start = 1, 0  # line and character of the source
        self._marks: list[tuple[int, int, int]] = []  # where the text comes from another line

    def blocks(self, line: str) -> list[Block]:
        """Return a line's text with its newline and its place; nothing where it holds no text.

        A heading of several lines is text where it ends, with the line where it begins.
        """
        if self._ended and line.strip():
            self.after_end += 1
        # No argument of a heading or of layout goes beyond its paragraph.
        unclosed = self.finish() if not (line.strip() or self._verbatim) else []
        text = None if self._is_layout(line) else self._line(line)
        self._is_apart = text is None or not text.strip()
        end = self._start + len(line.rstrip("\n"))
        blocks = unclosed + ([] if text is None else list(self._pieces(text, line, end)))
        self._number += line.count("\n")
        self._start += len(line)
        return blocks

    def finish(self) -> list[Block]:
        """Return what was collected for a brace that nothing closes."""
        self._output, self._marks = [], []
        self._give_up()
        text = "".join(self._output)
        return list(self._pieces(text + "\n", "", self._start)) if text.strip() else []

    def _pieces(self, text: str, line: str, end: int) -> Iterator[Block]:
        if not self._marks and line.startswith(text.removesuffix("\n")):
            yield Block(text, section=self.path.text, line=self._number, origin=((0, self._start),))
            return
        # Parts of the line that come from other lines are pieces of their own.
        inner = [mark for mark in self._marks if text[mark[0] :].strip()]
        marks = [(0, self._number, self._start), *inner]
        stops = [*(offset for offset, _, _ in inner), len(text)]
        for (offset, number, first), stop in zip(marks, stops, strict=True):
            if piece := text[offset:stop]:
                origin = ((0, first, end),)
                yield Block(piece, section=self.path.text, line=number, origin=origin)

    def _line(self, line: str) -> str | None:
        self._output, self._marks = [], []
        remainder = line
        if self._verbatim:
            code, end, remainder = line.partition(self._verbatim_end)
            if not end:
                return None if self._verbatim in DRAWINGS else code
            self._add_verbatim(code if code.strip() else "")
            self._verbatim = ""
        self._run(ACCENT.sub(accented, remainder))
        text = "".join(self._output)
        if not text.strip() and (line.strip() or not self._in_text):
            return None
        if _LONE_BULLET.fullmatch(text):  # the item is on the next line
            return text.rstrip() + " "
        return text.rstrip() + "\n" * line.endswith("\n")

    def _is_layout(self, line: str) -> bool:
        """Return whether a line is one command that nothing defines, apart from any text."""
        lone = _LONE_COMMAND.fullmatch(line) if self._is_apart else None
        is_inner = self._verbatim or self._formula or self._groups
        return bool(lone and not is_inner and lone[1] not in BUILT_IN | self._macros.keys())

    @property
    def _verbatim_end(self) -> str:
        return f"\\end{{{self._verbatim}}}"

    def _add_verbatim(self, code: str) -> None:
        if self._verbatim not in DRAWINGS:
            self._add(code)

    def _run(self, line: str) -> None:
        """Convert a line, or what a macro stands for."""
        position = 0
        while position < len(line):
            if self._verbatim:
                stop = line.find(self._verbatim_end, position)
                self._add_verbatim(line[position:] if stop < 0 else line[position:stop])
                if stop < 0:
                    return
                position = stop + len(self._verbatim_end)
                self._verbatim = ""
                continue
            match = _TOKEN.match(line, position)
            assert match is not None  # the last alternatives take any character
            position = self._token(match, line)

    def _token(self, match: re.Match[str], line: str) -> int:
        command, star, sign, brace, dollar, tie, typography = match.groups()
        if command is not None:
            return self._command(command, match, line)
        if sign is not None:
            return self._sign(sign, match)
        if dollar is not None:
            self._math = "" if self._math else dollar
            self._add(dollar)
        elif brace is not None:
            option = _OPTION.match(line, match.start()) if brace == "[" else None
            if option and self._pending is not None and self._pending.kind == "drop":
                return option.end()
            self._brace(brace)
        elif tie is not None:
            self._add(" ")
        elif typography is not None:
            self._add(typography if self._formula else TYPOGRAPHY[typography])
        elif not match[0].startswith("%"):
            self._plain(match[0])
        return match.end()

    @property
    def _formula(self) -> bool:
        return bool(self._math) or self._math_depth > 0

    def _plain(self, text: str) -> None:
        if self._pending is not None and not text.isspace():
            self._pending = None  # a command whose argument is no group
        self._add(text)

    def _sign(self, sign: str, match: re.Match[str]) -> int:
        if self._formula and sign not in "()[]":
            self._add(match[0])
        elif sign in "()[]":
            self._math = "\\" + sign if sign in "([" else ""
            self._add(match[0])
        elif sign == "\\":
            self._add(" ")
            length = LENGTH.match(match.string, match.end())
            return length.end() if length and length[0].endswith("]") else match.end()
        else:
            self._add({",": " ", ";": " ", " ": " ", "/": "", "-": "", "!": ""}.get(sign, sign))
        return match.end()

    def _brace(self, brace: str) -> None:
        if brace in "[]" or self._formula:
            self._add(brace)
            return
        if brace == "{":
            group, self._pending = self._pending or _Group("text"), None
            group.begun = (self._number, self._start)
            self._add(group.before)
            if len(self._groups) < _OPEN_GROUPS:
                self._groups.append(group)
        elif self._groups:
            self._close(self._groups.pop())

    def _close(self, group: _Group) -> None:
        if group.kind in ("heading", "title"):
            self._name("".join(group.collected), group)
        self._add(group.after)
        if group.more:
            self._pending = replace(group, more=group.more - 1, collected=[])

    def _name(self, text: str, group: _Group) -> None:
        """Take a title or heading, which is text too."""
        text = " ".join(text.split())
        if group.kind == "title":
            self.title = self.title or one_line(text)
        elif text:
            self.path.enter(group.level, text)
        self._mark(*group.begun)
        self._add(text)
        self._mark(self._number, self._start)

    def _give_up(self) -> None:
        """Read what unclosed headings and arguments hold: nothing says where they end."""
        groups, self._groups, self._pending = self._groups, [], None
        for group in groups:
            text = "".join(group.collected)
            if group.kind == "text" or not text.strip():
                continue
            if group.kind != "drop":  # a heading is a line where nothing else is said
                heading, _, text = text.partition("\n")
                self._name(heading, group)
                self._add("\n")
            self._mark(group.begun[0] + 1, group.begun[1])
            self._add(" ".join(text.split()))
            self._mark(self._number, self._start)

    def _mark(self, number: int, first: int) -> None:
        """Note that what comes next is of another line."""
        last = self._marks[-1][1] if self._marks else self._number
        if number != last:
            self._marks.append((sum(map(len, self._output)), number, first))

    def _add(self, text: str) -> None:
        for group in reversed(self._groups):
            if group.kind != "text":
                group.collected.append(text)
                return
        if self._in_text:
            self._output.append(text)

    def _command(self, name: str, match: re.Match[str], line: str) -> int:
        end = match.end()
        if name in ("begin", "end"):
            return self._environment(name, line, end)
        if self._formula:
            label = _GROUP.match(line, end) if name == "label" else None
            self._add("" if label else match[0])
            return label.end() if label else end
        if name in self._macros and (stop := self._expand(self._macros[name], match, line)):
            return stop
        if name in REFERENCES and (stop := self._reference(line, end)):
            return stop
        if name in QUANTITIES and (stop := self._quantity(name, line, end)):
            return stop
        if name in OTHER_FILES and (file := _GROUP.match(line, end)):
            self._notes.skip(f"file {file[1]}", "other files are not read unless they are named")
        if name == "bibitem" and (key := _GROUP.match(line, end)):
            self._add(f"[{key[1]}]")
            return key.end()
        if name in LEVELS or name == "title":
            kind = "title" if name == "title" else "heading"
            self._pending = _Group(kind, level=LEVELS.get(name, 0))
        elif name in ("footnote", "footnotetext"):
            self._add(" (")
            self._pending = _Group("text", after=")")
        elif name in REFERENCES:
            self._add("[")
            self._pending = _Group("text", after="]")
        elif name == "href" or name in DROPPED:
            self._pending = _Group("drop", more=MORE_ARGUMENTS.get(name, 0))
        elif name in UNWRAPPED:
            self._pending = _Group("text")
        elif name == "item":
            self._add(self._bullet())
            label = _LABEL.match(line, end)
            if label:
                self._add(f"{label[1]}: " if label[1].strip() else "")
                return label.end()
        elif name in SIGNS:
            self._add(SIGNS[name])
            return end if name not in ("ldots", "dots") else match.start() + 1 + len(name)
        elif (product := _PRODUCT.match(line, match.start())) and name not in SILENT:
            self._plain(product["name"] + " " * bool(product["space"]))
            return product.end()
        elif name not in SILENT:
            if (guessed := self._guessed(name, line, end)) is not None:
                return guessed
            self._add(match[0])
            self._pending = _Group("text", before="{", after="}", more=3)
            return end
        return self._after_option(line, end)

    def _guessed(self, name: str, line: str, end: int) -> int | None:
        """Write what a command probably stands for that nothing defines; None where unclear."""
        guessed = guess(name, line, end)
        if guessed is None:
            length = LENGTH.match(line, end) if line[end : end + 1] == "[" else None
            return length.end() if length else None
        if guessed.kind == "heading":
            self._pending = _Group("heading", level=guessed.level)
        elif guessed.kind == "reference":
            self._pending = _Group("text", before="[", after="]", more=guessed.groups - 1)
        elif guessed.kind == "drop":
            self._pending = _Group("drop", more=guessed.groups - 1) if guessed.groups else None
        elif guessed.kind == "unwrap":
            self._pending = _Group("text")
        else:  # a space behind the name is no space in the text, unless braces end it
            self._plain(guessed.word + " " * (not guessed.groups and line[end - 1 : end] == " "))
            self._pending = _Group("text") if guessed.groups else None
        return self._after_option(line, end)

    def _reference(self, line: str, position: int) -> int:
        """Write a reference with the words around its keys; return its end, 0 where it has none.

        As natbib and biblatex have it: one option is the words after the keys, of two the first are
        the words before them.
        """
        options: list[str] = []
        while len(options) < 2 and (option := _OPTION.match(line, position)):
            options.append(option[0].strip()[1:-1])
            position = option.end()
        keys = _GROUP.match(line, position)
        if keys is None:
            return 0
        before = options[0] if len(options) == 2 else ""
        after = options[-1] if options else ""
        self._add("[")
        self._run(before + " " * bool(before) + keys[1])
        self._run(", " * bool(after) + after)
        self._add("]")
        return keys.end()

    def _quantity(self, name: str, line: str, position: int) -> int:
        """Write a number with its unit; return its end, 0 where an argument is missing."""
        option = _OPTION.match(line, position)
        position = option.end() if option else position
        values: list[str] = []
        while len(values) < QUANTITIES[name]:
            value = _GROUP.match(line, position)
            if value is None:
                return 0
            values.append(value[1])
            position = value.end()
        if name in ("num", "ang"):
            self._plain(values[0] + "°" * (name == "ang"))
        else:
            number = [values[0]] if len(values) > 1 else []
            self._plain(" ".join([*number, unit_text(values[-1])]))
        return position

    def _expand(self, macro: Macro, match: re.Match[str], line: str) -> int:
        """Write the text of a macro; return the end of its arguments, 0 where they are missing."""
        position, values = match.end(), []
        if macro.default is not None:
            option = _OPTION.match(line, position)
            values.append(option[0].strip()[1:-1] if option else macro.default)
            position = option.end() if option else position
        while len(values) < macro.arguments:
            while line[position : position + 1] in (" ", "\t"):
                position += 1
            value = balanced(line, position + 1) if line[position : position + 1] == "{" else None
            if value is None:
                return 0
            values.append(value)
            position += len(value) + 2
        text = PARAMETER.sub(lambda number: values[int(number[1]) - 1], macro.text)
        self._expanded += len(text)
        if self._depth >= _DEEPEST_EXPANSION or self._expanded > _EXPANDED_CHARACTERS:
            return 0
        self._depth += 1
        self._run(ACCENT.sub(accented, text))
        self._depth -= 1
        if (
            macro.spaced
            and line[position - 1 : position].isspace()
            and line[position : position + 1].isalnum()
        ):
            self._add(" ")
        return position

    def _after_option(self, line: str, end: int) -> int:
        """Return where options in brackets end, which say how and not what."""
        while self._pending is not None and (option := _OPTION.match(line, end)):
            end = option.end()
        return end

    @staticmethod
    def _is_name(environment: str, option: str) -> bool:
        """Return whether the option of an environment is words, and says not how it looks."""
        is_known = environment in WITH_ARGUMENTS or environment in LISTS | VERBATIM | DRAWINGS
        return not is_known and _NAME.fullmatch(option.strip()) is not None

    def _bullet(self) -> str:
        number = self._lists[-1] if self._lists else None
        if number is None:
            return "- "
        self._lists[-1] = number + 1
        return f"{number}. "

    def _environment(self, command: str, line: str, position: int) -> int:
        match = _BEGIN.match(line, position)
        if match is None:
            return position
        name, opens = match[1], command == "begin"
        if name == "document":
            if self._in_text:
                self._give_up()
            self._in_text, self._ended = opens, not opens
            self._groups, self._pending = [], None
        elif name in VERBATIM and opens:
            self._verbatim = name
        elif name in DRAWINGS and opens:
            self._verbatim = name
            if self._in_text:
                self._notes.skip("drawing", "no text to read")
        elif name in LISTS:
            if opens:
                self._lists.append(1 if name == "enumerate" else None)
            elif self._lists:
                self._lists.pop()
        if name in KEPT_ENVIRONMENTS:
            self._add(f"\\{command}{{{name}}}" if name in MATH else f"{name.title()} " * opens)
        if name in MATH:
            self._math_depth = max(0, self._math_depth + (1 if opens else -1))
        if not opens or name in MATH:
            return match.end()
        arguments = _ARGUMENTS if name in WITH_ARGUMENTS else _OPTION
        argument = arguments.match(line, match.end())
        if argument and (name in KEPT_ENVIRONMENTS or self._is_name(name, argument[0])):
            self._add(f"({argument[0].strip()[1:-1]})")  # of a theorem
        return argument.end() if argument else match.end()
