"""First pass over a page: its title, the part that holds its text, and what is left out."""

from __future__ import annotations

from collections import Counter

from drt_engine.documents.base import Notes, one_line
from drt_engine.documents.html.elements import INITIAL, VOID, Attributes, Elements, Part
from drt_engine.documents.html.parser import SafeParser
from drt_engine.documents.html.styles import Styles

# A main part with next to nothing in it is a place that a script would have filled.
_MAIN_SHARE = 0.02
# An article that holds less of the page's text is a comment or a teaser.
_ARTICLE_SHARE = 0.25
# How the words in each kind of dropped element are named; "" for what is no text.
DROPPED_NOTES = {
    "": ("", ""),
    "control": ("word in buttons or fields", "controls of the page, not its text"),
    "media": ("word in pictures or players", "the page shows other things in their place"),
    "hidden": ("hidden word", "the page does not show them"),
}


class Survey(SafeParser):
    """Measures how much text each part of a page has, and takes its title."""

    def __init__(self) -> None:
        super().__init__()
        self._elements = Elements()
        self._in_title = False
        self._sheet: list[str] | None = None  # of the style element that is open
        self._titles: list[str] = []
        self.sizes: Counter[Part] = Counter()
        self._words: Counter[Part] = Counter()
        self._dropped: Counter[str] = Counter()  # words by the kind of what drops them
        self._pictures = 0

    @property
    def title(self) -> str:
        return one_line("".join(self._titles))

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        visible = not self._elements.state.dropped
        if tag not in VOID:
            self._elements.start(tag, attrs)
        elif tag == "img" and visible:
            description = (dict(attrs).get("alt") or "").strip()
            self._pictures += bool(description) and not INITIAL.fullmatch(description)
        self._in_title = tag == "title" and visible and not self.title
        self._sheet = [] if tag == "style" else None

    def handle_startendtag(self, tag: str, attrs: Attributes) -> None:
        if tag == "img":
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self._elements.end(tag)
        self._in_title = False
        if tag == "style" and self._sheet is not None:
            self._elements.styles.read("".join(self._sheet))
            self._sheet = None

    def handle_data(self, data: str) -> None:
        if self._in_title and len(self._titles) < 64:
            self._titles.append(data[:1024])
        if self._sheet is not None:
            self._sheet.append(data)
        if data.isspace():
            return
        size, count, state = len(data) - data.count(" "), len(data.split()), self._elements.state
        if state.dropped:
            self._dropped[state.kind] += count
            return
        for part in ("main", "article", "body", "everything"):
            if state.within(part):
                self.sizes[part] += size
                self._words[part] += count

    def note(self, part: Part, notes: Notes) -> None:
        """Note the text that reading ``part`` alone leaves out."""
        around = self._words["everything"] - self._words[part]
        if around:
            notes.skip("word around the main part", "menus, headers, footers and the like", around)
        for kind, count in self._dropped.items():
            if kind:
                notes.skip(*DROPPED_NOTES[kind], count)
        if self._pictures:
            notes.skip("description of a picture", "not part of the text", self._pictures)
        if self.unfinished:
            notes.skip("end of a page", "a comment, tag or script without an end")

    @property
    def styles(self) -> Styles:
        """What the page hides, once all of it was fed."""
        if self._dropped["hidden"] > self._words["everything"]:
            self._elements.styles.clear()
        return self._elements.styles

    def part(self) -> Part | None:
        """Return the narrowest part that holds the text; None when there is no text."""
        if self.sizes["main"] > _MAIN_SHARE * self.sizes["body"]:
            return "main"
        if self.sizes["article"] > _ARTICLE_SHARE * self.sizes["body"]:
            return "article"
        if self.sizes["body"]:
            return "body"
        return "everything" if self.sizes["everything"] else None
