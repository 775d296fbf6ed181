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
from ._text import one_line

if TYPE_CHECKING:
    from drt import Library

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_DOCUMENTS = ("document", "documents")


def with_completion(name: str, command: click.Command) -> click.Command:
    """A command whose documents and conversations can be completed."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    for one in (command, *below):
        for parameter in one.params:
            if parameter.name in _DOCUMENTS:
                _complete(parameter, _documents)
            elif parameter.name == "session" or (name == "session" and parameter.name == "name"):
                _complete(parameter, _sessions)
            elif parameter.name == "name" and name == "schema":
                _complete(parameter, _schemas)
    return command


def _complete(parameter: click.Parameter, complete: Complete) -> None:
    def found(ctx: click.Context, given: click.Parameter, typed: str) -> list[CompletionItem]:
        try:
            return complete(ctx, given, typed)
        except Exception:  # a shell's prompt is no place for errors: nothing is offered
            return []

    parameter._custom_shell_complete = found


def _library(ctx: click.Context) -> Library:
    from ._settings import load_settings

    settings = ctx.obj if isinstance(ctx.obj, Settings) else Settings()
    if settings.library is None:
        kept = load_settings().get("library")
        settings = Settings(library=kept if isinstance(kept, str) else None)
    return settings.open_library()


def _documents(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """File names where they are unique, ids where not; a path is left to the shell."""
    documents = _library(ctx).documents()
    names = [PurePath(one.source).name for one in documents]
    offered = [
        CompletionItem(name if names.count(name) == 1 else one.id, help=one_line(one.title))
        for one, name in zip(documents, names, strict=True)
    ]
    fitting = [item for item in offered if item.value.startswith(typed)]
    files = isinstance(parameter, click.Argument)
    return fitting + ([CompletionItem(typed, type="file")] if files else [])


def _sessions(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    sessions = _library(ctx).sessions()
    return [
        CompletionItem(one.name, help=f"{one.turns} turns")
        for one in sessions
        if one.name.startswith(typed)
    ]


def _schemas(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    from drt import schemas

    return [CompletionItem(name) for name in schemas() if name.startswith(typed)]
