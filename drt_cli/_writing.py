"""Printing what a writer writes: where text is sent, verified sentences, and their sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ._errors import report
from ._local_writer import AUTO, local_writer
from ._options import Settings
from ._output import note, place, print_answer, print_json, print_line, say
from ._text import markdown, one_line

if TYPE_CHECKING:
    from drt import (
        Citation,
        WriterOptions,
        Writing,
        WrittenAnswer,
        WrittenSentence,
        WrittenText,
    )

Function = TypeVar("Function", bound=Callable[..., Any])

KEY = "DRT_WRITER_KEY"
# Options of a question that say what of the library a writer may be sent.
FILTERS = ("documents", "section", "types", "tags", "since", "pages")
HEADS = {
    "no answer": "The writer finds no answer in the passages.",
    "unsupported": "The passages support no sentence of the writer.",
}


def writer_options(function: Function) -> Function:
    """Add the options of a writer: its address, its model, its time, and strictness."""
    for decorate in (
        click.option(
            "--strict",
            is_flag=True,
            help="Leave out what the writer's sources do not say, unmarked.",
        ),
        click.option(
            "--writer-timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=60.0,
            show_default=True,
            metavar="SECONDS",
            help="How long the writer may take.",
        ),
        click.option("--writer-model", metavar="NAME", help="The name of the writer's model."),
        click.option(
            "--writer",
            metavar="URL|PLUGIN|auto",
            help="Let the language model at this address write; it speaks OpenAI's chat"
            " completions. Or the name of a plug-in's writer; or auto: one that runs on this"
            " machine, which is asked for once.",
        ),
    ):
        function = decorate(function)
    return function


def chosen_writer(
    url: str | None, model: str | None, *, timeout: float, strict: bool
) -> WriterOptions | None:
    """Return the writer that the options name; its key is in the environment."""
    if url is None:
        if model is not None or strict:
            raise click.UsageError("--writer-model and --strict are for --writer; give its URL.")
        return None
    if url == AUTO:
        url, model = local_writer(model)
    if model is None and ":" in url:
        raise click.UsageError("--writer needs --writer-model, the name of its model.")
    from drt import WriterOptions

    key = os.environ.get(KEY) or None
    return WriterOptions(url, model or "", key=key, timeout=timeout, strict=strict)


def print_writing(
    writing: Writing,
    settings: Settings,
    *,
    as_json: bool,
    as_lines: bool,
    exported: Callable[[WrittenAnswer], str] | None = None,
) -> bool:
    """Print a writer's sentences as they come, and drt's own quotes; return whether it wrote.

    ``exported`` makes one text of them in the end.
    """
    note(settings, writing.sent)
    for sentence in writing:
        if as_lines:
            print_line({"type": "sentence", **sentence.to_dict()})
        elif not as_json and exported is None:
            say(_marked(sentence))
    result = writing.result
    assert result is not None
    if result.problem:
        report(result.problem)
    if as_json:
        print_json(result.to_dict())
    elif as_lines:
        print_line({"type": "answer", **result.to_dict()})
    elif exported is not None:
        click.echo(exported(result), nl=False)
    else:
        _print_sources(result)
    return result.state != "failed"


def _marked(sentence: WrittenSentence) -> str:
    from drt._written import support_mark

    return one_line(sentence.text + support_mark(sentence))


def print_stored(writing: WrittenText) -> None:
    """Print what a turn of a conversation keeps of a writer, with its sources."""
    from drt._written import marked_text, writing_head

    say(one_line(writing_head(writing)))
    if writing.sentences:
        say(one_line(marked_text(writing)))
    _print_numbered(writing.sources)


def written_markdown(writing: WrittenText | None) -> list[str]:
    """Return lines of Markdown of what a writer wrote, to stand before drt's own answer."""
    if writing is None:
        return []
    from drt._written import marked_text, writing_head

    lines = [markdown(writing_head(writing)), ""]
    if writing.sentences:
        lines += [markdown(marked_text(writing)), ""]
    for number, citation in sorted(writing.sources.items()):
        source = f"{place(citation)}: {citation.quote}"
        lines.append(f"- [{number}] {markdown(source)}")
    lines += [""] if writing.sources else []
    return [*lines, "Quotes:", ""]


def _print_numbered(sources: Mapping[int, Citation]) -> None:
    for number, citation in sorted(sources.items()):
        say(f"[{number}] {place(citation)}")
        say(f"  {one_line(citation.quote)}", hanging=2)


def _print_sources(result: WrittenAnswer) -> None:
    if result.state in HEADS:
        say(HEADS[result.state], bold=True)
    if result.sources:
        click.echo()
    _print_numbered(result.sources)
    if result.sentences or result.state in HEADS:
        click.echo("\nQuotes:")
    print_answer(result.answer)
