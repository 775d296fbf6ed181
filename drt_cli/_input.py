"""Lines of standard input, as text or as a sentence that says why not."""

from __future__ import annotations

import sys

from ._errors import CliError


def read_line() -> str | None:
    """Return the next line of standard input, or None; raises ``CliError`` if it is not text."""
    stream = sys.stdin
    line = stream.buffer.readline() if stream is not None else b""
    if not line:
        return None
    try:
        return line.decode(stream.encoding)  # strict, whatever the locale makes of bad bytes
    except UnicodeDecodeError:
        raise CliError(
            f"a line of standard input is not text in {stream.encoding.upper()}; convert it first."
        ) from None
