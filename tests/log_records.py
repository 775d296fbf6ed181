"""What is logged while a test runs, in the place of pytest's own plugin.

That plugin is off (``-p no:logging``): it changes the handlers of the root three times for each
test, which takes longer than a third of the tests.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


class Records(logging.Handler):
    """A handler that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def messages(self) -> list[str]:
        return [record.getMessage() for record in self.records]

    @property
    def text(self) -> str:
        """All messages, with their tracebacks."""
        return "\n".join(map(self.format, self.records))

    @contextlib.contextmanager
    def at_level(self, level: int, name: str) -> Iterator[None]:
        """Let a logger pass on what has this level."""
        logger = logging.getLogger(name)
        before = logger.level
        logger.setLevel(level)
        yield
        logger.setLevel(before)
