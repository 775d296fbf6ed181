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
    """A command that the file defines: its text with #1 to #9 for its arguments.

    The first argument may be left out where it has a default.
    """

    arguments: int
    default: str | None  # of the first argument, which is in brackets then
    text: str
    spaced: bool  # a space after it is one, as the package xspace has it


def definitions(preamble: str) -> dict[str, Macro]:
    """Return the macros that a preamble defines, the last definition of each."""
    preamble = COMMENT.sub("", preamble)
    macros: dict[str, Macro] = {}
    for match in _DEFINITION.finditer(preamble):
        body = balanced(preamble, match.end())
        name = match[1] or match[2] or match[5]
        if body is None or name in BUILT_IN or "\\newcommand" in body or "\\def" in body:
            continue
        count = int(match[3] or 0) if match[5] is None else len(match[6]) // 2
        # A parameter beyond the arguments is of an inner definition: such a macro is left as it is.
        if all(int(number) <= count for number in PARAMETER.findall(body)):
            text = re.sub(r"\s+", " ", body.replace("\\xspace", ""))
            macros[name] = Macro(count, match[4], text, "\\xspace" in body)
    return macros


def balanced(text: str, start: int) -> str | None:
    """Return the text from ``start`` to its closing brace; None where that is far or missing."""
    depth, position = 1, start
    while position < min(len(text), start + _BODY_CHARACTERS):
        character = text[position]
        position += 2 if character == "\\" else 1
        depth += (character == "{") - (character == "}")
        if not depth:
            return text[start : position - 1]
    return None
