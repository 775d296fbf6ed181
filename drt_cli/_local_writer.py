"""``--writer auto``: a language model on this machine, which a terminal is asked for once.

The choice is remembered in the state folder; without a terminal only a remembered one is used.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from ._errors import CliError
from ._files import write_file
from ._state import state_folder
from ._text import one_line

if TYPE_CHECKING:
    from drt import LocalWriter

AUTO = "auto"
NAME = "writer.json"
_NONE = (
    "no language model is found on this machine (Ollama, llama.cpp, LM Studio and vLLM on their"
    " usual ports); start one, or name one with --writer URL --writer-model NAME."
)


def local_writer(model: str | None) -> tuple[str, str]:
    """Return address and model of the writer on this machine that was chosen, or is chosen now.

    ``model`` is the name that was typed. Raises ``CliError`` where there is none or nobody to ask.
    """
    from drt import local_writers

    choices = [
        (writer, name)
        for writer in local_writers()
        for name in writer.models
        if model in (None, name)
    ]
    if not choices:
        raise CliError(_NONE if model is None else _missing(model))
    if model is not None:  # who has typed its name wants it
        return choices[0][0].url, model
    remembered = _remembered()
    for writer, name in choices:
        if (writer.url, name) == remembered:
            return writer.url, name
    if not _is_terminal():
        raise CliError(
            "--writer auto asks once on a terminal which model may write, and this is none; name it"
            f" with --writer {choices[0][0].url} --writer-model {one_line(choices[0][1])}."
        )
    writer, name = _asked(choices)
    _remember(writer.url, name)
    return writer.url, name


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _missing(model: str) -> str:
    return f"no program on this machine has a language model {model!r}; --writer auto lists them."


def _asked(choices: list[tuple[LocalWriter, str]]) -> tuple[LocalWriter, str]:
    """Ask which model may write; abort where none may."""
    click.echo("Language models on this machine:", err=True)
    for number, (writer, name) in enumerate(choices, start=1):
        click.echo(f"  {number}  {one_line(name)} ({writer.program}, {writer.url})", err=True)
    numbers = click.IntRange(0, len(choices))
    question = "Which may write, from your questions and retrieved sentences? 0 for none"
    number = click.prompt(question, type=numbers, default=0, err=True)
    if not number:
        raise click.Abort
    click.echo("drt config set ask.writer auto makes it the default.", err=True)
    return choices[number - 1]


def _remembered() -> tuple[str, str] | None:
    try:
        values = json.loads((state_folder() / NAME).read_text(encoding="utf-8"))
        return str(values["url"]), str(values["model"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _remember(url: str, model: str) -> None:
    """Keep the choice; where that fails it is asked for again."""
    folder = state_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(folder / NAME, json.dumps({"url": url, "model": model}) + "\n", private=True)
    except OSError:
        pass
