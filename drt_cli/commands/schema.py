"""The published shapes of JSON output."""

from __future__ import annotations

import click

from drt_cli._options import with_global_options
from drt_cli._output import print_json


@with_global_options()
@click.command("schema")
@click.argument("name", metavar="[NAME]", required=False)
def command(name: str | None) -> None:
    """Print the JSON Schema of a command's output.

    NAME is a command with --json, such as ask or library-list, or one of the lines that a command
    prints with --jsonl, such as ask-line. Without NAME all of them are listed.

    \b
    Example: drt schema ask
    """
    from drt import schema, schemas

    if name is None:
        for schema_name in schemas():
            click.echo(schema_name)
    else:
        print_json(schema(name.replace(" ", "-")))
