"""The prompt of a conversation: lines with history and completion, where prompt_toolkit is there.

Without it, and where no terminal is, lines are read as they come; Python's readline keeps a
history.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click

from ._input import read_line
from ._state import state_folder

HISTORY = 1000  # lines
Read = Callable[[str], str | None]  # from a prompt to the next line, None at the end of input
Completions = Callable[[str], Sequence[str]]  # of the text before the cursor


@contextlib.contextmanager
def line_reader(completions: Completions, **terminal: Any) -> Iterator[Read]:
    """Yield the function that reads lines; ``completions`` are what may stand in place of a text.

    ``terminal`` is for tests: the input and output of prompt_toolkit.
    """
    if not terminal and not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield _plain_line
        return
    try:
        toolkit: Any = importlib.import_module("prompt_toolkit")
    except ImportError:
        with _readline_history():
            yield _plain_line
        return
    yield _toolkit_reader(toolkit, completions, terminal)


def _toolkit_reader(toolkit: Any, completions: Completions, terminal: dict[str, Any]) -> Read:
    completion: Any = importlib.import_module("prompt_toolkit.completion")
    history: Any = importlib.import_module("prompt_toolkit.history")
    file = state_folder() / "chat-lines"
    past = history.InMemoryHistory()
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
        past = history.FileHistory(str(file))

    class Completer(completion.Completer):  # type: ignore[misc]  # loaded only here
        def get_completions(self, document: Any, _: Any) -> Iterable[Any]:
            text = document.text_before_cursor
            for line in completions(text):
                yield completion.Completion(line, start_position=-len(text))

    session = toolkit.PromptSession(
        history=past,
        completer=Completer(),
        complete_while_typing=False,
        complete_style=toolkit.shortcuts.CompleteStyle.READLINE_LIKE,
        **terminal,
    )

    def read(prompt: str) -> str | None:
        try:
            return str(session.prompt(prompt))
        except EOFError:
            return None

    return read


def _plain_line(prompt: str) -> str | None:
    """Return the next line, or None at the end of input."""
    if sys.stdin.isatty():
        try:
            return input(prompt)
        except EOFError:
            click.echo()
            return None
    return read_line()


@contextlib.contextmanager
def _readline_history() -> Iterator[None]:
    """Let arrow keys bring back earlier lines, of earlier conversations too."""
    try:
        readline: Any = importlib.import_module("readline")
    except ImportError:  # a Python without it still reads lines
        yield
        return
    file = state_folder() / "chat-history"
    with contextlib.suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(HISTORY)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.touch(mode=0o600)
            readline.write_history_file(file)
