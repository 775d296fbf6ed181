"""Reads HTML: title, main text as paragraphs, lists and table rows, headings as sections.

Knows elements, not style sheets or scripts; takes any broken markup without complaint.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import unescape
from html.parser import HTMLParser
from typing import Literal

from drt_engine.documents.base import (
    Block,
    Notes,
    OpenDocument,
    Source,
    one_line,
    regroup,
    words,
)
from drt_engine.documents.readers.text import characters, empty, find_encoding
from drt_engine.documents.writer import BlockWriter, tidy

Part = Literal["main", "article", "body", "everything"]
Attributes = list[tuple[str, str | None]]

# A main part with next to nothing in it is a place that a script would have filled.
_MAIN_SHARE = 0.02
# An article that holds less of the page's text is a comment or a teaser.
_ARTICLE_SHARE = 0.25
_PARAGRAPH_CHARACTERS = 32768
_UNFINISHED_CHARACTERS = 1 << 16
_LAYOUT_CELL_CHARACTERS = 200

_DEEPEST_INDENT = 16  # of lists in lists: what is deeper is hostile
# An initial drawn as a picture, perhaps with a quotation mark: the paragraph's first letter.
_INITIAL = re.compile(r"[\"'“‘«]?[^\W\d_]")
_ONE_LETTER_WORDS = frozenset("AIOÀÉÓY")

_VOID = words("area base br col embed hr img input link meta param source track wbr")
_NO_TEXT = words("script style title")
_CONTROLS = words("button select option optgroup textarea datalist progress meter")
_MEDIA = words("svg iframe object canvas audio video map annotation annotation-xml")
_HIDDEN = words("template noscript")
_DROPPED = _NO_TEXT | _CONTROLS | _MEDIA | _HIDDEN
# How the words are named that each kind of dropped element takes along; "" for what is no text.
_DROPPED_NOTES = {
    "": ("", ""),
    "control": ("word in buttons or fields", "controls of the page, not its text"),
    "media": ("word in pictures or players", "the page shows other things in their place"),
    "hidden": ("hidden word", "the page does not show them"),
}
_BOILERPLATE = frozenset(("nav", "header", "footer", "aside"))
_LANDMARKS = _BOILERPLATE | {"main", "article"}
_BOILERPLATE_ROLES = frozenset(("navigation", "banner", "contentinfo", "complementary", "search"))
_CONTAINERS = words(
    "html head body div section main article table ul ol dl form figure blockquote details "
    "fieldset span a"
)
_ROOTS = frozenset(("main", "article", "body", "html"))
_END_IMPLIED = words("p li dt dd tr td th option")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = frozenset(("ul", "ol", "menu"))
_CELLS = frozenset(("td", "th"))
_SOFT = words("p div center address")  # within a cell of a table only a space
_BLOCKS = _SOFT | _LISTS | _BOILERPLATE | _HEADINGS.keys() | words(
    "html head body section main article table thead tbody tfoot tr caption dl dt dd li form "
    "fieldset legend figure figcaption blockquote details summary pre hr hgroup dialog"
)  # fmt: skip

_PAGE_KINDS = frozenset(("pagebreak", "doc-pagebreak"))
_PAGE_CLASSES = frozenset(("pagenum", "pageno", "page-number"))
_PAGE_NUMBER = re.compile(r"[^0-9]*([1-9][0-9]{0,4})[^0-9]*")

_SPACE = re.compile(r"[ \t\n\f\r]{2,}|[\t\n\f\r]")  # all but single spaces, for speed
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"""^<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""")
_UNFINISHED = re.compile(r"""<[!?]|<[a-zA-Z][^<]*=\s*["']""")
_TAG_NAME = re.compile(r"</?[a-zA-Z][^\s/>]{0,64}")
_QUOTED = re.compile(r"""=\s*(?:"[^"]*"|'[^']*')""")
_QUOTE = re.compile(r"""(?<==)\s*["']""")
_START = re.compile(rb"(?:<\?xml[^>]*>|<!--.*?-->|\s)*<(?:!doctype\s+html|html)\b", re.I | re.S)


class _SafeParser(HTMLParser):
    """The standard parser without its exceptions, and with a bound on what it holds back."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._shortened = ""  # what still waits for its end after losing its middle
        self.unfinished = False  # the page ends in a comment, tag or script

    def parse_html_declaration(self, i: int) -> int:
        if self.rawdata.startswith("<![", i):  # the standard parser asserts on unknown sections
            return self.parse_bogus_comment(i)
        return super().parse_html_declaration(i)

    def feed_bounded(self, text: str) -> None:
        """Feed, shortening a tag, comment or script that does not end: it is no text anyway."""
        self.feed(text)
        if len(self.rawdata) > _UNFINISHED_CHARACTERS:
            self.rawdata = self._shortened = self._shorten()
        elif not self.rawdata.startswith(self._shortened):
            self._shortened = ""

    def _shorten(self) -> str:
        """What is waiting, with all gone that does not decide where it ends."""
        waiting = self.rawdata
        if self.cdata_elem is not None:
            return waiting[-32:]
        if waiting.startswith("<!--"):
            return "<!--" + waiting[-3:]
        tag = _TAG_NAME.match(waiting)
        if tag is None:
            return waiting[:2]
        quote = _QUOTE.search(_QUOTED.sub("", waiting))
        return f"{tag[0]} x={quote[0]}" if quote else f"{tag[0]} "

    def finish(self) -> None:
        """Close, dropping a comment or tag that has no end; "a <b" at the end remains text."""
        scripts = self.cdata_elem is not None and bool(self.rawdata.strip())
        if self._shortened or scripts or _UNFINISHED.match(self.rawdata):
            self.unfinished = True
            self.rawdata = ""
        elif ">" not in self.rawdata:
            # Nothing here can be a tag. The standard parser would look for the end of each "<"
            # anew, which takes hours for a file of them.
            rest, self.rawdata = self.rawdata, ""
            if rest:
                self.handle_data(unescape(rest))
        self.close()


def is_page_mark(attributes: dict[str, str | None]) -> bool:
    """Whether an element only says where a page of the printed book begins."""
    kinds = f"{attributes.get('epub:type') or ''} {attributes.get('role') or ''}"
    classes = attributes.get("class") or ""
    return bool(words(kinds) & _PAGE_KINDS or words(classes.lower()) & _PAGE_CLASSES)


def page_of(attributes: dict[str, str | None]) -> int | None:
    """The printed page that a mark names in its title, label or id."""
    for name in ("title", "aria-label", "id"):
        if found := _PAGE_NUMBER.fullmatch(attributes.get(name) or ""):
            return int(found[1])
    return None


@dataclass(frozen=True)
class _State:
    """What the open elements make of the text inside them."""

    dropped: bool = False
    kind: str = ""  # of what is dropped, a key of _DROPPED_NOTES
    boilerplate: bool = False
    main: bool = False
    article: bool = False

    def enter(self, tag: str, attributes: dict[str, str | None]) -> _State:
        if self.dropped or not (attributes or tag in _DROPPED or tag in _LANDMARKS):
            return self
        role = (attributes.get("role") or "").lower()
        hidden = "hidden" in attributes or attributes.get("aria-hidden") == "true"
        permalink = "headerlink" in (attributes.get("class") or "").split()
        boilerplate = tag == "nav" or role in _BOILERPLATE_ROLES
        if tag in _BOILERPLATE and not (self.main or self.article):
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


class _Elements:
    """The open elements that matter, and the state they give; forgives missing end tags."""

    def __init__(self) -> None:
        self._stack: list[tuple[str, _State]] = []
        self._open: Counter[str] = Counter()
        self.state = _State()

    def start(self, tag: str, attributes: Attributes) -> None:
        if self._stack and tag in _END_IMPLIED and self._stack[-1][0] == tag:
            self._pop()
        if tag in _BLOCKS:
            self.end("title")  # nothing in a page may be hidden by a title without an end
        if tag == "body":
            self.end("head")
        state = self.state.enter(tag, dict(attributes))
        if tag in _CONTAINERS or state.dropped or state != self.state:
            self._stack.append((tag, state))
            self._open[tag] += 1
            self.state = state

    def end(self, tag: str) -> None:
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


class _Survey(_SafeParser):
    """First pass: where the text of a page is, and its title."""

    def __init__(self) -> None:
        super().__init__()
        self._elements = _Elements()
        self._in_title = False
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
        if tag not in _VOID:
            self._elements.start(tag, attrs)
        elif tag == "img" and visible:
            description = (dict(attrs).get("alt") or "").strip()
            self._pictures += bool(description) and not _INITIAL.fullmatch(description)
        self._in_title = tag == "title" and visible and not self.title

    def handle_startendtag(self, tag: str, attrs: Attributes) -> None:
        if tag == "img":
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self._elements.end(tag)
        self._in_title = False

    def handle_data(self, data: str) -> None:
        if self._in_title and len(self._titles) < 64:
            self._titles.append(data[:1024])
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
        """Count and name the text that reading `part` alone passes over."""
        around = self._words["everything"] - self._words[part]
        if around:
            notes.skip("word around the main part", "menus, headers, footers and the like", around)
        for kind, count in self._dropped.items():
            if kind:
                notes.skip(*_DROPPED_NOTES[kind], count)
        if self._pictures:
            notes.skip("description of a picture", "not part of the text", self._pictures)
        if self.unfinished:
            notes.skip("end of a page", "a comment, tag or script without an end")

    def part(self) -> Part | None:
        """The narrowest part that holds the text; None when there is no text."""
        if self.sizes["main"] > _MAIN_SHARE * self.sizes["body"]:
            return "main"
        if self.sizes["article"] > _ARTICLE_SHARE * self.sizes["body"]:
            return "article"
        if self.sizes["body"]:
            return "body"
        return "everything" if self.sizes["everything"] else None


class _Extractor(_SafeParser):
    """Second pass: writes the text of one part of the page."""

    def __init__(self, part: Part) -> None:
        super().__init__()
        self.writer = BlockWriter()
        self._part: Part = part
        self._elements = _Elements()
        self._inline: list[str] = []
        self._size = 0
        self._blank = True  # nothing but white space is collected
        self._initial = ""  # a picture of the paragraph's first letter, waiting for the rest
        self._continues = False  # the paragraph was too long and its beginning is written
        self._pre = False
        self._heading: int | None = None
        self._lists: list[int | None] = []  # the next number of an ordered list
        self._bullet: str | None = None
        self._cells: list[str] | None = None
        self._grouped = False  # in an hgroup, whose headings are one
        self._page: int | None = None  # of the printed book
        self._first_page: int | None = None  # where the collected text begins
        self._reads_page = False

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        if tag == "br":
            self._add(" " if self._cells is not None or self._grouped else "\n")
        elif tag in _BLOCKS or tag in _CELLS:
            self._initial = ""
            self._border(tag)
        if tag not in _VOID:
            self._elements.start(tag, attrs)
        attributes = dict(attrs)
        if is_page_mark(attributes):
            self._page = page_of(attributes) or self._page
            self._reads_page = page_of(attributes) is None
        if self._elements.state.within(self._part):
            self._enter(tag, attributes)

    def handle_startendtag(self, tag: str, attrs: Attributes) -> None:
        if tag in _VOID:
            self.handle_starttag(tag, attrs)
        elif is_page_mark(attributes := dict(attrs)):  # <span epub:type="pagebreak" ... />
            self._page = page_of(attributes) or self._page

    def handle_endtag(self, tag: str) -> None:
        if tag == "hgroup":
            self._grouped = False
        if tag in _BLOCKS and tag not in _CELLS:
            self._border(tag)
        if tag in _HEADINGS and not self._grouped:
            self._heading = None
        elif tag == "pre":
            self._pre = False
        elif tag == "li":
            self._bullet = None
        elif tag in _LISTS and self._lists and self._elements.state.within(self._part):
            self._lists.pop()
        self._elements.end(tag)

    def handle_data(self, data: str) -> None:
        if self._reads_page and (found := _PAGE_NUMBER.fullmatch(data)):
            self._page, self._reads_page = int(found[1]), False
        if not self._elements.state.within(self._part):
            return
        if self._initial:
            data = _with_initial(self._initial, data)
            self._initial = ""
        self._add(data if self._pre else _SPACE.sub(" ", data))
        if self._size > _PARAGRAPH_CHARACTERS:
            self._flush(ends=False)

    def _enter(self, tag: str, attributes: dict[str, str | None]) -> None:
        if tag == "img" and self._blank and not self._continues:
            description = (attributes.get("alt") or "").strip()
            self._initial = description if _INITIAL.fullmatch(description) else ""
        elif tag in _HEADINGS:
            first = self._heading if self._grouped else None
            self._heading = _HEADINGS[tag] if first is None else min(first, _HEADINGS[tag])
        elif tag == "hgroup":
            self._grouped = True
        elif tag == "pre":
            self._pre = True
        elif tag in _CELLS:
            self._cells = self._cells if self._cells is not None else []
        elif tag in _LISTS:
            start = attributes.get("start") or ""
            first = int(start) if start.isdecimal() and len(start) < 9 else 1
            self._lists.append(first if tag == "ol" else None)
        elif tag == "li":
            self._bullet = self._next_bullet()

    def _next_bullet(self) -> str:
        number = self._lists[-1] if self._lists else None
        if number is None:
            return "- "
        self._lists[-1] = number + 1
        return f"{number}. "

    def _border(self, tag: str) -> None:
        """A block begins or ends: write what came before it."""
        if self._grouped:
            self._add(" ")
        elif self._cells is None:
            self._flush()
        elif tag in _CELLS:
            self._cells.append(self._take())
        elif tag in _SOFT and self._size < _LAYOUT_CELL_CHARACTERS:
            self._add(" ")
        else:
            self._flush()

    def _add(self, text: str) -> None:
        if self._blank:
            self._first_page = self._page
            self._blank = not text or text.isspace()
        self._inline.append(text)
        self._size += len(text)

    def _take(self, *, ends: bool = True) -> str:
        """The collected text, laid out; white space at the end waits for more if not `ends`."""
        text = "".join(self._inline)
        self._inline, self._size, self._blank = [], 0, True
        edge = "\n" if self._pre else None
        text = text if self._pre else tidy(text)
        text = text if self._continues else text.lstrip(edge)
        kept = text if self._pre and not ends else text.rstrip(edge)
        if not ends:
            self._add(text[len(kept) :])
        return kept

    def _flush(self, *, ends: bool = True) -> None:
        kind, text = self._piece(ends=ends)
        if text.strip() or (text and self._continues):
            self.writer.page = self._first_page
            # A heading is one line: what follows an unclosed one is text again.
            self.writer.write(kind, text, self._heading)
            self._heading = None
            self._continues = True
        self._continues = self._continues and not ends

    def _piece(self, *, ends: bool) -> tuple[str, str]:
        text = self._take(ends=ends)
        cells, self._cells = self._cells, None
        if self._continues:
            return "rest", text
        if cells is not None:
            return "row", " | ".join([*cells, text]) if text or any(cells) else ""
        if not text.strip() or not (self._lists or self._bullet):
            return "paragraph", text
        indent = "  " * min(max(0, len(self._lists) - 1), _DEEPEST_INDENT)
        bullet, self._bullet = self._bullet, None
        return "item", indent + (bullet or "  ") + text


def _with_initial(initial: str, text: str) -> str:
    """Text with its first letter, where that was a picture and this goes on the word."""
    letter = initial[-1]
    goes_on = text[:1].isalpha() or text[:1] in "'’"
    if letter.isupper() and (goes_on or (letter in _ONE_LETTER_WORDS and text[:1].isspace())):
        return initial + text
    return text


def _declared(source: Source) -> str | None:
    with source.open() as file:
        head = file.read(2048)
    found = _XML_ENCODING.search(head) or _CHARSET.search(head)
    return found[1].decode("ascii", "replace") if found else None


def _survey(source: Source, encoding: str) -> _Survey:
    survey = _Survey()
    for text in characters(source, encoding):
        survey.feed_bounded(text)
    survey.finish()
    return survey


def _pieces(source: Source, encoding: str, part: Part) -> Iterator[Block]:
    extractor = _Extractor(part)
    for text in characters(source, encoding):
        extractor.feed_bounded(text)
        yield from extractor.writer.take()
    extractor.finish()
    extractor.handle_endtag("html")
    extractor.writer.finish()
    yield from extractor.writer.take()


def _first_heading(source: Source, encoding: str, part: Part) -> str:
    extractor = _Extractor(part)
    for text in characters(source, encoding):
        extractor.feed_bounded(text)
        extractor.writer.take()
        if extractor.writer.path.first_title:
            break
    return extractor.writer.path.first_title or ""


@dataclass(frozen=True)
class HtmlReader:
    """The main text of a web page, without what is around it."""

    def recognises(self, head: bytes) -> bool:
        return _START.match(head.removeprefix(b"\xef\xbb\xbf")) is not None

    def open(self, source: Source) -> OpenDocument:
        encoding = find_encoding(source, _declared(source))
        survey = _survey(source, encoding)
        part = survey.part()
        if part is None:
            raise empty(source)
        title = survey.title or _first_heading(source, encoding, part)
        blocks = regroup(_pieces(source, encoding, part))
        notes = Notes()
        survey.note(part, notes)
        return OpenDocument(title or one_line(source.file_name), "text/html", blocks, notes)
