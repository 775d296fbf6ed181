"""Environment variables of options: named like the option, whatever its value is called in code."""

from __future__ import annotations

import click


def name_variables(command: click.Command, prefix: str) -> click.Command:
    """Name each option's environment variable ``<prefix>_<OPTION>``, in subcommands too.

    click makes them of the parameter's name, which is another one where Python, or the reader of
    the code, needs it.
    """
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        spelt = next((name for name in option.opts if name.startswith("--")), "")
        plain = spelt.lstrip("-").replace("-", "_")
        if plain and plain != option.name:
            option.envvar = f"{prefix}_{plain}".upper().replace("-", "_")
            option.allow_from_autoenv = False
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            name_variables(below, f"{prefix}_{name}")
    return command
