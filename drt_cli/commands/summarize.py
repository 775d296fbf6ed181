"""A summary of one document."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from drt_cli._errors import DONE, FAILED
from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import place, print_json, read_paths
from drt_cli._text import printable


@with_global_options()
@click.command("summarize")
@click.argument("document", metavar="PATH|DOC")
@click.option(
    "--length",
    type=click.Choice(["short", "medium", "long"]),
    default="short",
    show_default=True,
    help="How long the summary may be.",
)
@click.option(
    "--mode",
    type=click.Choice(["auto", "extractive", "abstractive"]),
    default="auto",
    show_default=True,
    help="Sentences of the document, or text the model writes.",
)
@click.option("--focus", metavar="TEXT", help="What the summary should be about.")
@click.option("--cite", is_flag=True, help="Show where each sentence comes from.")
@json_option
@click.pass_obj
def command(
    settings: Settings,
    /,
    document: str,
    length: Literal["short", "medium", "long"],
    mode: Literal["auto", "extractive", "abstractive"],
    focus: str | None,
    cite: bool,
    as_json: bool,
) -> int:
    """Summarise a document.

    PATH is a file, which is read first unless the library holds it unchanged; DOC is the id,
    title or source of a document of the library.
    """
    with settings.assistant() as assistant:
        name = document
        if document == "-" or Path(document).is_file():
            report = read_paths(assistant, [document], settings)
            if not report.documents:
                return FAILED
            name = report.documents[0].id
        summary = assistant.summarize(name, length=length, mode=mode, focus=focus)
    if as_json:
        print_json(summary.to_dict())
        return DONE
    click.echo(printable(summary.text))
    if cite:
        for sentence in summary.sentences:
            click.echo(f"  {place(sentence)}")
    return DONE
