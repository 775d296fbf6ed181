"""The standard library's HTML parser without its exceptions, in bounded memory and time."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

_UNFINISHED_CHARACTERS = 1 << 16
_UNFINISHED = re.compile(r"""<[!?]|<[a-zA-Z][^<]*=\s*["']""")
_TAG_NAME = re.compile(r"</?[a-zA-Z][^\s/>]{0,64}")
_QUOTED = re.compile(r"""=\s*(?:"[^"]*"|'[^']*')""")
_QUOTE = re.compile(r"""(?<==)\s*["']""")


class SafeParser(HTMLParser):
    """The standard parser without its exceptions, and with a bound on what it holds back.

    ``HTMLParser`` keeps an unfinished tag or comment as ``rawdata`` and scans it anew with each
    piece: without a bound, a file of one endless tag takes time by the square of its length.
    """

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
        """Return what is waiting without all that does not decide where it ends.

        That is the name of a tag and an open quotation mark, or the start of a comment and the
        three characters that may begin its end.
        """
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
            remainder, self.rawdata = self.rawdata, ""
            if remainder:
                self.handle_data(unescape(remainder))
        self.close()
