"""Reads LaTeX: readable text with sections and lines; formulas and unknown commands as written.

Does not run TeX: macros are not expanded and other files not read; comments and the preamble are
left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from drt_engine.documents.base import (
    Block,
    Notes,
    OpenDocument,
    SectionPath,
    Source,
    one_line,
    regroup,
    words,
)
from drt_engine.documents.markdown import split_lines
from drt_engine.documents.text import characters, empty, find_encoding

_LEVELS = {
    "part": 1, "chapter": 2, "section": 3, "subsection": 4, "subsubsection": 5, "paragraph": 6,
    "subparagraph": 7,
}  # fmt: skip
_UNWRAPPED = words(
    "emph textbf textit texttt textsc textsf textrm textsl textup textmd textnormal underline "
    "uline mbox hbox text mathrm enquote so caption title author date thanks centerline "
    "textsuperscript textsubscript acro term keyword url path code"
)
_REFERENCES = words(
    "cite citep citet citeauthor citeyear citealp citealt autocite parencite textcite footcite "
    "ref eqref pageref autoref cref Cref nameref"
)
_DROPPED = words(
    "label index vspace hspace includegraphics bibliography bibliographystyle usepackage "
    "documentclass pagestyle thispagestyle setlength addtolength newcommand renewcommand "
    "providecommand input include setcounter addcontentsline graphicspath hypersetup "
    "newtheorem theoremstyle pagenumbering color textcolor linespread glsresetall nocite "
    "DeclareMathOperator tableofcontents"
)
_MORE_ARGUMENTS = {
    "newcommand": 1, "renewcommand": 1, "providecommand": 1, "setlength": 1, "addtolength": 1,
    "setcounter": 1, "addcontentsline": 2, "newtheorem": 1, "DeclareMathOperator": 1,
}  # fmt: skip
_SILENT = words(
    "maketitle centering raggedright noindent indent newpage clearpage cleardoublepage bigskip "
    "medskip smallskip small footnotesize scriptsize tiny normalsize large Large LARGE huge Huge "
    "bfseries itshape rmfamily sffamily ttfamily scshape em bf it rm sf tt sc par hfill vfill "
    "appendix frontmatter mainmatter backmatter hline toprule midrule bottomrule protect sloppy "
    "left right displaystyle textstyle linebreak pagebreak newline quad qquad item null"
)
_SIGNS = {
    "ldots": "…", "dots": "…", "textellipsis": "…", "LaTeX": "LaTeX", "TeX": "TeX", "ss": "ß",
    "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "o": "ø", "O": "Ø", "aa": "å", "AA": "Å",
    "l": "ł", "L": "Ł", "i": "ı", "j": "ȷ", "S": "§", "P": "¶", "copyright": "©", "pounds": "£",
    "euro": "€", "texteuro": "€", "textdegree": "°", "degree": "°", "textbackslash": "\\",
    "textasciitilde": "~", "textendash": "–", "textemdash": "—", "textquotesingle": "'",
    "quad": " ", "qquad": " ", "newline": " ", "dag": "†", "ddag": "‡", "textregistered": "®",
    "texttrademark": "™", "textbar": "|", "slash": "/",
}  # fmt: skip
_ACCENTS = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", '"': "\u0308", "=": "\u0304",
    ".": "\u0307", "c": "\u0327", "v": "\u030c", "u": "\u0306", "H": "\u030b", "k": "\u0328",
    "r": "\u030a", "d": "\u0323", "b": "\u0331",
}  # fmt: skip
_VERBATIM = words("verbatim Verbatim lstlisting minted alltt")
_MATH = words("equation align gather multline eqnarray displaymath math split cases array flalign")
_KEPT_ENVIRONMENTS = _MATH | words("theorem lemma proof definition corollary proposition example")
_ACCENT = re.compile(
    r"\\([`'^~\"=.])\s*(?:\{\\?([A-Za-z])\}|\\?([A-Za-z]))|"
    r"\\([cvuHkrdb])(?:\{\\?([A-Za-z])\}|\s+\\?([A-Za-z])(?![A-Za-z]))"
)
_TOKEN = re.compile(
    r"\\([A-Za-z@]+)(\*?)[ \t]*|\\(.)|(?<!\\)%.*|([{}\[\]])|(\$\$?)|(~)|(---?|``|''|&)|"
    r"[^\\%{}\[\]$~`'&-]+|.|\n",
)
_BEGIN = re.compile(r"\{([A-Za-z]+)\*?\}[ \t]*")
_LABEL = re.compile(r"[ \t]*\[([^\[\]\\{}$]*)\][ \t]*")
_ARGUMENTS = re.compile(r"(?:[ \t]*(?:\[[^\[\]]*\]|\{[^{}]*\}))*")
_WITH_ARGUMENTS = words(
    "tabular tabularx longtable minipage multicols thebibliography wrapfigure adjustbox columns "
    "column figure table"
)
_OPTION = re.compile(r"[ \t]*\[[^\[\]]*\]")
_TYPOGRAPHY = {"---": "—", "--": "–", "``": "“", "''": "”", "&": "|"}
_TITLE_LINES = 3000
_OPEN_GROUPS = 200


@dataclass
class _Group:
    """An open brace: what its text becomes, and what stands after it."""

    kind: str  # "text", "drop", "heading", "title"
    before: str = ""
    after: str = ""
    level: int = 0
    more: int = 0  # groups after this one that are alike
    begun: tuple[int, int] = (0, 0)  # line and character of the source
    kept: list[str] = field(default_factory=list)


class _Converter:
    """Turns lines into readable ones, one for one, so that line numbers stay."""

    def __init__(self) -> None:
        self.path = SectionPath()
        self.title = ""
        self._groups: list[_Group] = []
        self._lists: list[int | None] = []
        self._pending: _Group | None = None  # what the next brace opens
        self._verbatim = ""
        self._math = ""
        self._math_depth = 0
        self._in_text = True
        self._out: list[str] = []
        self._number, self._start = 1, 0  # line and character of the source
        self._marks: list[tuple[int, int, int]] = []  # where the text comes from another line

    def preamble(self) -> None:
        """Leave everything out until \\begin{document}."""
        self._in_text = False

    def blocks(self, line: str) -> list[Block]:
        """The line as text with its newline and where it comes from; none where it holds no text.

        A heading of several lines is text where it ends, with the line where it begins.
        """
        text = self._line(line)
        end = self._start + len(line.rstrip("\n"))
        found = [] if text is None else list(self._pieces(text, line, end))
        self._number += line.count("\n")
        self._start += len(line)
        return found

    def _pieces(self, text: str, line: str, end: int) -> Iterator[Block]:
        if not self._marks and line.startswith(text.removesuffix("\n")):
            yield Block(text, section=self.path.text, line=self._number, origin=((0, self._start),))
            return
        inner = [mark for mark in self._marks if text[mark[0] :].strip()]
        marks = [(0, self._number, self._start), *inner]
        stops = [*(at for at, _, _ in inner), len(text)]
        for (at, number, first), stop in zip(marks, stops, strict=True):
            if piece := text[at:stop]:
                origin = ((0, first, end),)
                yield Block(piece, section=self.path.text, line=number, origin=origin)

    def _line(self, line: str) -> str | None:
        self._out, self._marks = [], []
        if self._verbatim:
            return self._verbatim_line(line)
        line = _ACCENT.sub(_accented, line)
        at = 0
        while at < len(line) and not self._verbatim:
            match = _TOKEN.match(line, at)
            assert match is not None  # the last alternatives take any character
            at = self._token(match, line)
        text = "".join(self._out)
        if not self._in_text or (not text.strip() and line.strip()):
            return None
        return text.rstrip() + "\n" * line.endswith("\n")

    def _verbatim_line(self, line: str) -> str | None:
        end = f"\\end{{{self._verbatim}}}"
        if end in line:
            self._verbatim = ""
            return None
        return line

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
            self._add(typography if self._formula else _TYPOGRAPHY[typography])
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
            text = one_line("".join(group.kept))
            if group.kind == "title":
                self.title = self.title or text
            elif text:
                self.path.enter(group.level, text)
            self._mark(*group.begun)
            self._add(text)
            self._mark(self._number, self._start)
        self._add(group.after)
        if group.more:
            self._pending = replace(group, more=group.more - 1, kept=[])

    def _mark(self, number: int, first: int) -> None:
        """Note that what comes next is of another line."""
        last = self._marks[-1][1] if self._marks else self._number
        if number != last:
            self._marks.append((sum(map(len, self._out)), number, first))

    def _add(self, text: str) -> None:
        for group in reversed(self._groups):
            if group.kind == "drop":
                return
            if group.kind in ("heading", "title"):
                group.kept.append(text)
                return
        if self._in_text:
            self._out.append(text)

    def _command(self, name: str, match: re.Match[str], line: str) -> int:
        end = match.end()
        if name in ("begin", "end"):
            return self._environment(name, line, end)
        if self._formula:
            self._add(match[0])
            return end
        if name in _LEVELS or name == "title":
            kind = "title" if name == "title" else "heading"
            self._pending = _Group(kind, level=_LEVELS.get(name, 0))
        elif name in ("footnote", "footnotetext"):
            self._add(" (")
            self._pending = _Group("text", after=")")
        elif name in _REFERENCES:
            self._add("[")
            self._pending = _Group("text", after="]")
        elif name == "href" or name in _DROPPED:
            self._pending = _Group("drop", more=_MORE_ARGUMENTS.get(name, 0))
        elif name in _UNWRAPPED:
            self._pending = _Group("text")
        elif name == "item":
            self._add(self._bullet())
            label = _LABEL.match(line, end)
            if label:
                self._add(f"{label[1]}: ")
                return label.end()
        elif name in _SIGNS:
            self._add(_SIGNS[name])
            return end if name not in ("ldots", "dots") else match.start() + 1 + len(name)
        elif name not in _SILENT:
            self._add(match[0])
            self._pending = _Group("text", before="{", after="}", more=3)
            return end
        return self._after_option(line, end)

    def _after_option(self, line: str, end: int) -> int:
        """Past an option in brackets, which says how and not what."""
        option = _OPTION.match(line, end)
        return option.end() if option and self._pending is not None else end

    def _bullet(self) -> str:
        number = self._lists[-1] if self._lists else None
        if number is None:
            return "- "
        self._lists[-1] = number + 1
        return f"{number}. "

    def _environment(self, command: str, line: str, at: int) -> int:
        found = _BEGIN.match(line, at)
        if found is None:
            return at
        name, opens = found[1], command == "begin"
        if name == "document":
            self._in_text, self._groups, self._pending = opens, [], None
        elif name in _VERBATIM and opens:
            self._verbatim = name
        elif name in ("itemize", "enumerate", "description"):
            if opens:
                self._lists.append(1 if name == "enumerate" else None)
            elif self._lists:
                self._lists.pop()
        if name in _KEPT_ENVIRONMENTS:
            self._add(f"\\{command}{{{name}}}" if name in _MATH else f"{name.title()} " * opens)
        if name in _MATH:
            self._math_depth = max(0, self._math_depth + (1 if opens else -1))
        if not opens or name in _MATH:
            return found.end()
        said = (_ARGUMENTS if name in _WITH_ARGUMENTS else _OPTION).match(line, found.end())
        return said.end() if said else found.end()


def _accented(found: re.Match[str]) -> str:
    mark = found[1] or found[4]
    letter = found[2] or found[3] or found[5] or found[6]
    return unicodedata.normalize("NFC", letter + _ACCENTS[mark])


def _converter(source: Source, encoding: str) -> _Converter:
    converter = _Converter()
    for line in split_lines(characters(source, encoding)):
        if line.lstrip().startswith("\\begin{document}"):
            converter.preamble()
            break
    return converter


def _lines(source: Source, encoding: str, notes: Notes) -> Iterator[tuple[_Converter, Block]]:
    converter, dropped = _converter(source, encoding), 0
    blank = True
    for line in split_lines(characters(source, encoding)):
        blocks = converter.blocks(line)
        empty_line = not any(block.text.strip() for block in blocks)
        if not blocks:
            dropped += 1
        elif not (empty_line and blank):
            for block in blocks:
                yield converter, block
            blank = empty_line
    if dropped:
        notes.skip("line", "preamble, comments or layout", dropped)


def _blocks(source: Source, encoding: str, notes: Notes) -> Iterator[Block]:
    return regroup(block for _, block in _lines(source, encoding, notes))


def _title(source: Source, encoding: str) -> str:
    found: _Converter | None = None
    for number, (found, _) in enumerate(_lines(source, encoding, Notes())):
        if found.title or number > _TITLE_LINES:
            break
    return found.title if found is not None else ""


@dataclass(frozen=True)
class LatexReader:
    """The text of a LaTeX source, readable without TeX."""

    def recognises(self, head: bytes) -> bool:
        return re.search(rb"^\s*\\documentclass\b", head, re.MULTILINE) is not None

    def open(self, source: Source) -> OpenDocument:
        encoding = find_encoding(source)
        notes = Notes()
        if not any(b.text.strip() for _, b in _lines(source, encoding, Notes())):
            raise empty(source)
        title = one_line(_title(source, encoding)) or one_line(source.file_name)
        return OpenDocument(title, "text/x-tex", _blocks(source, encoding, notes), notes)
