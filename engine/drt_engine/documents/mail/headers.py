"""Decodes the headers of a message as people read them: encoded words, raw bytes, folded lines.

Knows RFC 2047; knows nothing of bodies.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from email.message import Message
from functools import lru_cache

from drt_engine.documents.base import one_line
from drt_engine.documents.encodings import codec_name

# The bounds keep a header of openings without an end from being searched to its end for each.
_ENCODED_WORD = re.compile(r"=\?([\w.:-]{1,40})(?:\*[\w-]{0,40})?\?([qQbB])\?([^?]{0,4000})\?=")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CACHED_HEADERS = 8  # more than a message has that are read
_CACHED_CHARACTERS = 1 << 22  # of a header: longer ones would fill the memory


class Headers:
    """Decodes headers, each once although a message is parsed several times while it is read."""

    def __init__(self) -> None:
        self._cached = lru_cache(maxsize=_CACHED_HEADERS)(_decoded)

    def all(self, message: Message, name: str) -> Iterator[str]:
        """Yield the headers of a name on one line each."""
        for key, value in message.raw_items():
            if key.lower() == name.lower():
                raw = str(value)
                yield self._cached(raw) if len(raw) <= _CACHED_CHARACTERS else _decoded(raw)

    def title(self, message: Message, name: str) -> str:
        """Return the first header of a name, fit for a title."""
        return one_line(next(self.all(message, name), ""))


def _decoded(raw: str) -> str:
    """Return a header as text on one line; raw bytes are UTF-8, else cp1252."""
    data = raw.encode("utf-8", "surrogateescape")
    text = decoded_words(decode_bytes(data, None))
    return " ".join(_CONTROL.sub(" ", text).split())


def decoded_words(header: str) -> str:
    """Return a header with its encoded words (RFC 2047) as text, in time by its length alone.

    The standard library's decoder puts every word in front of those before it, one by one.
    """
    pieces: list[str] = []
    # Bytes of adjacent words of one charset: a character may be split between two words.
    data, charset = bytearray(), ""
    end = 0
    for word in _ENCODED_WORD.finditer(header):
        between = header[end : word.start()]
        word_bytes = _word_bytes(word[2], word[3])
        if word_bytes is None:
            continue
        if not data or between.strip() or word[1].lower() != charset:
            pieces.append(decode_bytes(bytes(data), charset))
            # White space between two encoded words only parts them.
            pieces.append(between if between.strip() or not end else "")
            data.clear()
        charset, end = word[1].lower(), word.end()
        data += word_bytes
    return "".join((*pieces, decode_bytes(bytes(data), charset), header[end:]))


def _word_bytes(encoding: str, text: str) -> bytes | None:
    """Return the bytes of an encoded word; None where it is none."""
    try:
        if encoding in "bB":
            return binascii.a2b_base64(text + "=" * (-len(text) % 4))
        return binascii.a2b_qp(text.replace("_", " ").encode("ascii"))
    except ValueError:  # of which binascii's error is one
        return None


def decode_bytes(data: bytes, declared: str | None) -> str:
    """Return bytes as UTF-8 where they are that, else in the declared encoding, else in cp1252."""
    codec = codec_name(declared)
    if codec is not None and codec.startswith("iso2022"):  # whose bytes are ASCII, too
        return data.decode(codec, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode(codec or "cp1252", "replace")
