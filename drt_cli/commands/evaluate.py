"""Measures a model; prints a table or the documented JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import print_json
from drt_cli._text import printable

Function = TypeVar("Function", bound=Callable[..., Any])
FILE = click.Path(exists=True, dir_okay=False)


@with_global_options()
@click.group("eval")
def command() -> None:
    """Measure a model beside its baselines."""


def _lengths(ctx: click.Context, parameter: click.Parameter, value: str | None) -> list[int] | None:
    """Token counts out of a comma-separated list such as 4k,64k,1m."""
    return None if value is None else [_length(part) for part in value.split(",")]


def _length(text: str) -> int:
    units = {"k": 1024, "m": 1024 * 1024}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    if not number.isdecimal() or int(number) == 0:
        raise click.BadParameter(f"{text!r} is no number of tokens; write 4096, 64k or 1m.")
    return int(number) * unit


def _questions(function: Function) -> Function:
    """Options of the evaluations on questions."""
    for decorate in (
        click.option("--reread/--no-reread", default=True, help="Re-reading, or none."),
        click.option(
            "--retriever",
            type=click.Choice(["hybrid", "landmark", "lexical"]),
            help="Where candidate chunks come from.",
        ),
        click.option("--source", metavar="NAME", help="Only questions of this data source."),
        click.option("--limit", type=click.IntRange(min=1), help="At most this many questions."),
        click.option("--docs", required=True, type=FILE, help="Documents, .jsonl or .jsonl.xz."),
        click.option("--qa", required=True, type=FILE, help="Questions, .jsonl or .jsonl.xz."),
    ):
        function = decorate(function)
    return function


@with_global_options()
@command.command("qa")
@_questions
@json_option
@click.pass_obj
def qa(settings: Settings, /, as_json: bool, **options: Any) -> None:
    """Measure answers to questions: F1, EM, and what is not in the document."""
    _run("qa", settings, options, as_json=as_json)


@with_global_options()
@command.command("retrieval")
@_questions
@json_option
@click.pass_obj
def retrieval(settings: Settings, /, as_json: bool, **options: Any) -> None:
    """Measure whether the evidence is among the retrieved chunks."""
    _run("retrieval", settings, options, as_json=as_json)


@with_global_options()
@command.command("needle")
@click.option("--corpus", required=True, type=FILE, help="Text to hide needles in.")
@click.option(
    "--lengths",
    callback=_lengths,
    default="4k,16k",
    show_default=True,
    help="Document lengths in tokens.",
)
@click.option("--needles", type=click.IntRange(min=1), help="Documents of each length.")
@click.option("--hops", type=click.IntRange(1, 2), default=1, show_default=True, help="Hops.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the choice.")
@json_option
@click.pass_obj
def needle(settings: Settings, /, as_json: bool, **options: Any) -> None:
    """Measure whether one hidden sentence is found."""
    _run("needle", settings, options, as_json=as_json)


@with_global_options()
@command.command("ppl")
@click.argument("corpus", type=FILE)
@click.option("--length", callback=_lengths, help="Tokens of each document to read.")
@json_option
@click.pass_obj
def ppl(settings: Settings, /, corpus: str, length: list[int] | None, as_json: bool) -> None:
    """Measure perplexity with retrieval and without."""
    options = {"corpus": corpus, "length": length[0] if length else None}
    _run("ppl", settings, options, as_json=as_json)


@with_global_options()
@command.command("summary")
@click.argument("data", type=FILE)
@click.option("--limit", type=click.IntRange(min=1), help="At most this many documents.")
@click.option("--source", metavar="NAME", help="Only documents of this data source.")
@json_option
@click.pass_obj
def summary(settings: Settings, /, as_json: bool, **options: Any) -> None:
    """Measure summaries against references: ROUGE."""
    _run("summary", settings, options, as_json=as_json)


def _run(task: Any, settings: Settings, options: dict[str, Any], *, as_json: bool) -> None:
    from drt import evaluate, report_table

    result = evaluate(task, **settings.runtime(), **options)
    if as_json:
        print_json(result)
    else:
        click.echo(printable(report_table(result)))
