"""Models that are trained and measured one after the other, and compared in a table."""

from __future__ import annotations

from pathlib import Path

import click

from drt_cli._options import json_option, with_global_options
from drt_cli._output import print_json, say
from drt_cli._text import printable


@with_global_options()
@click.command("study")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--only", multiple=True, metavar="RUN", help="Only this run; may be given again.")
@click.option(
    "--results",
    type=click.Path(dir_okay=False),
    help="A JSON file that results are added to, with their settings; those in it are not measured "
    "again, so that rows gather over several machines.",
)
@json_option
def command(
    file: str,
    overrides: tuple[str, ...],
    only: tuple[str, ...],
    results: str | None,
    as_json: bool,
) -> None:
    """Train and measure several models, and compare them in a table.

    FILE is a TOML file that lists runs, seeds and evaluations, as those in examples/paper;
    KEY=VALUE changes one of its settings, as in train.optim.steps=100. An interrupted study goes on
    where it was. Its folder gets table.md, table.json, table.csv, and plots where matplotlib is
    installed.

    \b
    Example: drt study examples/paper/table2-passkeys.toml
    """
    from drt import study

    for override in overrides:
        if "=" not in override:
            raise click.UsageError(f"{override!r} changes no setting; write KEY=VALUE.")
    result = study(file, overrides, only=only, results=results)
    if as_json:
        print_json(result)
    else:
        say(printable((Path(result["folder"]) / "table.md").read_text(encoding="utf-8").rstrip()))
