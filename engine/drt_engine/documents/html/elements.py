"""Which elements are open and what that makes of their text: main part, menu, dropped.

Knows the kinds of HTML elements; knows nothing of how their text is laid out.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from drt_engine.documents.base import words
from drt_engine.documents.html.styles import Styles

Part = Literal["main", "article", "body", "everything"]
Attributes = list[tuple[str, str | None]]
# An initial drawn as a picture, perhaps with a quotation mark: the paragraph's first letter.
INITIAL = re.compile(r"[\"'“‘«]?[^\W\d_]")

VOID = words("area base br col embed hr img input link meta param source track wbr")
_NO_TEXT = words("script style title")
_CONTROLS = words("button select option optgroup textarea datalist progress meter")
_MEDIA = words("svg iframe object canvas audio video map annotation annotation-xml")
_HIDDEN = words("template noscript")
_DROPPED = _NO_TEXT | _CONTROLS | _MEDIA | _HIDDEN
_BOILERPLATE = frozenset(("nav", "header", "footer", "aside"))
_LANDMARKS = _BOILERPLATE | {"main", "article"}
_BOILERPLATE_ROLES = frozenset(("navigation", "banner", "contentinfo", "complementary", "search"))
_CONTAINERS = words(
    "html head body div section main article table ul ol dl form figure blockquote details "
    "fieldset span a"
)
STRUCK = frozenset(("del", "s", "strike"))
_ROOTS = frozenset(("main", "article", "body", "html"))
_END_IMPLIED = words("p li dt dd tr td th option")
HEADINGS = {f"h{level}": level for level in range(1, 7)}
LISTS = frozenset(("ul", "ol", "menu"))
CELLS = frozenset(("td", "th"))
SOFT = words("p div center address")  # within a cell of a table only a space
BLOCKS = SOFT | LISTS | _BOILERPLATE | HEADINGS.keys() | words(
    "html head body section main article table thead tbody tfoot tr caption dl dt dd li form "
    "fieldset legend figure figcaption blockquote details summary pre hr hgroup dialog"
)  # fmt: skip

_PAGE_KINDS = frozenset(("pagebreak", "doc-pagebreak"))
_PAGE_CLASSES = frozenset(("pagenum", "pageno", "page-number"))
_NOTES = frozenset(("footnote", "endnote", "rearnote", "doc-footnote", "doc-endnote"))
_NOTE_KINDS = frozenset(("noteref", "doc-noteref"))
PAGE_NUMBER = re.compile(r"[^0-9]*([1-9][0-9]{0,4})[^0-9]*")


def is_page_mark(attributes: dict[str, str | None]) -> bool:
    """Return whether an element only says where a page of the printed book begins."""
    kinds = f"{attributes.get('epub:type') or ''} {attributes.get('role') or ''}"
    classes = attributes.get("class") or ""
    return bool(words(kinds) & _PAGE_KINDS or words(classes.lower()) & _PAGE_CLASSES)


def page_of(attributes: dict[str, str | None]) -> int | None:
    """Return the printed page that a mark names in its title, label or id."""
    for name in ("title", "aria-label", "id"):
        if match := PAGE_NUMBER.fullmatch(attributes.get(name) or ""):
            return int(match[1])
    return None


def note_link(attributes: dict[str, str | None]) -> str | None:
    """Return how a link leads to a note: "named" so, "raised" if that is where it is, or not."""
    kinds = f"{attributes.get('epub:type') or ''} {attributes.get('role') or ''}"
    if words(kinds.lower()) & _NOTE_KINDS:
        return "named"
    return "raised" if "#" in (attributes.get("href") or "") else None


@dataclass(frozen=True)
class _State:
    """What the open elements make of the text inside them: dropped, boilerplate, main part."""

    dropped: bool = False
    kind: str = ""  # of what is dropped, a key of ``survey.DROPPED_NOTES``
    boilerplate: bool = False
    main: bool = False
    article: bool = False

    def enter(self, tag: str, attributes: dict[str, str | None], styles: Styles) -> _State:
        """Return the state within an element of this one."""
        if self.dropped or not (
            attributes or tag in _DROPPED or tag in _LANDMARKS or styles.hides(tag, attributes)
        ):
            return self
        role = (attributes.get("role") or "").lower()
        hidden = (
            "hidden" in attributes
            or attributes.get("aria-hidden") == "true"
            or styles.hides(tag, attributes)
        )
        permalink = "headerlink" in (attributes.get("class") or "").split()
        boilerplate = tag == "nav" or role in _BOILERPLATE_ROLES
        is_note = bool(words(f"{attributes.get('epub:type') or ''} {role}") & _NOTES)
        # The header of an article is its title; the header of a page is not text.
        if tag in _BOILERPLATE and not (self.main or self.article or is_note):
            boilerplate = True
        return replace(
            self,
            dropped=tag in _DROPPED or hidden or permalink or is_page_mark(attributes),
            kind=_dropped_kind(tag, hidden=hidden),
            boilerplate=self.boilerplate or boilerplate,
            main=self.main or tag == "main" or role == "main",
            article=self.article or tag == "article",
        )

    def within(self, part: Part) -> bool:
        """Return whether text in this state belongs to a part of the page."""
        if self.dropped:
            return False
        if part == "everything" or self.boilerplate:
            return part == "everything"
        return part == "body" or (self.main if part == "main" else self.article)


def _dropped_kind(tag: str, *, hidden: bool) -> str:
    if tag in _NO_TEXT:
        return ""
    if tag in _CONTROLS:
        return "control"
    return "media" if tag in _MEDIA else "hidden" * (hidden or tag in _HIDDEN)


class Elements:
    """A stack of the open elements that matter, and their state; forgives missing end tags."""

    def __init__(self, styles: Styles | None = None) -> None:
        self.styles = styles or Styles()
        self._stack: list[tuple[str, _State]] = []
        self._open: Counter[str] = Counter()
        self.state = _State()

    def start(self, tag: str, attributes: Attributes) -> None:
        """Open an element, ending those that it may not be within."""
        if self._stack and tag in _END_IMPLIED and self._stack[-1][0] == tag:
            self._pop()
        if tag in BLOCKS:
            self.end("title")  # nothing in a page may be hidden by a title without an end
        if tag == "body":
            self.end("head")
        state = self.state.enter(tag, dict(attributes), self.styles)
        if tag in _CONTAINERS or state.dropped or state != self.state:
            self._stack.append((tag, state))
            self._open[tag] += 1
            self.state = state

    def end(self, tag: str) -> None:
        """Close the innermost element of a name with all in it; ignore a tag without a start."""
        if not self._open[tag]:
            return
        if tag not in _ROOTS and self._crosses_root(tag):
            return  # one </div> too many must not end the main text
        while self._pop() != tag:
            pass

    def _crosses_root(self, tag: str) -> bool:
        for name, _ in reversed(self._stack):
            if name == tag:
                return False
            if name in _ROOTS:
                return True
        return False

    def _pop(self) -> str:
        tag, _ = self._stack.pop()
        self._open[tag] -= 1
        self.state = self._stack[-1][1] if self._stack else _State()
        return tag
