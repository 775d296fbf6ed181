"""Which elements a page's own style hides: ``display: none`` and ``visibility: hidden``.

Reads ``style`` attributes, and rules of ``<style>`` elements whose selector is a class, an id or an
element; what depends on the device (``@media``) or on scripts is not followed.
"""

from __future__ import annotations

import re

_LONGEST = 1 << 18  # characters of style sheets
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RULE = re.compile(r"(?<![^{}])([^{}]*)\{([^{}]*)\}")
_HIDING = re.compile(
    r"(?i)(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))\b"
)
_SHOWING = re.compile(r"(?i)(?:^|[;\s])(?:display|visibility)\s*:")
_SELECTOR = re.compile(r"[a-zA-Z][\w-]*|(?:[a-zA-Z][\w-]*)?[.#][\w-]+")


class Styles:
    """The selectors whose elements a page hides."""

    def __init__(self) -> None:
        self._hidden: set[str] = set()
        self._size = 0

    def read(self, sheet: str) -> None:
        """Take the rules of a style sheet; a later rule goes before an earlier one."""
        self._size += len(sheet)
        if self._size > _LONGEST:
            return
        for selectors, declarations in _RULE.findall(_without_blocks(_COMMENT.sub(" ", sheet))):
            for selector in map(str.strip, selectors.split(",")):
                if not _SELECTOR.fullmatch(selector):
                    continue
                if _HIDING.search(declarations):
                    self._hidden.add(selector)
                elif _SHOWING.search(declarations):
                    self._hidden.discard(selector)

    def clear(self) -> None:
        """Forget the rules: a page that hides most of its text shows it by a script."""
        self._hidden.clear()

    def hides(self, tag: str, attributes: dict[str, str | None]) -> bool:
        """Return whether an element is hidden by its own style or by a rule."""
        style = attributes.get("style")
        if style and _SHOWING.search(style):
            return _HIDING.search(style) is not None
        if not self._hidden:
            return False
        marks = [f".{name}" for name in (attributes.get("class") or "").split()]
        if name := attributes.get("id"):
            marks.append(f"#{name.strip()}")
        return tag in self._hidden or any(
            mark in self._hidden or tag + mark in self._hidden for mark in marks
        )


def _without_blocks(sheet: str) -> str:
    """Return a style sheet without its ``@`` rules and what is in them."""
    parts, at = [], 0
    while (begin := sheet.find("@", at)) >= 0:
        parts.append(sheet[at:begin])
        depth, at = 0, begin
        while at < len(sheet):
            character = sheet[at]
            at += 1
            depth += (character == "{") - (character == "}")
            if depth == 0 and character in ";}":
                break
    return "".join([*parts, sheet[at:]])
