"""A document's identity: the SHA-256 of its text, of which the id is the first 64 bits.

Knows nothing of files or SQL; imports hashlib late, since listing a library need not wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

ID = re.compile(r"[0-9a-f]{16}")


class TextHash:
    """The running SHA-256 of a text that comes in pieces."""

    def __init__(self) -> None:
        import hashlib

        self._hash = hashlib.sha256()

    def update(self, pieces: Iterable[str]) -> None:
        """Append pieces of the text; ValueError for what UTF-8 cannot encode."""
        for piece in pieces:
            self._hash.update(piece.encode("utf-8"))

    @property
    def digest(self) -> str:
        """The whole digest, 64 hexadecimal digits; compare these, an id is too short to trust."""
        return self._hash.hexdigest()

    @property
    def document_id(self) -> str:
        """The id that a document of this text has."""
        return self.digest[:16]
