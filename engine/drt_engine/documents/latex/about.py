"""The authors and the date of a LaTeX file, which its preamble or its first lines name.

Knows the usual forms: ``\\author{A \\and B}``, one ``\\author`` for each, ``\\date``.
"""

from __future__ import annotations

import re
from itertools import islice

from drt_engine.documents.base import Notes, date_of, one_line
from drt_engine.documents.latex.converter import Converter
from drt_engine.documents.latex.macros import COMMENT, balanced

_AUTHOR = re.compile(r"\\author\*?\s{0,9}(?:\[[^\[\]]{0,200}\]\s{0,9})?\{")
_DATE = re.compile(r"\\date\s{0,9}\{")
# What authors are given beside their names: "Ann Lee\thanks{..}$^{1,2}$".
_BESIDE = re.compile(
    r"\\(?:thanks|footnote|footnotemark|inst|orcid\w*|orcidlink|email|mailto|affil\w*|institute"
    r"|textsuperscript|altaffil\w*|fnmsep|fnref|corref|authormark)\s{0,9}"
    r"(?:\[[^\[\]]{0,200}\]\s{0,9})?(?P<brace>\{)?"
)
_MARKS = re.compile(r"\$[^$]{0,200}\$")
_BETWEEN = re.compile(r"\\(?:and|And|AND|qquad|quad)(?![A-Za-z])|,|;|\s(?:and|&)\s")
_LINE_END = re.compile(r"\\\\|\\newline(?![A-Za-z])|\n\s*\n")
_NAME = re.compile(r"[^\W\d_][^\d@{}\\]{1,60}")
_MOST = 50  # authors
_LONGEST_SUFFIX = ("jr", "sr", "ii", "iii", "iv")


def authors_and_date(text: str) -> tuple[str, str]:
    """Return the authors, with commas between them, and the date; "" for what is not named."""
    text = COMMENT.sub("", text)
    names: list[str] = []
    for match in islice(_AUTHOR.finditer(text), _MOST):
        for name in _names(balanced(text, match.end()) or ""):
            if name not in names and len(names) < _MOST:
                names.append(name)
    dated = _DATE.search(text)
    day = balanced(text, dated.end()) if dated else None
    written = _plain(day) if day else ""
    return ", ".join(names), date_of(written) if re.search(r"\d", written) else ""


def _names(argument: str) -> list[str]:
    """Return the names in the argument of ``\\author``; lines below them are where they work."""
    groups = re.split(r"\\(?:and|And|AND)(?![A-Za-z])", _without_notes(argument))
    names: list[str] = []
    for group in groups:
        first = next((line for line in _LINE_END.split(group) if line.strip()), "")
        for part in _BETWEEN.split(first):
            name = _plain(part)
            if name.rstrip(".").lower() in _LONGEST_SUFFIX and names:
                names[-1] = f"{names[-1]}, {name}"
            elif _NAME.fullmatch(name) and " " in name:
                names.append(name)
    return names


def _without_notes(argument: str) -> str:
    """Return the argument without footnotes, numbers of institutes and formulas."""
    parts, at = [], 0
    for match in _BESIDE.finditer(argument):
        if match.start() < at:
            continue  # within one that is left out
        parts.append(argument[at : match.start()])
        inner = balanced(argument, match.end()) if match["brace"] else ""
        at = match.end() + len(inner) + 1 if match["brace"] and inner is not None else match.end()
    return _MARKS.sub(" ", "".join([*parts, argument[at:]]))


def _plain(text: str) -> str:
    converter = Converter(None, Notes())
    blocks = converter.blocks(" ".join(text.split()))
    blocks += converter.finish()
    return one_line("".join(block.text for block in blocks)).strip(" ,;*~")
