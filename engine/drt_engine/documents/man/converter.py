"""Turns the lines of a man page into readable blocks: sections, terms with their text, tables.

Does not run roff: of macros those of man(7) are known (``mdoc`` adds its own), conditions are those
of a terminal, and other files are not read. Text in macros that the page defines itself is left
out, and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from drt_engine.documents.base import Block, Notes, SectionPath, words
from drt_engine.documents.man.escapes import arguments, plain

_REQUEST = re.compile(r"[.'][ \t]*(?P<name>[^\s\\]*)[ \t]*(?P<rest>.*)")
_FONTS = words("B I SM SB")
_ALTERNATING = words("BR RB BI IB IR RI")
_PARAGRAPHS = words("PP P LP HP sp")
_DEFINITIONS = words("de de1 dei am am1 ami")
_BULLET = re.compile(r"[\u2022*o+-]")
_TABLE_SEPARATOR = re.compile(r"\btab[ \t]*\((.)\)")
_END = re.compile(r"\.[ \t]*(?P<name>[^\s\\]+)")
_CONDITION = re.compile(r"(?P<not>!?)(?P<name>[nt])(?![A-Za-z])[ \t]*|\S+[ \t]*")
_DEEPEST = 20  # conditions within one another on one line; pages have two or three
_HEADER = ("Title", "Section", "Date", "Version", "Manual")  # of ``.TH``
_PRAGMA = re.compile(r"[.']\\\"[ \t]+(?P<key>Title|Author|Date):[ \t]+(?P<value>\S.*)")


class Converter:
    """Makes blocks of a man page, line by line; ``title``, ``author`` and ``date`` as it goes."""

    def __init__(self, notes: Notes) -> None:
        self.title, self.author, self.date = "", "", ""
        self.dropped = 0  # lines
        self._notes = notes
        self._path = SectionPath()
        self._words: list[str] = []  # of the open paragraph, with the spaces between them
        self._span = (0, 0, 0)  # its first line, and its characters in the source
        self._joins = False  # whether the next line goes on without a space
        self._awaits: str | None = None  # what ends the next line: a term, a heading, a table's row
        self._is_verbatim = False
        self._until = ""  # the name of the request that ends what is left out
        self._groups: list[bool] = []  # whether what is between ``\{`` and ``\}`` counts
        self._else: list[bool] = []  # for each ``.ie`` whose ``.el`` is to come, whether that holds
        self._depth = 0  # conditions within one another on this line
        self._url = ""
        self._table: _Table | None = None

    def blocks(self, line: str, number: int, start: int) -> Iterator[Block]:
        """Yield the blocks that a line, the ``number``-th, completes; it begins at ``start``."""
        text = line.rstrip("\n")
        self._place = (number, start, start + len(text))
        if self._until:
            self._skip_to(text)
        elif self._table is not None:
            yield from self._table_line(text)
        else:
            yield from self._take(text)

    def finish(self) -> Iterator[Block]:
        """Yield what is left at the end."""
        if self._table is not None:
            yield from self._end_table()
        yield from self._flush("\n")

    def _skip_to(self, text: str) -> None:
        self.dropped += 1
        request = _END.match(text)
        if request is not None and request["name"] == self._until:
            self._until = ""

    def _take(self, text: str) -> Iterator[Block]:
        match = _REQUEST.fullmatch(text)
        if self._groups and not self._groups[-1]:  # within one that is left out, all are
            self._groups += [False] * text.count("\\{")
            self.dropped += 1
        elif match is None:
            yield from self._text(text)
        else:
            yield from self._request(match["name"], match["rest"])
        if self._depth == 0:  # once for the whole line
            self._close_groups(text.count("\\}"))

    def _close_groups(self, count: int) -> None:
        if count > 0:
            del self._groups[-count:]

    def _text(self, text: str) -> Iterator[Block]:
        printed = plain(text)
        if self._is_verbatim:
            self._awaits = None
            yield self._block(printed.rstrip() + "\n")
        elif not printed.strip():
            yield from self._flush("\n\n")
        else:
            if text[0].isspace() and self._awaits is None:  # which breaks a line
                yield from self._flush("\n")
            self._add(printed.strip())
            self._joins = text.endswith("\\c")
            if self._awaits is not None:
                yield from self._end_awaited()

    def _add(self, printed: str) -> None:
        if not printed:
            return
        first = self._span if self._words else self._place
        self._words.append(printed if self._joins or not self._words else f" {printed}")
        self._joins = False
        self._span = (first[0], first[1], self._place[2])

    def _end_awaited(self) -> Iterator[Block]:
        awaited, self._awaits = self._awaits, None
        if awaited == "term":
            yield from self._flush("\n")
        elif awaited is not None:
            yield from self._heading(awaited, "".join(self._words))

    def _heading(self, macro: str, name: str) -> Iterator[Block]:
        self._words = []
        self._path.enter(1 if macro == "SH" else 2, name)
        yield self._block(f"{name}\n\n")

    def _flush(self, end: str) -> Iterator[Block]:
        text, self._words = "".join(self._words), []
        if text:
            number, start, stop = self._span
            yield Block(text + end, None, self._path.text, number, ((0, start, stop),))

    def _block(self, text: str) -> Block:
        number, start, end = self._place
        return Block(text, None, self._path.text, number, ((0, start, end),))

    def _request(self, name: str, rest: str) -> Iterator[Block]:
        """Do what a request says; those of the layout, and comments, print nothing."""
        if name in _FONTS or name in _ALTERNATING:
            yield from self._font(name, rest)
            return
        handlers: dict[str, Callable[[str], Iterator[Block]]] = {
            "TH": self._title,
            "TP": self._term,
            "TQ": self._term,
            "IP": self._item,
            "RS": lambda _: self._flush("\n"),
            "RE": lambda _: self._flush("\n\n"),
            "br": lambda _: self._flush("\n"),
            "nf": lambda _: self._verbatim(True),
            "EX": lambda _: self._verbatim(True),
            "fi": lambda _: self._verbatim(False),
            "EE": lambda _: self._verbatim(False),
            "if": self._condition,
            "ie": self._either,
            "el": self._otherwise,
            "UR": self._link,
            "MT": self._link,
            "UE": self._end_link,
            "ME": self._end_link,
            "TS": self._start_table,
            "MR": self._page,
            "SY": self._synopsis,
            "OP": self._option,
            "YS": lambda _: self._flush("\n\n"),
        }
        if name in ("SH", "SS"):
            yield from self._flush("\n\n")
            self._is_verbatim = False  # without ``.fi``, too
            heading = plain(" ".join(arguments(rest)))
            if heading:
                yield from self._heading(name, heading)
            else:
                self._awaits = name
        elif name in _PARAGRAPHS:
            yield from self._flush("\n\n")
        elif name in handlers:
            yield from handlers[name](rest)
        else:
            self._left_out(name, rest)

    def _left_out(self, name: str, rest: str) -> None:
        self.dropped += 1
        if not name and (match := _PRAGMA.match(f".{rest}")) and not self._path.text:
            key, value = match["key"].lower(), plain(match["value"]).strip()
            if "[" not in value and not getattr(self, key):
                setattr(self, key, value)
        elif name in _DEFINITIONS:
            self._until = (arguments(rest)[1:2] or ["."])[0]
        elif name == "ig":
            self._until = (arguments(rest)[:1] or ["."])[0]
        elif name in ("EQ", "PS"):
            self._until = "EN" if name == "EQ" else "PE"
            self._notes.skip("equation" if name == "EQ" else "picture", "roff is not run")
        elif name == "so":
            self._notes.skip(f"included file {rest.strip()}", "other files are not read")

    def _title(self, rest: str) -> Iterator[Block]:
        """Write the fields of ``.TH`` as lines, since pages have them in heads and feet."""
        values = [plain(argument).strip() for argument in arguments(rest)]
        fields = dict(zip(_HEADER, values, strict=False))
        name, section = fields.get("Title", ""), fields.pop("Section", "")
        name = name.lower() if name.isupper() else name
        fields["Title"] = self.title = f"{name}({section})" if section else name
        self.date = fields.get("Date", "") or self.date
        fields.setdefault("Author", self.author)
        for key, value in fields.items():
            if value:
                yield self._block(f"{key}: {value}\n")
        yield self._block("\n")

    def _font(self, name: str, rest: str) -> Iterator[Block]:
        texts = [plain(argument) for argument in arguments(rest)]
        printed = ("" if name in _ALTERNATING else " ").join(texts)
        if not texts:
            return  # the next line is in that font
        if self._is_verbatim:
            yield self._block(printed + "\n")
            return
        self._add(printed)
        self._joins = rest.endswith("\\c")
        if self._awaits is not None:
            yield from self._end_awaited()

    def _term(self, _: str) -> Iterator[Block]:
        yield from self._flush("\n\n")
        self._awaits = "term"

    def _item(self, rest: str) -> Iterator[Block]:
        yield from self._flush("\n\n")
        texts = [plain(argument).strip() for argument in arguments(rest)]
        if not texts or not texts[0]:
            return
        if _BULLET.fullmatch(texts[0]):
            self._add("-")
        else:
            self._add(texts[0])
            if not re.fullmatch(r"\W?\w{1,3}[.)]", texts[0]):  # the number of an item
                yield from self._flush("\n")

    def _verbatim(self, is_verbatim: bool) -> Iterator[Block]:
        yield from self._flush("\n")
        if self._is_verbatim and not is_verbatim:
            yield self._block("\n")
        self._is_verbatim = is_verbatim

    def _condition(self, rest: str) -> Iterator[Block]:
        holds, body = _condition(rest)
        yield from self._branch(body, holds)

    def _either(self, rest: str) -> Iterator[Block]:
        holds, body = _condition(rest)
        self._else.append(not holds)
        yield from self._branch(body, holds)

    def _otherwise(self, rest: str) -> Iterator[Block]:
        yield from self._branch(rest, bool(self._else) and self._else.pop())

    def _branch(self, body: str, holds: bool) -> Iterator[Block]:
        """Take the rest of a line, or open a group."""
        takes = holds and self._depth < _DEEPEST
        _, brace, inner = body.partition("\\{")
        if brace:
            self._groups.append(holds)
            body = inner
        if not takes:
            self._groups += [False] * body.count("\\{")
            self.dropped += 1
        elif body.strip("\\{} \t"):
            self._depth += 1
            yield from self._take(body.lstrip())
            self._depth -= 1

    def _link(self, rest: str) -> Iterator[Block]:
        self._url = plain(" ".join(arguments(rest)))
        yield from ()

    def _end_link(self, rest: str) -> Iterator[Block]:
        if self._url:
            self._add(f"<{self._url}>" if self._words else self._url)
            self._joins = True
            self._add(plain("".join(arguments(rest))))
        self._url = ""
        yield from ()

    def _page(self, rest: str) -> Iterator[Block]:
        """Name another page: "ls(1),"."""
        name, section, behind = [*map(plain, arguments(rest)), "", "", ""][:3]
        yield from self._text(f"{name}({section}){behind}" if section else name)

    def _synopsis(self, rest: str) -> Iterator[Block]:
        yield from self._flush("\n")
        self._add(plain(" ".join(arguments(rest))))

    def _option(self, rest: str) -> Iterator[Block]:
        self._add(f"[{plain(' '.join(arguments(rest)))}]")
        yield from ()

    def _start_table(self, _: str) -> Iterator[Block]:
        yield from self._flush("\n\n")
        self._table = _Table()

    def _table_line(self, text: str) -> Iterator[Block]:
        assert self._table is not None
        if text.startswith(".TE"):
            yield from self._end_table()
            return
        if not self._table.has_part_of_row:
            self._span = self._place
        row = self._table.row(text)
        if row:
            yield self._row(row)

    def _row(self, row: str) -> Block:
        number, start, _ = self._span
        return Block(row, None, self._path.text, number, ((0, start, self._place[2]),))

    def _end_table(self) -> Iterator[Block]:
        if self._table is not None and (row := self._table.rest()):
            yield self._row(row)
        self._table = None
        yield self._block("\n")


def _condition(rest: str) -> tuple[bool, str]:
    """Return whether a condition holds on a terminal, and what is behind it."""
    match = _CONDITION.match(rest)
    if match is None:
        return False, ""
    is_terminal = match["name"] == "n" and not match["not"]
    return is_terminal or match[0].strip() == "!t", rest[match.end() :]


class _Table:
    """Reads what is between ``.TS`` and ``.TE``: options, formats, then rows of cells."""

    def __init__(self) -> None:
        self._separator = "\t"
        self._in_formats = True
        self._parts: list[str] = []  # of a row with cells over several lines
        self._is_open = False  # such a cell

    @property
    def has_part_of_row(self) -> bool:
        """Whether the next line goes on with a row."""
        return bool(self._parts)

    def row(self, line: str) -> str:
        """Return the row that a line completes, its cells between bars; "" without one."""
        if self._in_formats:
            if match := _TABLE_SEPARATOR.search(line):
                self._separator = match[1]
            self._in_formats = not line.rstrip().endswith(".") or line.endswith(";")
            return ""
        if line.startswith(".") and not self._is_open:
            self._in_formats = line.startswith(".T&")
            return ""
        if line.startswith("."):
            line = " ".join(arguments(line)[1:])
        goes_on = self._is_open and not line.startswith("T}")
        line = line.removeprefix("T}") if self._is_open else line
        opens = line.endswith("T{")
        self._parts.append((" " if goes_on else "") + line.removesuffix("T{"))
        self._is_open = opens or goes_on
        return "" if self._is_open else self.rest()

    def rest(self) -> str:
        """Return the row that was begun, "" without one or one of lines alone."""
        text, self._parts = "".join(self._parts), []
        cells = [plain(cell).strip() for cell in text.split(self._separator)]
        if all(re.fullmatch(r"[_=\s]*", cell) for cell in cells):
            return ""
        return " | ".join(cells) + "\n"
