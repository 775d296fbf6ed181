"""One question, one answer with its citations; or one after the other from standard input."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from drt_cli._addresses import fetch_options, named_addresses
from drt_cli._asking import AnswerForm, Asking
from drt_cli._errors import DONE, FAILED, PARTLY, CliError
from drt_cli._input import read_line
from drt_cli._options import (
    Settings,
    answer_options,
    json_option,
    jsonl_option,
    retrieval_options,
    with_global_options,
)
from drt_cli._output import read_paths, say
from drt_cli._text import printable
from drt_cli._warm import with_helper
from drt_cli._words import check_question
from drt_cli._writing import chosen_writer, writer_options

if TYPE_CHECKING:
    from drt import DocumentInfo
    from drt._export import ExportFormat

EXPORTS = ("markdown", "html", "obsidian", "bibtex", "csl-json")  # drt's ExportFormat


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
@fetch_options
@writer_options
@retrieval_options
@answer_options
@click.option(
    "--markdown",
    "as_markdown",
    is_flag=True,
    help="Print Markdown, each place as a footnote.",
)
@click.option(
    "--export",
    type=click.Choice(EXPORTS),
    help="Print the answer for another program: a page without scripts, a note of Obsidian, or"
    " entries of the cited documents for a reference manager.",
)
@json_option
@jsonl_option
@click.pass_obj
@with_helper
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
    export: ExportFormat | None,
    as_json: bool,
    as_lines: bool,
    documents: tuple[str, ...],
    fetch: bool,
    fetch_private: bool,
    writer: str | None,
    writer_model: str | None,
    writer_timeout: float,
    strict: bool,
    **options: Any,
) -> int:
    """Ask a question; the answer is a quote with its place.

    With PATHs, drt asks only these documents, and first reads those that are new or changed. A PATH
    may be an address, https://..., which is fetched with --fetch or once a terminal was asked.
    Without, it asks the whole library. If QUESTION is "-", each line of standard input is a
    question. The show command takes the numbers and handles of citations. With --all each of 32
    passages (or --top-k) is read by itself, and all that answer are shown.

    With --writer, the question and retrieved sentences are sent to a language model of your choice,
    and each sentence that it writes is verified against those that it names. Its key is taken from
    DRT_WRITER_KEY. Needs the extra writer.

    \b
    Example: drt ask "How long is the notice period?" contract.pdf
    Example: drt ask "Who signs?" contract.pdf --export html > answer.html
    """
    from_stdin = question == "-"
    form = AnswerForm(
        stream=stream,
        every_place=every_place,
        explain=explain,
        as_markdown=as_markdown,
        export=export,
        as_json=as_json,
        as_lines=as_lines,
    )
    _check(form, from_stdin=from_stdin, session=session, writer=writer, mode=options["mode"])
    if not from_stdin:
        check_question("ask", question, paths, noun="question")
    if from_stdin and "-" in paths:
        raise click.UsageError("Standard input cannot be both the questions and a document.")
    if writer is not None and stream:
        raise click.UsageError("--writer prints its sentences as they come; leave out --stream.")
    writer_chosen = chosen_writer(writer, writer_model, timeout=writer_timeout, strict=strict)
    questions = _questions() if from_stdin else iter([question])
    first = next(questions, None)
    if first is None:
        raise CliError("there is no question on standard input; write one a line.")
    named = named_addresses(paths, fetch=fetch, private=fetch_private)
    with settings.assistant() as assistant:
        reading = None
        if paths:
            reading = read_paths(assistant, named.files, settings, addresses=named.read)
        if reading is not None and not reading.documents:
            return FAILED
        if session is not None:  # restoring one loads a model
            assistant.library.expect_documents()
        selected: list[str | DocumentInfo] = [*documents, *(reading.documents if reading else ())]
        options["documents"] = selected or None
        # A conversation is saved when its answer is printed: saving may have to wait.
        conversation = assistant.session(session, autosave=False) if session is not None else None
        asking = Asking(settings, assistant, conversation, writer_chosen, form, options)
        for number, text in enumerate(chain([first], questions)):
            if from_stdin and not as_lines:
                say(f"{'' if number == 0 else chr(10)}> {printable(text)}", bold=True)
            asking.ask(text)
    unread = reading is not None and reading.failures
    return PARTLY if unread or asking.writer_failed or not asking.saved else DONE


def _check(
    form: AnswerForm, *, from_stdin: bool, session: str | None, writer: str | None, mode: str
) -> None:
    """Raise ``UsageError`` for options that exclude each other."""
    if form.as_json and form.as_lines:
        raise click.UsageError("--json prints one object and --jsonl one a line; use one.")
    if form.as_json and (form.stream or from_stdin):
        conflict = (
            "--stream prints text as it comes" if form.stream else "several questions have answers"
        )
        raise click.UsageError(f"{conflict} and --json prints one object; use --jsonl.")
    excluded = session is not None or form.explain or form.stream or writer or mode != "quote"
    if form.every_place and excluded:
        raise click.UsageError(
            "--all has no --session, --explain, --stream, --writer or --mode free."
        )
    if form.as_markdown and form.export:
        raise click.UsageError("--markdown and --export are two forms of an answer; use one.")
    whole = "--markdown" if form.as_markdown else "--export" if form.export else None
    if whole and (form.stream or form.as_json or form.as_lines or form.every_place):
        raise click.UsageError(
            f"{whole} prints whole answers as text; use it without --stream, --json, --jsonl"
            " and --all."
        )
    if form.as_markdown and writer:
        raise click.UsageError(
            "--markdown prints quotes alone; --export markdown has what the writer wrote, too."
        )


def _questions() -> Iterator[str]:
    """Yield the lines of standard input that are not blank."""
    while (line := read_line()) is not None:
        if line.strip():
            yield line.strip()
