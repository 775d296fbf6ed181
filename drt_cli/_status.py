"""One line on stderr that says what is waited for; it is gone when the answer is there.

On a terminal only, so that nothing of it is ever in a file or a pipe.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ._layout import columns, text_width
from ._options import Settings
from ._text import shortened

if TYPE_CHECKING:
    from drt import ReadingStep

LOADING = "loading the model ..."
_CLEAR = "\r\x1b[2K"  # back to the first column, and the line empty


class StatusLine:
    """The line, as long as it is shown."""

    def __init__(self, screen: int) -> None:
        self._screen = screen
        self._shown = False

    def show(self, text: str) -> None:
        """Show a text in place of the one before, as much as fits."""
        line = shortened(text, self._screen - 1)
        while text_width(line) >= self._screen:  # some characters take two columns
            line = line[:-1]
        sys.stderr.write(f"{_CLEAR}{line}")
        sys.stderr.flush()
        self._shown = True

    def show_loading(self) -> None:
        """Say that the model is loaded, unless this process has it."""
        if "drt_engine.runtime" not in sys.modules:
            self.show(LOADING)

    def clear(self) -> None:
        """Take the line off the screen."""
        if self._shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._shown = False

    def reading(self, step: ReadingStep) -> None:
        """Show which passage a question reads, and the best sentence that was retrieved."""
        number = f"{step.read + 1} of {step.passages} passage{'s' * (step.passages != 1)}"
        self.show(f"reading {number}, here first: {step.text} ({step.title})")


@contextmanager
def waiting(
    settings: Settings, *, loads: bool = True, question: bool = True
) -> Iterator[StatusLine | None]:
    """Say what a block waits for: the model, and of a question what it reads; None off a terminal.

    The block has to clear the line before its own output. ``loads`` is whether it needs the model.
    """
    screen = columns(sys.stderr)
    if settings.quiet or settings.debug or screen is None:
        yield None
        return
    line = StatusLine(screen)
    if loads:
        line.show_loading()
    try:
        if not question:
            yield line
            return
        from drt import watch_reading

        with watch_reading(line.reading):
            yield line
    finally:
        line.clear()
