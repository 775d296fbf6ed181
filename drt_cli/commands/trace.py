"""What the model retrieves for a question, and what its answer leaned on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drt_cli._errors import DONE, FAILED, PARTLY
from drt_cli._files import write_from_library
from drt_cli._options import (
    Settings,
    answer_options,
    json_option,
    retrieval_options,
    with_global_options,
)
from drt_cli._output import note, print_json, read_paths, say
from drt_cli._text import printable

if TYPE_CHECKING:
    from drt import DocumentInfo


@with_global_options()
@click.command("trace")
@click.argument("question")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write an HTML page, which needs no network and no other file.",
)
@retrieval_options
@answer_options
@json_option
@click.pass_obj
def command(
    settings: Settings,
    /,
    question: str,
    paths: tuple[str, ...],
    page: str | None,
    documents: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> int:
    """Show what the model retrieves for a question.

    For each chunk of the answer and each layer group: the retrieved chunks with their scores,
    probabilities and attention in this answer, and which chunks each token used.

    \b
    Example: drt trace "Who signs the log?" manual.md --html trace.html
    """
    with settings.assistant() as assistant:
        report = read_paths(assistant, paths, settings) if paths else None
        if report is not None and not report.documents:
            return FAILED
        selected: list[str | DocumentInfo] = [*documents, *(report.documents if report else ())]
        trace = assistant.trace(question, documents=selected or None, **options)
        library = assistant.library.path
    if page is not None:
        write_from_library(Path(page), trace.as_html(), library)
        note(settings, f"Wrote {page}.")
    if as_json:
        print_json(trace.to_dict())
    elif page is None:
        say(printable(trace.as_text()))
    return PARTLY if report is not None and report.failures else DONE
