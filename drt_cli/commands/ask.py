"""One question, one answer with its citations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from drt_cli._errors import DONE, FAILED, PARTLY
from drt_cli._options import (
    Settings,
    answer_options,
    json_option,
    retrieval_options,
    with_global_options,
)
from drt_cli._output import print_answer, print_evidence, print_json, read_paths
from drt_cli._text import printable

if TYPE_CHECKING:
    from drt import Answer, AnswerStream, DocumentInfo


@with_global_options()
@click.command("ask")
@click.argument("question")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--session", metavar="NAME", help="Ask in this conversation and store it there.")
@click.option("--explain", is_flag=True, help="Show what was retrieved for the answer.")
@click.option("--stream", is_flag=True, help="Print the answer while it is made.")
@retrieval_options
@answer_options
@json_option
@click.pass_obj
def command(
    settings: Settings,
    /,
    question: str,
    paths: tuple[str, ...],
    session: str | None,
    explain: bool,
    stream: bool,
    as_json: bool,
    documents: tuple[str, ...],
    **options: Any,
) -> int:
    """Ask a question; the answer is a quote with its place.

    With PATHs the question is asked of these documents alone, which are read first unless the
    library holds them unchanged; otherwise it is asked of the whole library.
    """
    if stream and as_json:
        raise click.UsageError("--stream prints text as it comes and --json one object; use one.")
    with settings.assistant() as assistant:
        report = read_paths(assistant, paths, settings) if paths else None
        if report is not None and not report.documents:
            return FAILED
        chosen: list[str | DocumentInfo] = [*documents, *(report.documents if report else ())]
        asked = assistant.session(session) if session else assistant
        if stream:
            answer = _print_stream(asked.stream(question, documents=chosen or None, **options))
        else:
            answer = asked.ask(question, documents=chosen or None, **options)
            _print_whole(answer, as_json=as_json)
    if explain and answer.trace is not None:
        click.echo("\n" + printable(answer.trace.as_text()), err=as_json)
    return PARTLY if report is not None and report.failures else DONE


def _print_whole(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        print_json(answer.to_dict())
    else:
        print_answer(answer)


def _print_stream(pieces: AnswerStream) -> Answer:
    """Prints pieces as they come, then the evidence."""
    for piece in pieces:
        click.echo(printable(piece), nl=False)
    answer = pieces.answer
    assert answer is not None
    click.echo()
    if answer.found:
        print_evidence(answer)
    else:
        print_answer(answer)
    return answer
