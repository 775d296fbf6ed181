"""Printing what a writer writes: where text is sent, verified sentences, and their sources."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ._errors import report
from ._options import Settings
from ._output import note, place, print_answer, print_json, print_line, say
from ._text import one_line, printable

if TYPE_CHECKING:
    from drt import WriterOptions, Writing, WrittenAnswer

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
            metavar="URL|PLUGIN",
            help="Let the language model at this address write; it speaks OpenAI's chat"
            " completions. Or the name of a plug-in's writer.",
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
    if model is None and ":" in url:
        raise click.UsageError("--writer needs --writer-model, the name of its model.")
    from drt import WriterOptions

    key = os.environ.get(KEY) or None
    return WriterOptions(url, model or "", key=key, timeout=timeout, strict=strict)


def print_writing(writing: Writing, settings: Settings, *, as_json: bool, as_lines: bool) -> bool:
    """Print a writer's sentences as they come, and drt's own quotes; return whether it wrote."""
    note(settings, writing.sent)
    for sentence in writing:
        if as_lines:
            print_line({"type": "sentence", **sentence.to_dict()})
        elif not as_json:
            mark = "" if sentence.supported else f" [unsupported: {sentence.problem}]"
            say(printable(f"{one_line(sentence.text)}{mark}"))
    result = writing.result
    assert result is not None
    if result.problem:
        report(result.problem)
    if as_json:
        print_json(result.to_dict())
    elif as_lines:
        print_line({"type": "answer", **result.to_dict()})
    else:
        _print_sources(result)
    return result.state != "failed"


def _print_sources(result: WrittenAnswer) -> None:
    if result.state in HEADS:
        say(HEADS[result.state], bold=True)
    if result.sources:
        click.echo()
    for number, citation in sorted(result.sources.items()):
        say(f"[{number}] {place(citation, share=False)}")
        say(f"  {one_line(citation.quote)}", hanging=2)
    if result.sentences or result.state in HEADS:
        click.echo("\nQuotes:")
    print_answer(result.answer)
