"""The server for assistants and editors, on standard input and output."""

from __future__ import annotations

import click

from drt_cli._options import Settings, with_global_options


@with_global_options()
@click.command("mcp")
@click.option(
    "--allow-ingest",
    "folders",
    multiple=True,
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="A folder whose files the assistant may add to the library; may be repeated.",
)
@click.pass_obj
def command(settings: Settings, /, folders: tuple[str, ...]) -> None:
    """Serve the library to assistants and editors (Model Context Protocol).

    Needs the extra mcp. The program that starts it talks to it on standard input and output. Its
    tools are search, ask, read_passage, list_documents and summarize, and ingest where
    --allow-ingest names a folder; documents are resources.

    \b
    Example: drt mcp --allow-ingest ~/papers
    """
    from drt import mcp_server

    with settings.assistant() as assistant:
        mcp_server(assistant, folders=folders).run()
