"""Times parts of the program; prints a table or the documented JSON."""

from __future__ import annotations

from typing import Any, Literal

import click

from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import print_json
from drt_cli._text import printable


@with_global_options()
@click.command("bench")
@click.argument("name", type=click.Choice(["ingest", "ask", "retrieve"]))
@click.option("--repetitions", type=click.IntRange(min=1), help="How often each part is timed.")
@click.option("--tokens", type=click.IntRange(min=64), help="Tokens of made-up text.")
@click.option(
    "--file", type=click.Path(exists=True, dir_okay=False), help="A document to read instead."
)
@click.option("--question", metavar="TEXT", help="What is asked.")
@json_option
@click.pass_obj
def command(
    settings: Settings,
    /,
    name: Literal["ingest", "ask", "retrieve"],
    as_json: bool,
    **options: Any,
) -> None:
    """Time reading, asking and retrieving.

    Every time stands beside something timed in the same run, since machines differ.
    """
    from drt import bench, report_table

    result = bench(name, **options, **settings.runtime())
    if as_json:
        print_json(result)
    else:
        click.echo(printable(report_table(result)))
