"""Turns man pages with the macros of mdoc(7), as BSD systems have them, into the same blocks.

Adds to the macros of man(7) those that mark what a word is: options, arguments, brackets, lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from drt_engine.documents.base import Block, Notes, words
from drt_engine.documents.man.converter import Converter
from drt_engine.documents.man.escapes import marked_arguments, plain

_CLOSING = frozenset(".,:;)]?!")
_OPENING = frozenset("([")
# Macros that put their arguments, to the end of the line, between signs; and their halves.
_ENCLOSING = {
    "Op": "[]", "Aq": "<>", "Bq": "[]", "Brq": "{}", "Pq": "()", "Dq": "\u201c\u201d",
    "Qq": '""', "Sq": "\u2018\u2019", "Ql": "\u2018\u2019",
}  # fmt: skip
_OPENERS = {
    "Oo": "[", "Ao": "<", "Bo": "[", "Bro": "{", "Po": "(", "Do": "\u201c", "Qo": '"',
    "So": "\u2018",
}  # fmt: skip
_CLOSERS = {
    "Oc": "]", "Ac": ">", "Bc": "]", "Brc": "}", "Pc": ")", "Dc": "\u201d", "Qc": '"',
    "Sc": "\u2019",
}  # fmt: skip
_SYSTEMS = {
    "Ux": "UNIX", "Bx": "BSD", "Fx": "FreeBSD", "Nx": "NetBSD", "Ox": "OpenBSD", "Dx": "DragonFly",
    "Bsx": "BSD/OS", "At": "AT&T UNIX",
}  # fmt: skip
_DEFAULTS = {"Ar": "file ...", "Pa": "~", "Mt": "~"}  # printed where a macro has no argument
_WORDS = words(
    "Ad An Ar Cd Cm Dv Em Er Ev Fa Fd Fl Fn Ft Ic In Lb Li Lk Ms Mt Nd Nm No Pa Pf St Sx Sy Tn Va "
    "Vt Xr Ap Ns Xo Xc Fo Fc Ta"
)
_CALLABLE = frozenset(_WORDS | set(_ENCLOSING) | set(_OPENERS) | set(_CLOSERS) | set(_SYSTEMS))
_OWN_LINES = words("Fn Fo Ft Fd In Vt Nm Cd")  # of a synopsis
_WITH_TERMS = words("tag hang ohang inset diag")
_VERBATIM = words("literal unfilled")
_EXIT = ("utility exits", "utilities exit", " 0 on success, and >0 if an error occurs.")
_RETURN = (
    "function returns",
    "functions return",
    " the value 0 if successful; otherwise the value -1 is returned and the global variable errno "
    "is set to indicate the error.",
)


class MdocConverter(Converter):
    """Makes blocks of a page of mdoc(7), line by line."""

    def __init__(self, notes: Notes) -> None:
        super().__init__(notes)
        self._name = ""  # of the page's program, which ``Nm`` prints
        self._lists: list[tuple[str, int]] = []  # kind, and items so far
        self._has_head = False  # whether fields of the head wait for a blank line
        self._in_term = False  # between ``Xo`` and ``Xc`` behind ``It``
        self._spaces = True  # what ``Sm`` says
        self._reference: list[str] | None = None
        self._parameters = 0  # of a function between ``Fo`` and ``Fc``, so far

    def _request(self, name: str, rest: str) -> Iterator[Block]:
        handlers: dict[str, Callable[[str], Iterator[Block]]] = {
            "Dd": self._day,
            "Dt": self._title_of,
            "Os": self._system,
            "Bl": self._open_list,
            "El": self._close_list,
            "It": self._list_item,
            "Bd": self._display,
            "Ed": lambda _: self._verbatim(False),
            "D1": self._own_line,
            "Dl": self._own_line,
            "Rs": lambda _: self._cite(),
            "Re": lambda _: self._end_cite(),
            "Ex": lambda rest: self._standard(_EXIT, rest),
            "Rv": lambda rest: self._standard(_RETURN, rest),
        }
        if name in ("Sh", "Ss"):
            yield from self._section(name, rest)
        elif name in ("Pp", "Lp"):
            yield from self._flush("\n\n")
        elif name in handlers:
            yield from handlers[name](rest)
        elif name in _CALLABLE:
            yield from self._line(name, rest)
        elif name.startswith("%") and len(name) == 2:
            if self._reference is not None:
                self._reference.append(" ".join(plain(text) for text, _ in marked_arguments(rest)))
        elif name == "Sm":
            self._spaces = not rest.startswith("off")
            self._joins = self._joins and not self._spaces
        elif name not in ("Bk", "Ek", "Bf", "Ef"):
            yield from super()._request(name, rest)

    # The head: fields as lines, since pages have them in heads and feet.

    def _day(self, rest: str) -> Iterator[Block]:
        self.date = re.sub(r"\$(?:Mdocdate:?)?", "", plain(rest)).strip()
        yield from self._field("Date", self.date)

    def _title_of(self, rest: str) -> Iterator[Block]:
        name, section = [*(plain(text) for text, _ in marked_arguments(rest)), "", ""][:2]
        name = name.lower() if name.isupper() else name
        self.title = f"{name}({section})" if section else name
        yield from self._field("Title", self.title)

    def _system(self, rest: str) -> Iterator[Block]:
        yield from self._field(
            "Version", " ".join(plain(text) for text, _ in marked_arguments(rest))
        )

    def _field(self, key: str, value: str) -> Iterator[Block]:
        if value:
            self._has_head = True
            yield self._block(f"{key}: {value}\n")

    def _section(self, name: str, rest: str) -> Iterator[Block]:
        yield from self._flush("\n\n")
        if self._has_head:
            self._has_head = False
            yield self._block("\n")
        self._render(marked_arguments(rest))
        heading, self._words = "".join(self._words), []
        yield from self._heading(name.upper(), heading)

    # Lines of macros that mark words.

    def _line(self, name: str, rest: str) -> Iterator[Block]:
        if self._path.text == "SYNOPSIS" and name in _OWN_LINES:
            yield from self._flush("\n")
        tokens = [(name, False), *marked_arguments(rest)]
        self._render(tokens)
        if self._in_term and ("Xc", False) in tokens:
            self._in_term = False
            yield from self._flush("\n")
        elif name == "Nd":
            yield from self._flush("\n\n")
        yield from self._end_line()

    def _end_line(self) -> Iterator[Block]:
        if self._is_verbatim and self._words:
            text, self._words = "".join(self._words), []
            yield self._block(text + "\n")

    def _own_line(self, rest: str) -> Iterator[Block]:
        yield from self._flush("\n")
        self._render(marked_arguments(rest))
        yield from self._flush("\n")

    def _put(self, text: str, *, left: bool = False, right: bool = False) -> None:
        """Add a word; ``left`` and ``right`` say whether no space is between it and the next."""
        if text:
            self._joins = self._joins or left
            self._add(text)
            self._joins = right or not self._spaces

    def _render(self, tokens: list[tuple[str, bool]]) -> None:
        """Add what the macros and words of a line print; a quoted word is never a macro."""
        end = len(tokens)
        while end > 1 and tokens[end - 1][0] in _CLOSING and not tokens[end - 1][1]:
            end -= 1  # closing punctuation is outside of brackets that are open at the end
        closers: list[str] = []
        macro, index = "", 0
        while index < end:
            text, is_quoted = tokens[index]
            index += 1
            if not is_quoted and text in _CALLABLE:
                has_words = index < end and (tokens[index][1] or not _is_special(tokens[index][0]))
                next_is_macro = index < end and not tokens[index][1] and not has_words
                macro = text
                if text in _ENCLOSING:
                    self._put(_ENCLOSING[text][0], right=True)
                    closers.append(_ENCLOSING[text][1])
                elif text in ("Fn", "Fo", "Xr", "In", "Lk"):
                    stop = index
                    while stop < end and (tokens[stop][1] or not _is_special(tokens[stop][0])):
                        stop += 1
                    self._call(text, [plain(word) for word, _ in tokens[index:stop]])
                    index = stop
                else:
                    self._mark(text, has_words=has_words, next_is_macro=next_is_macro)
            elif not is_quoted and text in _CLOSING:
                self._put(text, left=True)
            elif not is_quoted and text in _OPENING:
                self._put(text, right=True)
            elif macro == "An" and text in ("-split", "-nosplit"):
                continue
            else:
                self._put(("-" if macro == "Fl" and text != "|" else "") + plain(text))
                if macro == "Pf":  # which is before what the next macro prints
                    self._joins, macro = True, ""
                if macro == "Nm" and not self._name:
                    self._name = plain(text)
        for closer in reversed(closers):
            self._put(closer, left=True)
        for text, _ in tokens[end:]:
            self._put(text, left=True)

    def _mark(self, macro: str, *, has_words: bool, next_is_macro: bool) -> None:
        """Add what a macro prints of its own, in front of its words or in their place."""
        if macro in _OPENERS:
            self._put(_OPENERS[macro], right=True)
        elif macro in _CLOSERS:
            self._put(_CLOSERS[macro], left=True)
        elif macro == "Ns":
            self._joins = True
        elif macro == "Ap":
            self._put("'", left=True, right=True)
        elif macro == "Fc":
            self._put(")", left=True)
            self._parameters = 0
        elif macro == "Fa" and self._parameters:
            self._parameters += 1
            self._put("," if self._parameters > 2 else "", left=True)
        elif macro == "Nd":
            self._put("-")
        elif macro == "Ta":
            self._put("|")
        elif macro in _SYSTEMS:
            self._put(_SYSTEMS[macro])
        elif not has_words and macro == "Fl":
            self._put("-", right=next_is_macro)
        elif not has_words and macro == "Nm":
            self._put(self._name)
        elif not has_words:
            self._put(_DEFAULTS.get(macro, ""))

    def _call(self, macro: str, texts: list[str]) -> None:
        """Add a function, a page, a header or a link, which have signs between their words."""
        first, arguments = (texts[0], texts[1:]) if texts else ("", [])
        if macro == "Fn":
            self._put(f"{first}({', '.join(arguments)})")
        elif macro == "Fo":
            self._put(f"{first}(", right=True)
            self._parameters = 1
        elif macro == "Xr":
            self._put(first + (f"({arguments[0]})" if arguments else ""))
        elif macro == "In":
            self._put(f"#include <{first}>" if self._path.text == "SYNOPSIS" else f"<{first}>")
        else:
            self._put(f"{' '.join(arguments)} <{first}>" if arguments else first)

    # Lists, displays, references.

    def _open_list(self, rest: str) -> Iterator[Block]:
        yield from self._flush("\n\n")
        kinds = [text.removeprefix("-") for text, _ in marked_arguments(rest)]
        self._lists.append((kinds[0] if kinds else "item", 0))

    def _close_list(self, _: str) -> Iterator[Block]:
        yield from self._flush("\n\n")
        if self._lists:
            self._lists.pop()

    def _list_item(self, rest: str) -> Iterator[Block]:
        kind, count = self._lists.pop() if self._lists else ("item", 0)
        self._lists.append((kind, count + 1))
        yield from self._flush("\n" if kind == "column" else "\n\n")
        if kind == "column":
            rest = rest.replace("\t", " Ta ")
        elif kind == "enum":
            self._put(f"{count + 1}.")
        elif kind not in _WITH_TERMS and kind != "item":
            self._put("-")
        tokens = marked_arguments(rest)
        self._render(tokens)
        if kind in _WITH_TERMS:
            self._in_term = ("Xo", False) in tokens
            if not self._in_term:
                yield from self._flush("\n")

    def _display(self, rest: str) -> Iterator[Block]:
        kinds = {text.removeprefix("-") for text, _ in marked_arguments(rest)}
        yield from self._verbatim(not kinds.isdisjoint(_VERBATIM))

    def _cite(self) -> Iterator[Block]:
        self._reference = []
        yield from ()

    def _end_cite(self) -> Iterator[Block]:
        if self._reference:
            self._put(", ".join(self._reference) + ".")
        self._reference = None
        yield from ()

    def _standard(self, parts: tuple[str, str, str], rest: str) -> Iterator[Block]:
        names = [plain(text) for text, _ in marked_arguments(rest) if text != "-std"]
        signs = "()" if parts is _RETURN else ""
        subject = " and ".join(f"{name}{signs}" for name in names or [self._name])
        self._put(f"The {subject} {parts[len(names) > 1]}{parts[2]}")
        yield from ()


def _is_special(text: str) -> bool:
    """Return whether a word is a macro or punctuation, not an argument."""
    return text in _CALLABLE or text in _CLOSING or text in _OPENING
