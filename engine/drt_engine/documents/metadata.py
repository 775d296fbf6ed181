"""Title, author and date from the heads of text files: YAML front matter, header and field lists.

Knows ``key: value`` lines in the forms that people write them; knows no format around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drt_engine.documents.base import date_of, one_line

_KEY = re.compile(r"([A-Za-z][\w .-]{0,40}?)[ \t]*:(?:[ \t]+(.*)|)\Z")
_FIELD = re.compile(r":?([A-Za-z][\w /-]{0,40}?):(?:[ \t]+(.*)|)\Z")
_ITEM = re.compile(r"[ \t]*-[ \t]+(?:name[ \t]*:[ \t]*)?(.*)")
_NAME_KEY = re.compile(r"[ \t]+name[ \t]*:[ \t]*(.*)")
_COMMENT = re.compile(r"(?<![ \t])[ \t]+#.*\Z")
_BLOCK_SCALARS = frozenset(("|", "|-", "|+", ">", ">-", ">+"))
_RELEASE = re.compile(
    r"(?i)\W*(?:version |release |v)?\d+(?:\.\d+)+(?:[\s(),:\[\]\d./-]|unreleased)*"
    r"|\W*unreleased\W*"
)
_SECTION = re.compile(
    r"(?:(?i:[ivxlc]+)[.):]|[IVXLC]{2,}|\d+(?:\.\d+)*[.):]?)\s"
    r"|(?i:overview|introduction|abstract|summary|about|description|background|contents"
    r"|table of contents|usage|install(?:ation)?|notes?)\W*\Z"
)
_LONGEST_TITLE, _MOST_TITLE_LINES = 120, 4
_GOES_ON = re.compile(r"(?i)\b(?:a|an|and|by|for|from|in|of|on|or|the|to|with)\Z|[:,\u2013-]\Z")
_TITLES = ("title",)
_AUTHORS = ("author", "authors", "by", "creator")
_DATES = ("date", "created", "published", "publication date", "release date", "updated")


@dataclass(frozen=True)
class Metadata:
    """Title, author and date as the document names them, "" where it does not; see ``date_of``."""

    title: str = ""
    author: str = ""
    date: str = ""


def metadata_of(fields: Mapping[str, str]) -> Metadata:
    """Return the metadata among fields with lower-case names."""

    def first(names: Iterable[str]) -> str:
        return next((one_line(fields[name]) for name in names if fields.get(name)), "")

    return Metadata(first(_TITLES), first(_AUTHORS), date_of(first(_DATES)))


def yaml_fields(text: str) -> dict[str, str]:
    """Return the fields of YAML front matter: scalars, folded scalars, and lists joined by commas.

    This is the part of YAML that front matter is written in; anything else is left as it is.
    """
    fields: dict[str, str] = {}
    key, value, continuation = "", "", []  # type: str, str, list[str]
    for line in [*text.split("\n"), "end:"]:
        match = _KEY.match(line)
        if match is None:
            if line[:1] in (" ", "\t", "-"):  # neither comments nor blanks
                continuation.append(line)
            continue
        if key:
            fields.setdefault(key, _yaml_value(value, continuation))
        key, value, continuation = match[1].lower(), (match[2] or "").strip(), []
    return fields


def _yaml_value(value: str, continuation: list[str]) -> str:
    if value in ("", *_BLOCK_SCALARS):
        items = [
            match[1]
            for line in continuation
            if (match := _ITEM.match(line) or _NAME_KEY.match(line))
        ]
        return ", ".join(filter(None, map(_scalar, items))) or " ".join(
            " ".join(continuation).split()
        )
    if value.startswith("[") and value.endswith("]"):
        return ", ".join(filter(None, map(_scalar, value[1:-1].split(","))))
    return _scalar(" ".join([value, *(line.strip() for line in continuation)]))


def _scalar(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1].strip()
    return _COMMENT.sub("", value)


def header_fields(lines: Iterable[str]) -> dict[str, str]:
    """Return the fields at the beginning of ``lines``, written ``Key: value`` or ``:Key: value``.

    The first line of another form ends them. Indented lines go on with the field above them.
    """
    fields: dict[str, str] = {}
    key = ""
    for line in lines:
        bare = line.rstrip()
        if key and bare[:1] in " \t" and bare:
            fields[key] = f"{fields[key]} {bare.strip()}".strip()
            continue
        match = _FIELD.match(bare)
        if match is None:
            break
        key = match[1].lower()
        fields[key] = match[2] or ""
    return fields


def names_release(heading: str) -> bool:
    """Return whether a heading is that of a release, which is no title of a list of them."""
    return _RELEASE.fullmatch(heading) is not None


def names_section(heading: str) -> bool:
    """Return whether a heading is numbered, or an "Overview": that of a section, and no title."""
    return _SECTION.match(heading) is not None


def opening_title(text: str) -> str:
    """Return the title that a text without a style for it begins with; "" where that is prose."""
    lines = [line.strip() for line in text.split("\n") if line.strip()][:_MOST_TITLE_LINES]
    if not lines:
        return ""
    last = next((n for n, line in enumerate(lines) if not _GOES_ON.search(line)), 0)
    title = one_line(" ".join(lines[: last + 1]))
    return "" if len(title) > _LONGEST_TITLE or title.endswith((".", "!", "?", ";")) else title
