"""Groups of commands that answer a command that is not there with the one that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection

import click

# What other programs call these commands; of several, the first that a group has.
_REMOVE, _SHOW = ("remove", "delete", "unset"), ("show", "info", "get")
_OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "all": ("list",),
    "backup": ("export",),
    "cat": _SHOW,
    "clear": _REMOVE,
    "del": _REMOVE,
    "delete": _REMOVE,
    "describe": _SHOW,
    "documents": ("list",),
    "drop": _REMOVE,
    "find": ("search",),
    "forget": _REMOVE,
    "fsck": ("check", "verify"),
    "grep": ("search",),
    "info": _SHOW,
    "load": ("import",),
    "ls": ("list",),
    "mv": ("rename",),
    "print": _SHOW,
    "remove": _REMOVE,
    "repair": ("check", "verify"),
    "restore": ("import",),
    "rm": _REMOVE,
    "save": ("export",),
    "show": _SHOW,
    "size": ("stats", "show"),
    "status": ("stats", "show"),
    "text": _SHOW,
    "verify": ("check", "verify"),
    "view": _SHOW,
}


def meant(name: str, names: Collection[str], other_name: str | None = None) -> str | None:
    """Return the one of ``names`` that was probably meant, or ``other_name`` where there is one."""
    close = difflib.get_close_matches(name, names, n=1)
    return other_name or next(iter(close), None)


class HintingGroup(click.Group):
    """A group of commands whose other programs' names are known."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named; fail with the one that was meant."""
        name = args[0]
        if name not in self.commands and not name.startswith("-"):
            others = (other for other in _OTHER_NAMES.get(name.lower(), ()))
            other_name = next((other for other in others if other in self.commands), None)
            command = meant(name, self.commands, other_name)
            hint = (
                f"did you mean {command!r}?" if command else f"`drt {self.name} --help` lists them."
            )
            ctx.fail(f"There is no command '{self.name} {name}'; {hint}")
        return super().resolve_command(ctx, args)
