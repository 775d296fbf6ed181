"""What the model retrieves for a question."""

from __future__ import annotations

from typing import Any

import click

from drt_cli._options import Settings, json_option, retrieval_options, with_global_options
from drt_cli._output import print_json
from drt_cli._text import printable


@with_global_options()
@click.command("trace")
@click.argument("question")
@retrieval_options
@json_option
@click.pass_obj
def command(
    settings: Settings, /, question: str, documents: tuple[str, ...], as_json: bool, **options: Any
) -> None:
    """Show what the model retrieves for a question.

    One list for each layer group and chunk of the answer, with the probabilities that the
    answer was made with.
    """
    with settings.assistant() as assistant:
        trace = assistant.trace(question, documents=documents or None, **options)
    if as_json:
        print_json(trace.to_dict())
    else:
        click.echo(printable(trace.as_text()))
