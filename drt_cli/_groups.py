"""Groups of commands that answer a command that is not there with the one that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection

import click

_OTHER_NAMES = {
    **dict.fromkeys(
        ("rm", "delete", "del", "drop", "forget", "clear"), ("remove", "delete", "unset")
    ),
    **dict.fromkeys(("remove",), ("delete", "unset")),
    **dict.fromkeys(("show", "info"), ("show", "info", "get")),
    **dict.fromkeys(("describe", "view", "cat", "print", "text"), ("show", "info", "get")),
    **dict.fromkeys(("ls", "documents", "all"), ("list",)),
    **dict.fromkeys(("verify", "repair", "fsck"), ("check", "verify")),
    **dict.fromkeys(("find", "grep"), ("search",)),
    **dict.fromkeys(("mv",), ("rename",)),
    **dict.fromkeys(("save", "backup"), ("export",)),
    **dict.fromkeys(("load", "restore"), ("import",)),
    **dict.fromkeys(("size", "status"), ("stats", "show")),
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
