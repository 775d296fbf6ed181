"""Reads LaTeX: readable text with sections and lines; formulas and unknown commands as written.

Does not run TeX: of macros only those are expanded that the file defines plainly, before it begins;
other files are not read, and named. Comments and the preamble are left out, and counted.
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
from drt_engine.documents.readers.markdown import split_lines
from drt_engine.documents.readers.text import characters, empty, find_encoding

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
    "DeclareMathOperator DeclareRobustCommand tableofcontents subfile addbibresource newlength "
    "newcounter addtocounter stepcounter refstepcounter numberwithin crefname Crefname rule "
    "fontsize selectlanguage pagecolor captionsetup lstset sisetup geometry usetikzlibrary tikzset "
    "pgfplotsset phantom hphantom vphantom"
)
_OTHER_FILES = words("input include subfile bibliography addbibresource")
_MORE_ARGUMENTS = {
    "newcommand": 1, "renewcommand": 1, "providecommand": 1, "setlength": 1, "addtolength": 1,
    "setcounter": 1, "addcontentsline": 2, "newtheorem": 1, "DeclareMathOperator": 1,
    "DeclareRobustCommand": 1, "addtocounter": 1, "numberwithin": 1, "crefname": 2, "Crefname": 2,
    "rule": 1, "fontsize": 1,
}  # fmt: skip
_SILENT = words(
    "maketitle centering raggedright noindent indent newpage clearpage cleardoublepage bigskip "
    "medskip smallskip small footnotesize scriptsize tiny normalsize large Large LARGE huge Huge "
    "bfseries itshape rmfamily sffamily ttfamily scshape em bf it rm sf tt sc par hfill vfill "
    "appendix frontmatter mainmatter backmatter hline toprule midrule bottomrule protect sloppy "
    "left right displaystyle textstyle linebreak pagebreak newline quad qquad item null "
    "raggedleft columnbreak smallbreak medbreak bigbreak allowbreak nobreak unskip ignorespaces "
    "xspace selectfont singlespacing onehalfspacing doublespacing allowdisplaybreaks relax"
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
    "column figure table Verbatim lstlisting minted"
)
_GROUP = re.compile(r"[ \t]*\{([^{}]*)\}")
_DEFINITION = re.compile(
    r"\\(?:re|provide)?(?:newcommand|DeclareRobustCommand|command)\*?\s{0,9}"
    r"(?:\{\s{0,9}\\([A-Za-z]+)\s{0,9}\}|\\([A-Za-z]+))\s{0,9}"
    r"(?:\[([1-9])\]\s{0,9}(?:\[([^\[\]]{0,200})\])?)?\s{0,9}\{"
    r"|\\def\s{0,9}\\([A-Za-z]+)((?:\#[1-9]){0,9})\s{0,9}\{"
)
_PARAMETER = re.compile(r"#([1-9])")
_COMMENT = re.compile(r"(?<!\\)%.*\n?")
_BEGINS = re.compile(r"\\begin\s{0,9}\{document\}")
_OPTION = re.compile(r"[ \t]*\[[^\[\]]*\]")
_TYPOGRAPHY = {"---": "—", "--": "–", "``": "“", "''": "”", "&": "|"}
_TITLE_LINES = 3000
_OPEN_GROUPS = 200
_PREAMBLE_CHARACTERS = 1 << 20  # in which definitions are looked for
_BODY_CHARACTERS = 2000
_DEEPEST_EXPANSION = 8
_EXPANDED_CHARACTERS = 1 << 20  # by all macros of a file: they can double at each level


@dataclass(frozen=True)
class _Macro:
    """A command that the file defines: its text with #1 to #9, of which the first may be left
    out.
    """

    arguments: int
    default: str | None  # of the first argument, which then stands in brackets
    text: str
    spaced: bool  # a space after it is one, as the package xspace has it


def _definitions(preamble: str) -> dict[str, _Macro]:
    """The macros that a preamble defines, the last definition of each."""
    preamble = _COMMENT.sub("", preamble)
    macros: dict[str, _Macro] = {}
    for found in _DEFINITION.finditer(preamble):
        body = _balanced(preamble, found.end())
        name = found[1] or found[2] or found[5]
        if body is None or name in _BUILT_IN or "\\newcommand" in body or "\\def" in body:
            continue
        count = int(found[3] or 0) if found[5] is None else len(found[6]) // 2
        if all(int(number) <= count for number in _PARAMETER.findall(body)):
            text = re.sub(r"\s+", " ", body.replace("\\xspace", ""))
            macros[name] = _Macro(count, found[4], text, "\\xspace" in body)
    return macros


def _balanced(text: str, start: int) -> str | None:
    """The text from `start` to the brace that ends it; None where it is long or without end."""
    depth, at = 1, start
    while at < min(len(text), start + _BODY_CHARACTERS):
        sign = text[at]
        at += 2 if sign == "\\" else 1
        depth += (sign == "{") - (sign == "}")
        if not depth:
            return text[start : at - 1]
    return None


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

    def __init__(self, preamble: str | None, notes: Notes) -> None:
        """`preamble` is what comes before the document begins; None where nothing says so."""
        self.path = SectionPath()
        self.title = ""
        self.after_end = 0  # lines with words that TeX does not read
        self._notes = notes
        self._macros = _definitions(preamble or "")
        self._depth, self._expanded = 0, 0
        self._groups: list[_Group] = []
        self._lists: list[int | None] = []
        self._pending: _Group | None = None  # what the next brace opens
        self._verbatim = ""
        self._math = ""
        self._math_depth = 0
        self._in_text = preamble is None
        self._ended = False
        self._out: list[str] = []
        self._number, self._start = 1, 0  # line and character of the source
        self._marks: list[tuple[int, int, int]] = []  # where the text comes from another line

    def blocks(self, line: str) -> list[Block]:
        """The line as text with its newline and where it comes from; none where it holds no text.

        A heading of several lines is text where it ends, with the line where it begins.
        """
        if self._ended and line.strip():
            self.after_end += 1
        # No argument of a heading or of layout goes beyond its paragraph.
        held = self.finish() if not (line.strip() or self._verbatim) else []
        text = self._line(line)
        end = self._start + len(line.rstrip("\n"))
        found = held + ([] if text is None else list(self._pieces(text, line, end)))
        self._number += line.count("\n")
        self._start += len(line)
        return found

    def finish(self) -> list[Block]:
        """What is held back by a brace that nothing closes."""
        self._out, self._marks = [], []
        self._give_up()
        text = "".join(self._out)
        return list(self._pieces(text + "\n", "", self._start)) if text.strip() else []

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
        rest = line
        if self._verbatim:
            code, end, rest = line.partition(self._verbatim_end)
            if not end:
                return code
            self._verbatim = ""
            self._add(code if code.strip() else "")
        self._run(_ACCENT.sub(_accented, rest))
        text = "".join(self._out)
        if not text.strip() and (line.strip() or not self._in_text):
            return None
        return text.rstrip() + "\n" * line.endswith("\n")

    @property
    def _verbatim_end(self) -> str:
        return f"\\end{{{self._verbatim}}}"

    def _run(self, line: str) -> None:
        """Convert a line, or what a macro stands for."""
        at = 0
        while at < len(line):
            if self._verbatim:
                stop = line.find(self._verbatim_end, at)
                self._add(line[at:] if stop < 0 else line[at:stop])
                if stop < 0:
                    return
                at = stop + len(self._verbatim_end)
                self._verbatim = ""
                continue
            match = _TOKEN.match(line, at)
            assert match is not None  # the last alternatives take any character
            at = self._token(match, line)

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
            self._name("".join(group.kept), group)
        self._add(group.after)
        if group.more:
            self._pending = replace(group, more=group.more - 1, kept=[])

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
            text = "".join(group.kept)
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
            self._marks.append((sum(map(len, self._out)), number, first))

    def _add(self, text: str) -> None:
        for group in reversed(self._groups):
            if group.kind != "text":
                group.kept.append(text)
                return
        if self._in_text:
            self._out.append(text)

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
        if name in _REFERENCES and (stop := self._reference(line, end)):
            return stop
        if name in _OTHER_FILES and (file := _GROUP.match(line, end)):
            self._notes.skip(f"file {file[1]}", "other files are not read, read it by its name")
        if name == "bibitem" and (key := _GROUP.match(line, end)):
            self._add(f"[{key[1]}]")
            return key.end()
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

    def _reference(self, line: str, at: int) -> int:
        """Write a reference with the words before and after its keys; its end, 0 for none here."""
        options: list[str] = []
        while len(options) < 2 and (option := _OPTION.match(line, at)):
            options.append(option[0].strip()[1:-1])
            at = option.end()
        keys = _GROUP.match(line, at)
        if keys is None:
            return 0
        before = options[0] if len(options) == 2 else ""
        after = options[-1] if options else ""
        self._add("[")
        self._run(before + " " * bool(before) + keys[1])
        self._run(", " * bool(after) + after)
        self._add("]")
        return keys.end()

    def _expand(self, macro: _Macro, match: re.Match[str], line: str) -> int:
        """Write what a macro stands for; the end of its arguments, 0 where they are not here."""
        at, values = match.end(), []
        if macro.default is not None:
            option = _OPTION.match(line, at)
            values.append(option[0].strip()[1:-1] if option else macro.default)
            at = option.end() if option else at
        while len(values) < macro.arguments:
            while line[at : at + 1] in (" ", "\t"):
                at += 1
            value = _balanced(line, at + 1) if line[at : at + 1] == "{" else None
            if value is None:
                return 0
            values.append(value)
            at += len(value) + 2
        text = _PARAMETER.sub(lambda number: values[int(number[1]) - 1], macro.text)
        self._expanded += len(text)
        if self._depth >= _DEEPEST_EXPANSION or self._expanded > _EXPANDED_CHARACTERS:
            return 0
        self._depth += 1
        self._run(_ACCENT.sub(_accented, text))
        self._depth -= 1
        if macro.spaced and line[at - 1 : at].isspace() and line[at : at + 1].isalnum():
            self._add(" ")
        return at

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
            if self._in_text:
                self._give_up()
            self._in_text, self._ended = opens, not opens
            self._groups, self._pending = [], None
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
        arguments = _ARGUMENTS if name in _WITH_ARGUMENTS else _OPTION
        said = arguments.match(line, found.end())
        if said and name in _KEPT_ENVIRONMENTS:  # the name of a theorem
            self._add(f"({said[0].strip()[1:-1]})")
        return said.end() if said else found.end()


def _accented(found: re.Match[str]) -> str:
    mark = found[1] or found[4]
    letter = found[2] or found[3] or found[5] or found[6]
    return unicodedata.normalize("NFC", letter + _ACCENTS[mark])


_BUILT_IN = (
    _LEVELS.keys() | _UNWRAPPED | _REFERENCES | _DROPPED | _SILENT | _SIGNS.keys()
    | words("begin end footnote footnotetext href item bibitem")
)  # fmt: skip


def _preamble(source: Source, encoding: str) -> str | None:
    """What comes before the document begins, shortened; None where nothing says that it does."""
    lines: list[str] = []
    size = 0
    for line in split_lines(characters(source, encoding)):
        if _BEGINS.search(_COMMENT.sub("", line)):
            return "".join([*lines, line])
        if size < _PREAMBLE_CHARACTERS:
            lines.append(line)
            size += len(line)
    return None


def _lines(source: Source, encoding: str, notes: Notes) -> Iterator[tuple[_Converter, Block]]:
    converter, dropped = _Converter(_preamble(source, encoding), notes), 0
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
    for block in converter.finish():
        yield converter, block
    if dropped > converter.after_end:
        why = "preamble, comments or layout"
        notes.skip("line", why, dropped - converter.after_end)
    if converter.after_end:
        what = "line after the end of the document"
        notes.skip(what, "TeX does not read it", converter.after_end)


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
