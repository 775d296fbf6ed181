"""Completion scripts for shells, as click makes them."""

from __future__ import annotations

import click

from drt_cli._options import with_global_options


@with_global_options()
@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands, options, documents and conversations. For bash, put the line below into
    ~/.bashrc; for zsh, the same with zsh into ~/.zshrc; for fish, write the script to
    ~/.config/fish/completions/drt.fish.

    \b
    Example: eval "$(drt completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = ctx.find_root().command
    click.echo(kind(root, {}, "drt", "_DRT_COMPLETE").source())
