"""Tells boilerplate, which a publisher puts around all of its texts, from a document's own text.

Knows lines of text; knows nothing of formats and libraries.
"""

from __future__ import annotations

import re

GUTENBERG_HEAD = 20_000  # characters from the start in which a header ends
GUTENBERG_TAIL = 40_000  # characters before the end in which the licence begins

_GUTENBERG = re.compile(r"Project\s+Gutenberg", re.IGNORECASE)
_START = re.compile(
    r"\*\*\* ?START OF (?:THE|THIS) PROJECT GUTENBERG[^*]{0,400}\*\*\*|\*END[* ]*THE SMALL PRINT.*",
    re.IGNORECASE,
)
_END = re.compile(
    r"\*\*\* ?END OF (?:THE|THIS) PROJECT GUTENBERG|^End of (?:the )?Project Gutenberg",
    re.IGNORECASE | re.MULTILINE,
)
_LINE = re.compile(
    r"this page (?:is |was )?(?:intentionally )?(?:left )?(?:intentionally )?blank\.?"
    r"|(?:skip|jump|go|back) to (?:the )?(?:main )?(?:content|navigation|search|top)\b.{0,20}"
    r"|(?:accept|reject|manage|we use) (?:all )?cookies\b.{0,60}"
    r"|all rights reserved\.?|previous|next|home|menu|search|print|share|log ?in|sign in|sign up"
    r"|permalink|\[?edit\]?",
    re.IGNORECASE,
)


def is_boilerplate_line(line: str) -> bool:
    """Return whether a line alone is a menu's or a page's, not the document's."""
    return len(line) < 100 and _LINE.fullmatch(" ".join(line.split())) is not None


def end_of_header(head: str) -> int:
    """Return where the header of Project Gutenberg ends in a text's first characters, else 0."""
    match = _START.search(head) if _GUTENBERG.search(head[:2000]) else None
    return match.end() if match else 0


def start_of_licence(tail: str) -> int | None:
    """Return where the licence of Project Gutenberg begins in a text's last characters."""
    match = _END.search(tail)
    return match.start() if match else None
