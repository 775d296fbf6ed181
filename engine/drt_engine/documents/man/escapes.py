"""Roff's escapes as the characters that they print, and the arguments of its macros.

Knows a line at a time; fonts, sizes and movements print nothing.
"""

from __future__ import annotations

import re
import sys
import unicodedata

_NAMED = {
    "aq": "'", "cq": "\u2019", "oq": "\u2018", "lq": "\u201c", "rq": "\u201d", "dq": '"',
    "em": "\u2014", "en": "\u2013", "hy": "-", "mi": "\u2212", "bu": "\u2022", "co": "\u00a9",
    "rg": "\u00ae", "tm": "\u2122", "de": "\u00b0", "ha": "^", "ti": "~", "rs": "\\", "ga": "`",
    "at": "@", "sh": "#", "Do": "$", "lB": "[", "rB": "]", "lC": "{", "rC": "}", "la": "\u27e8",
    "ra": "\u27e9", "sl": "/", "ba": "|", "br": "|", "ul": "_", "sc": "\u00a7", "dg": "\u2020",
    "mu": "\u00d7", "+-": "\u00b1", "<=": "\u2264", ">=": "\u2265", "!=": "\u2260", "->": "\u2192",
    "<-": "\u2190", "mc": "\u00b5", "Fo": "\u00ab", "Fc": "\u00bb", "Eu": "\u20ac", "ss": "\u00df",
    "Aq": "'", "R": "\u00ae", "Tm": "\u2122", "Lt": "<", "Gt": ">", "Am": "&", "Ba": "|",
    "Le": "\u2264", "Ge": "\u2265", "Ne": "\u2260", "Pm": "\u00b1", "q": '"', "Lq": "\u201c",
    "Rq": "\u201d",
}  # fmt: skip
_ACCENTS = {":": "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303"}
_SINGLE = {
    **dict.fromkeys("&|^/,%:)zcdurpa{}!", ""),
    **dict.fromkeys(" ~0", " "),
    "t": "\t",
    **{"-": "-", "e": "\\", "\\": "\\", "E": "\\", "'": "'", "`": "`", ".": ".", "_": "_"},
}
_ESCAPE = re.compile(
    r"\\(?:\((?P<two>..)|\[(?P<long>[^\]\n]{0,99})\]"
    r"|\*(?:\((?P<string_two>..)|\[(?P<string_long>[^\]\n]{0,99})\]|(?P<string>.))"
    r"|(?:[fFmMgkn][+-]?|s[+-]?)(?:\(..|\[[^\]\n]{0,99}\]|\d{1,2}(?=[^\d])|.)"
    r"|N'(?P<number>\d{1,7})'|C'(?P<quoted>[^'\n]{0,99})'"
    r"|[hvwlLDbXoNRASHBZ]'(?P<argument>[^'\n]{0,999})'"
    r"|(?P<single>.)|\Z)"
)
_NAMES = ("two", "long", "quoted", "string_two", "string_long", "string")
_COMMENT = re.compile(r"\\[\"#].*")
_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|((?:\\.|[^\s"\\])(?:\\.|[^\s\\])*)')


def plain(text: str) -> str:
    """Return a line of roff as it is printed, without its comment."""
    return _ESCAPE.sub(_printed, _COMMENT.sub("", text)) if "\\" in text else text


def arguments(text: str) -> list[str]:
    """Return the arguments of a macro, their escapes as they are: quotation marks hold words."""
    return [argument for argument, _ in marked_arguments(text)]


def marked_arguments(text: str) -> list[tuple[str, bool]]:
    """Return the arguments of a macro, each with whether it is in quotation marks."""
    return [
        (match[2], False) if match[1] is None else (match[1].replace('""', '"'), True)
        for match in _ARGUMENT.finditer(_COMMENT.sub("", text))
    ]


def _printed(match: re.Match[str]) -> str:
    name = next((match[g] for g in _NAMES if match[g]), None)
    if match["number"]:
        return _printable(int(match["number"]))
    if name is not None:
        return _character(name)
    single = match["single"]
    return "" if single is None else _SINGLE.get(single, single)


def _character(name: str) -> str:
    """Return the character of a name, "" where it is not known: "aq", "u2019", ":o"."""
    if name in _NAMED:
        return _NAMED[name]
    if re.fullmatch(r"u[0-9A-F]{4,6}(_[0-9A-F]{4,6})*", name):
        parts = (_printable(int(code, 16)) for code in name[1:].split("_"))
        return unicodedata.normalize("NFC", "".join(parts))
    if re.fullmatch(r"char\d{1,7}", name):
        return _printable(int(name[4:]))
    if len(name) == 2 and name[0] in _ACCENTS and name[1].isalpha():
        return unicodedata.normalize("NFC", name[1] + _ACCENTS[name[0]])
    return ""


def _printable(code: int) -> str:
    """Return a character, "" for what prints none: surrogates, controls, codes beyond the last."""
    character = chr(code) if code <= sys.maxunicode else ""
    return character if character.isprintable() else ""
