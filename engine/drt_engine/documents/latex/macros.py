"""The macros that a LaTeX file defines plainly in its preamble."""

from __future__ import annotations

import re
from dataclasses import dataclass

from drt_engine.documents.latex.commands import BUILT_IN

_DEFINITION = re.compile(
    r"\\(?:re|provide)?(?:newcommand|DeclareRobustCommand|command)\*?\s{0,9}"
    r"(?:\{\s{0,9}\\([A-Za-z]+)\s{0,9}\}|\\([A-Za-z]+))\s{0,9}"
    r"(?:\[([1-9])\]\s{0,9}(?:\[([^\[\]]{0,200})\])?)?\s{0,9}\{"
    r"|\\def\s{0,9}\\([A-Za-z]+)((?:\#[1-9]){0,9})\s{0,9}\{"
)
PARAMETER = re.compile(r"#([1-9])")
COMMENT = re.compile(r"(?<!\\)%.*\n?")
_BODY_CHARACTERS = 2000


@dataclass(frozen=True)
class Macro:
    """A command that the file defines: its text with #1 to #9, of which the first may be left
    out.
    """

    arguments: int
    default: str | None  # of the first argument, which then stands in brackets
    text: str
    spaced: bool  # a space after it is one, as the package xspace has it


def definitions(preamble: str) -> dict[str, Macro]:
    """The macros that a preamble defines, the last definition of each."""
    preamble = COMMENT.sub("", preamble)
    macros: dict[str, Macro] = {}
    for found in _DEFINITION.finditer(preamble):
        body = balanced(preamble, found.end())
        name = found[1] or found[2] or found[5]
        if body is None or name in BUILT_IN or "\\newcommand" in body or "\\def" in body:
            continue
        count = int(found[3] or 0) if found[5] is None else len(found[6]) // 2
        if all(int(number) <= count for number in PARAMETER.findall(body)):
            text = re.sub(r"\s+", " ", body.replace("\\xspace", ""))
            macros[name] = Macro(count, found[4], text, "\\xspace" in body)
    return macros


def balanced(text: str, start: int) -> str | None:
    """The text from `start` to the brace that ends it; None where it is long or without end."""
    depth, at = 1, start
    while at < min(len(text), start + _BODY_CHARACTERS):
        sign = text[at]
        at += 2 if sign == "\\" else 1
        depth += (sign == "{") - (sign == "}")
        if not depth:
            return text[start : at - 1]
    return None
