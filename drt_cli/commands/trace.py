"""What the model retrieves for a question, and what its answer leaned on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drt_cli._errors import DONE, FAILED, PARTLY
from drt_cli._files import write_from_library, write_shared
from drt_cli._options import (
    Settings,
    answer_options,
    json_option,
    retrieval_options,
    with_global_options,
)
from drt_cli._output import note, print_json, read_paths, say
from drt_cli._status import waiting
from drt_cli._text import printable
from drt_cli._warm import with_helper

if TYPE_CHECKING:
    from drt import DocumentInfo


@with_global_options()
@click.command("trace")
@click.argument("question", required=False)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write an HTML page, which needs no network and no other file.",
)
@click.option(
    "--stream",
    "stream_file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="In place of a question: which earlier chunks each chunk of this plain text reads.",
)
@click.option(
    "--tokens",
    type=click.IntRange(min=1),
    default=16384,
    show_default=True,
    help="With --stream: at most this many tokens of the text.",
)
@retrieval_options
@answer_options
@json_option
@click.pass_obj
@with_helper
def command(
    settings: Settings,
    /,
    question: str | None,
    paths: tuple[str, ...],
    page: str | None,
    stream_file: str | None,
    tokens: int,
    documents: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> int:
    """Show what the model retrieves for a question.

    For each chunk of the answer and each layer group: the retrieved chunks with their scores,
    probabilities and attention in this answer, and which chunks each token used. With --stream, no
    question: for each chunk of a plain text, the earlier chunks that it reads.

    \b
    Example: drt trace "Who signs the log?" manual.md --html trace.html
    """
    if stream_file is not None:
        if question is not None:
            raise click.UsageError("--stream takes a text and no question; leave one out.")
        return _trace_stream(settings, stream_file, page, tokens=tokens, as_json=as_json)
    if question is None:
        raise click.UsageError("Missing argument 'QUESTION'; or name a text with --stream.")
    with settings.assistant() as assistant:
        report = read_paths(assistant, paths, settings) if paths else None
        if report is not None and not report.documents:
            return FAILED
        selected: list[str | DocumentInfo] = [*documents, *(report.documents if report else ())]
        with waiting(settings):
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


def _trace_stream(
    settings: Settings, file: str, page: str | None, *, tokens: int, as_json: bool
) -> int:
    """Show what the chunks of a text retrieve for each other."""
    from drt import stream_view, trace_stream

    with waiting(settings, question=False):
        trace = trace_stream(file, tokens=tokens, **settings.runtime())
    if page is not None:
        write_shared(Path(page), stream_view(trace, "html"))
        note(settings, f"Wrote {page}.")
    if as_json:
        print_json(trace)
    elif page is None:
        say(printable(stream_view(trace)))
    return DONE
