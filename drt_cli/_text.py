"""Document text for human eyes: control characters escaped, white space folded, quotes marked.

And for what else text is written to: tables, Markdown, and JSON, whose values stay as they are.
"""

from __future__ import annotations

import json
import re
from typing import Any

# C0 and C1 controls can drive a terminal; bidirectional controls can show text in another order.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Lines of Markdown that are no part of a paragraph: headings, tables, quotes, lists, code.
_STRUCTURE = re.compile(r"\s|[#|>]|[*+-]\s|\d+[.)]\s|```")


def printable(text: str) -> str:
    """Return ``text`` with every control character but tab and newline as an escape."""
    return _UNSAFE.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return JSON with what could drive a terminal as escapes of JSON, which are the same values.

    JSON itself escapes C0 controls only.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _UNSAFE.sub(lambda unsafe: f"\\u{ord(unsafe.group()):04x}", text)


def one_line(text: str) -> str:
    """Return ``text`` on one line, with control characters escaped."""
    return printable(" ".join(text.split()))


def shortened(text: str, limit: int) -> str:
    """Return ``text`` on one line of at most ``limit`` characters."""
    line = one_line(text)
    return line if len(line) <= limit else line[: limit - 3].rstrip() + "..."


def marked(context: str, quote: str, *, begin: str, end: str) -> str:
    """Return the context on one line with the quote between marks, if it is in it."""
    line, plain_quote = one_line(context), one_line(quote)
    if not plain_quote or plain_quote not in line:
        return line
    from drt._items import find_words

    start = find_words(line, plain_quote)
    stop = start + len(plain_quote)
    return f"{line[:start]}{begin}{plain_quote}{end}{line[stop:]}"


def marked_blocks(text: str, span: str, *, begin: str, end: str) -> str:
    """Return text with the span between marks, each paragraph and item on a line of its own.

    A span of several items has marks in each of them.
    """
    from drt._items import split_items

    spans = split_items(span)  # those that are not marked yet
    lines: list[str] = []
    for item in split_items(text):
        line = one_line(item)
        lines.append(marked(item, spans[0], begin=begin, end=end) if spans else line)
        if lines[-1] != line:
            del spans[0]
    return "\n".join(lines)


def blocks(text: str) -> str:
    """Return text with each paragraph and item on a line of its own."""
    return marked_blocks(text, "", begin="", end="")


def reflowed(text: str) -> str:
    """Return Markdown with each paragraph on one line, so that it can be wrapped anew."""
    lines: list[str] = []
    in_paragraph = in_code = False
    for line in text.split("\n"):
        plain = bool(line) and not in_code and not _STRUCTURE.match(line)
        if plain and in_paragraph:
            lines[-1] += f" {line}"
        else:
            lines.append(line)
        in_paragraph = plain
        in_code ^= line.startswith("```")
    return "\n".join(lines)


def csv_cell(text: str) -> str:
    """Return ``text`` as a table's cell that no spreadsheet takes for a formula."""
    plain = printable(text)
    return f"'{plain}" if plain.lstrip()[:1] in tuple("=+-@|%") else plain


def markdown(text: str) -> str:
    """Return ``text`` on one line of Markdown, with its special characters escaped."""
    line = re.sub(r"([\\`*_{}\[\]()<>#|~&])", r"\\\1", one_line(text))
    # Elsewhere these are but letters; handles of citations are to be copied from here.
    return re.sub(r"^(\d*)([-+=.])", r"\1\\\2", line)
