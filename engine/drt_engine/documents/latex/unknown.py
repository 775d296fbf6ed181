"""What commands probably do that no file at hand defines, by their names and their arguments.

A thesis keeps its macros in another file, so that its chapters are full of these. Knows LaTeX's
habits of naming, and nothing of converting.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from drt_engine.documents.latex.commands import LEVELS

Kind = Literal["drop", "heading", "reference", "unwrap", "word"]
ABBREVIATIONS = {
    "eg": "e.g.", "ie": "i.e.", "etal": "et al.", "etc": "etc.", "cf": "cf.", "wrt": "w.r.t.",
    "vs": "vs.", "aka": "a.k.a.", "viz": "viz.", "resp": "resp.",
}  # fmt: skip
_OPTION = re.compile(r"[ \t]*\[[^\[\]]{0,200}\]")
LENGTH = re.compile(r"(?:[ \t]*\[)?\s*-?[\d.]+\s*(?:pt|em|ex|cm|mm|in|bp|pc|\\[a-z]+)\s*\]?")
_HEADING = re.compile(
    r"(?!set|re|new|def|cref|the|label|name|format|title|begin|end|part(?:ial|op))"
    rf"[A-Za-z]*?(?P<level>{'|'.join(sorted(LEVELS, key=len, reverse=True))})",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"(?i)[a-z]*(?:cite(?:p|t|s|alp|alt|author|year|yearpar|title)?|refs?|refrange)"
)
# With one more level of braces in it; what is deeper is left as it is written.
_GROUP = re.compile(r"\{((?:[^{}]|\{[^{}]{0,500}\}){0,1000})\}")
_KEYS = re.compile(r"[^\s,{}\\]+(?:,\s*[^\s,{}\\]+)*")
_SETTING = re.compile(r"[^\s]*[=:/_][^\s]*")  # a key, a setting or a path
_WORD = re.compile(r"[^\W\d_]{2}")
_MOST_GROUPS = 9


class Guess(NamedTuple):
    """What becomes of a command: of ``groups`` arguments, as a heading of ``level``, a ``word``."""

    kind: Kind
    groups: int = 0
    level: int = 0
    word: str = ""


def guess(name: str, line: str, position: int) -> Guess | None:
    """Return what a command probably does whose name ends at ``position``; None where unclear."""
    groups, end = _groups(line, position)
    first = groups[0].strip() if groups else ""
    if name.lower().startswith("index"):
        return Guess("drop", len(groups))
    if groups and first:
        if heading := _HEADING.fullmatch(name):
            return Guess("heading", level=LEVELS[heading["level"].lower()])
        if _REFERENCE.fullmatch(name) and _KEYS.fullmatch(first):
            return Guess("reference", len(groups))
    if not groups:
        word = ABBREVIATIONS.get(name, "")
        return Guess("word", word=word) if word else None
    if len(groups) > 1:  # of keys and settings alone, on a line of its own
        is_alone = line.strip() == line[position - len(name) - 1 : end].strip()
        is_setting = is_alone and all(" " not in group.strip() for group in groups)
        return Guess("drop", len(groups)) if is_setting else None
    if not first:
        return Guess("word", 1, word=ABBREVIATIONS.get(name, name))
    if LENGTH.fullmatch(first):
        return Guess("drop", 1)
    is_text = _WORD.search(first) is not None and not _SETTING.fullmatch(first)
    return Guess("unwrap") if is_text else None


def _groups(line: str, position: int) -> tuple[list[str], int]:
    """Return the arguments in braces from ``position`` on, and where they end."""
    groups: list[str] = []
    while len(groups) < _MOST_GROUPS:
        while option := _OPTION.match(line, position):
            position = option.end()
        group = _GROUP.match(line, position)
        if group is None:
            break
        groups.append(group[1])
        position = group.end()
    return groups, position
