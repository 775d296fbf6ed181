"""The manual page, made from the help of the commands."""

from __future__ import annotations

import click

from drt_cli._options import with_global_options


@with_global_options()
@click.command("man")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Print the manual page.

    \b
    Example: drt man > drt.1
    """
    from drt import __version__
    from drt_cli._manual import manual_page

    click.echo(manual_page(ctx.find_root().command, __version__), nl=False)
