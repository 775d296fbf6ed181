"""A conversation at the prompt."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from drt_cli._errors import report
from drt_cli._options import Settings, answer_options, retrieval_options, with_global_options
from drt_cli._output import note, place, print_answer
from drt_cli._text import printable

if TYPE_CHECKING:
    from drt import Answer, Library

AROUND = 400
HELP = """/help     this list
/sources  where the last answer comes from
/quote    the passages around the last quotes
/quit     end the conversation"""


@with_global_options()
@click.command("chat")
@click.option("--session", metavar="NAME", help="Continue and keep this conversation.")
@retrieval_options
@answer_options
@click.pass_obj
def command(
    settings: Settings, /, session: str | None, documents: tuple[str, ...], **options: Any
) -> None:
    """Ask question after question at a prompt.

    Without --session the conversation is not kept.
    """
    from drt import DrtError

    with settings.assistant() as assistant:
        conversation = assistant.session(session)
        if conversation.turns:
            note(settings, f"Going on; turns so far: {len(conversation.turns)}.")
        note(settings, "Ask a question, or /help.")
        last: Answer | None = None
        while (line := _read_line()) is not None and line != "/quit":
            if line.startswith("/"):
                _run(line, last, assistant.library)
            elif line:
                try:
                    last = conversation.ask(line, documents=documents or None, **options)
                except DrtError as error:
                    report(str(error))
                else:
                    print_answer(last)


def _read_line() -> str | None:
    """The next line without white space around it, None at the end of input."""
    if sys.stdin.isatty():
        try:
            return input("> ").strip()
        except EOFError:
            return None
    line = sys.stdin.readline()
    return line.strip() if line else None


def _run(line: str, last: Answer | None, library: Library) -> None:
    commands: dict[str, Callable[[Answer], None]] = {
        "/sources": _print_sources,
        "/quote": lambda answer: _print_quotes(answer, library),
    }
    if line == "/help":
        click.echo(HELP)
    elif line not in commands:
        report(f"there is no command {line}; /help lists them.")
    elif last is None:
        report("nothing was asked yet.")
    else:
        commands[line](last)


def _print_sources(answer: Answer) -> None:
    for citation in answer.citations:
        click.echo(f"{place(citation)}\n  {printable(citation.source)}")


def _print_quotes(answer: Answer, library: Library) -> None:
    for citation in answer.citations:
        start = max(0, citation.start - AROUND)
        text = library.text(citation.document, start, citation.end + AROUND)
        first, last = citation.start - start, citation.end - start
        marked = f"{text[:first]}«{text[first:last]}»{text[last:]}"
        click.echo(f"{place(citation)}\n{printable(marked)}\n")
