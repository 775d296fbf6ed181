"""One question, one answer with its citations; or one after the other from standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from drt_cli._conversation import save_conversation
from drt_cli._errors import DONE, FAILED, PARTLY, CliError, report
from drt_cli._input import read_line
from drt_cli._options import (
    Settings,
    answer_options,
    json_option,
    jsonl_option,
    retrieval_options,
    with_global_options,
)
from drt_cli._output import (
    counted,
    note_unread,
    print_answer,
    print_evidence,
    print_json,
    print_line,
    print_place,
    read_paths,
    say,
)
from drt_cli._state import remember
from drt_cli._text import one_line, printable
from drt_cli._writing import FILTERS, chosen_writer, print_writing, writer_options

if TYPE_CHECKING:
    from drt import AllAnswers, Answer, AnswerStream, DocumentInfo, Trace


@with_global_options()
@click.command("ask")
@click.argument("question")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--session", metavar="NAME", help="Ask in this conversation and store it there.")
@click.option(
    "--all",
    "every_place",
    is_flag=True,
    help="Show every place that answers, the same answers together, best first.",
)
@click.option("--explain", is_flag=True, help="Show what was retrieved for the answer.")
@click.option("--stream", is_flag=True, help="Print the answer while it is made.")
@writer_options
@retrieval_options
@answer_options
@click.option(
    "--markdown",
    "as_markdown",
    is_flag=True,
    help="Print Markdown, each place as a footnote.",
)
@json_option
@jsonl_option
@click.pass_obj
def command(
    settings: Settings,
    /,
    question: str,
    paths: tuple[str, ...],
    session: str | None,
    every_place: bool,
    explain: bool,
    stream: bool,
    as_markdown: bool,
    as_json: bool,
    as_lines: bool,
    documents: tuple[str, ...],
    writer: str | None,
    writer_model: str | None,
    writer_timeout: float,
    strict: bool,
    **options: Any,
) -> int:
    """Ask a question; the answer is a quote with its place.

    With PATHs, drt asks only these documents, and first reads those that are new or changed.
    Without, it asks the whole library. If QUESTION is "-", each line of standard input is a
    question. The show command takes the numbers and handles of citations. With --all each of 32
    passages (or --top-k) is read by itself, and all that answer are shown.

    With --writer, the question and retrieved sentences are sent to a language model of your choice,
    and each sentence that it writes is verified against those that it names. Its key is taken from
    DRT_WRITER_KEY. Needs the extra writer.

    \b
    Example: drt ask "How long is the notice period?" contract.pdf
    """
    from_stdin = question == "-"
    _check(stream=stream, from_stdin=from_stdin, as_json=as_json, as_lines=as_lines)
    if every_place and (session or explain or stream or writer or options["mode"] != "quote"):
        raise click.UsageError(
            "--all has no --session, --explain, --stream, --writer or --mode free."
        )
    if as_markdown and (stream or as_json or as_lines or every_place or writer):
        raise click.UsageError(
            "--markdown prints whole answers as text; use it without --stream, --json, --jsonl,"
            " --all and --writer."
        )
    if from_stdin and "-" in paths:
        raise click.UsageError("Standard input cannot be both the questions and a document.")
    if writer is not None and stream:
        raise click.UsageError("--writer prints its sentences as they come; leave out --stream.")
    written_by = chosen_writer(writer, writer_model, timeout=writer_timeout, strict=strict)
    questions = _questions() if from_stdin else iter([question])
    first = next(questions, None)
    if first is None:
        raise CliError("there is no question on standard input; write one a line.")
    from drt import write

    with settings.assistant() as assistant:
        reading = read_paths(assistant, paths, settings) if paths else None
        if reading is not None and not reading.documents:
            return FAILED
        if session:  # restoring one loads a model
            assistant.library.expect_documents()
        selected: list[str | DocumentInfo] = [*documents, *(reading.documents if reading else ())]
        options["documents"] = selected or None
        # A conversation is saved when its answer is printed: saving may have to wait.
        conversation = assistant.session(session, autosave=False) if session else None
        asker = conversation or assistant
        unsaved: str | None = None
        failed = False  # whether a writer failed
        for number, text in enumerate(chain([first], questions)):
            if from_stdin and not as_lines:
                say(f"{'' if number == 0 else chr(10)}> {printable(text)}", bold=True)
            if every_place:
                answers = assistant.ask_all(text, **options)
                _print_all(answers, as_json=as_json, as_lines=as_lines)
                note_unread(answers)
                remember(assistant.library, text, answers.citations)
                continue
            if written_by is not None:
                answer = asker.ask(text, **options)
                filters = {name: options[name] for name in FILTERS}
                writing = (
                    write(assistant, answer, written_by, **filters)
                    if conversation is None
                    else conversation.write(answer, written_by, **filters)
                )
                failed |= not print_writing(writing, settings, as_json=as_json, as_lines=as_lines)
            elif stream:
                answer = _print_stream(asker.stream(text, **options), as_lines=as_lines)
            else:
                answer = asker.ask(text, **options)
                _print_whole(answer, as_json=as_json, as_lines=as_lines, as_markdown=as_markdown)
            note_unread(answer)
            remember(assistant.library, text, answer.citations)
            if explain and answer.trace is not None:
                _print_trace(answer.trace, on_stderr=as_json or as_lines)
            unsaved = save_conversation(conversation) if conversation is not None else None
            if unsaved is not None:
                report(unsaved)
    unread = reading is not None and reading.failures
    return PARTLY if unread or unsaved is not None or failed else DONE


def _check(*, stream: bool, from_stdin: bool, as_json: bool, as_lines: bool) -> None:
    if as_json and as_lines:
        raise click.UsageError("--json prints one object and --jsonl one a line; use one.")
    if as_json and (stream or from_stdin):
        conflict = (
            "--stream prints text as it comes" if stream else "several questions have answers"
        )
        raise click.UsageError(f"{conflict} and --json prints one object; use --jsonl.")


def _questions() -> Iterator[str]:
    """Yield the lines of standard input that are not blank."""
    while (line := read_line()) is not None:
        if line.strip():
            yield line.strip()


def _print_whole(answer: Answer, *, as_json: bool, as_lines: bool, as_markdown: bool) -> None:
    if as_json:
        print_json(answer.to_dict())
    elif as_markdown:
        click.echo(answer.as_markdown())
    elif as_lines:
        print_line({"type": "answer", **answer.to_dict()})
    else:
        print_answer(answer)


def _print_all(answers: AllAnswers, *, as_json: bool, as_lines: bool) -> None:
    """Print every place that answers, numbered through all answers as ``show`` takes them."""
    if as_json:
        print_json(answers.to_dict())
        return
    if as_lines:
        print_line({"type": "answers", **answers.to_dict()})
        return
    if not answers.answers:
        click.secho(
            "No place surely answers; a lower --threshold shows less likely ones.", bold=True
        )
    number = 0
    for at, group in enumerate(answers.answers):
        if at:
            click.echo()
        places = counted(len(group.citations), "place")
        say(f'"{one_line(group.text)}"  ({places}, confidence {group.confidence:.2f})', bold=True)
        for citation in group.citations:
            number += 1
            print_place(citation, number)
    say(f"\n{counted(answers.passages_read, 'passage')} read")


def _print_stream(pieces: AnswerStream, *, as_lines: bool) -> Answer:
    """Print pieces as they come, then the evidence; return the answer."""
    for piece in pieces:
        if as_lines:
            print_line({"type": "piece", "text": piece})
        else:
            click.echo(printable(piece), nl=False)
            sys.stdout.flush()
    answer = pieces.answer
    assert answer is not None
    if as_lines:
        print_line({"type": "answer", **answer.to_dict()})
        return answer
    click.echo()
    if answer.found:
        print_evidence(answer)
    else:
        print_answer(answer)
    return answer


def _print_trace(trace: Trace, *, on_stderr: bool) -> None:
    text = f"\n{printable(trace.as_text())}"
    if on_stderr:
        click.echo(text, err=True)
    else:
        say(text)
