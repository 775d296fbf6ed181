"""What a shell offers after TAB: the library's documents and conversations, without a model.

Only loaded while a shell asks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from ._options import Settings
from ._output import counted
from ._text import one_line

if TYPE_CHECKING:
    from drt import Library

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_DOCUMENTS = ("document", "documents")


def with_completion(name: str, command: click.Command) -> click.Command:
    """Return a command whose documents and conversations can be completed."""
    subcommands = command.commands.values() if isinstance(command, click.Group) else ()
    for described in (command, *subcommands):
        for parameter in described.params:
            if parameter.name in _DOCUMENTS:
                _complete(parameter, _documents)
            elif parameter.name == "session" or (name == "session" and parameter.name == "name"):
                _complete(parameter, _sessions)
            elif parameter.name == "name" and name == "schema":
                _complete(parameter, _schemas)
    return command


def _complete(parameter: click.Parameter, complete: Complete) -> None:
    def completions(
        ctx: click.Context, parameter: click.Parameter, typed: str
    ) -> list[CompletionItem]:
        try:
            return complete(ctx, parameter, typed)
        except Exception:  # a shell's prompt is no place for errors: nothing is offered
            return []

    # click takes it only as an argument of the constructor
    parameter._custom_shell_complete = completions  # noqa: SLF001


def _library(ctx: click.Context) -> Library:
    from ._settings import load_settings

    settings = ctx.obj if isinstance(ctx.obj, Settings) else Settings()
    if not settings.library:
        folders = load_settings().get("library") or []
        settings = Settings(
            library=tuple(folders) if isinstance(folders, list) else (str(folders),)
        )
    return settings.open_library()


def _documents(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return file names where they are unique, ids where not; a path is left to the shell."""
    documents = _library(ctx).documents()
    names = [PurePath(document.source).name for document in documents]
    items = [
        CompletionItem(
            name if names.count(name) == 1 else document.id, help=one_line(document.title)
        )
        for document, name in zip(documents, names, strict=True)
    ]
    matches = [item for item in items if item.value.startswith(typed)]
    takes_files = isinstance(parameter, click.Argument)
    return matches + ([CompletionItem(typed, type="file")] if takes_files else [])


def _sessions(ctx: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    return [
        CompletionItem(session.name, help=counted(session.turns, "turn"))
        for session in _library(ctx).sessions()
        if session.name.startswith(typed)
    ]


def _schemas(_ctx: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    from drt import schemas

    return [CompletionItem(name) for name in schemas() if name.startswith(typed)]
