"""Measures a model; prints a table or the documented JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import print_json
from drt_cli._report import print_report

Function = TypeVar("Function", bound=Callable[..., Any])
FILE = click.Path(exists=True, dir_okay=False)
_records = click.option(
    "--records",
    type=click.Choice(["int8", "bf16"]),
    help="Type of the stored chunk memory: int8 (default), or bf16 to measure the cost of int8.",
)
_keep = click.option(
    "--keep",
    metavar="FOLDER",
    type=click.Path(file_okay=False),
    help="Keep what is read of the documents in this folder, and use it again. Another version of "
    "drt wants another folder.",
)


class _WithPlugins(click.Group):
    """The built-in evaluations, and for other names the evaluators of plug-ins."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        built_in = super().get_command(ctx, cmd_name)
        if built_in is not None:
            return built_in
        from drt._plugins import plugin_names

        return _evaluator(cmd_name) if cmd_name in plugin_names("evaluator") else None


@with_global_options()
@click.group("eval", cls=_WithPlugins)
def command() -> None:
    """Measure a model next to its baselines.

    An evaluator of a plug-in is a command, too: drt eval NAME OPTION=VALUE. drt plugins lists them.
    """


def _lengths(
    _ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> list[int] | None:
    """Return token counts from a comma-separated list such as 4k,64k,1m."""
    return None if value is None else [_length(part) for part in value.split(",")]


def _one_length(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """Return a token count such as 16k."""
    return None if value is None else _length(value)


def _length(text: str) -> int:
    units = {"k": 1024, "m": 1024 * 1024}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    if not number.isdecimal() or int(number) == 0:
        raise click.BadParameter(f"{text!r} is not a number of tokens; write 4096, 64k or 1m.")
    return int(number) * unit


def _questions(function: Function) -> Function:
    """Add the options of the evaluations on questions."""
    for decorate in (
        click.option(
            "--retriever",
            type=click.Choice(["hybrid", "landmark", "lexical"]),
            help="How to find candidate chunks: by landmarks, by words (BM25), or by both.",
        ),
        click.option("--source", metavar="NAME", help="Only questions of this data source."),
        click.option(
            "--limit", type=click.IntRange(min=1), help="At most this many of each source."
        ),
        click.option(
            "--docs",
            required=True,
            multiple=True,
            type=FILE,
            help="Documents, .jsonl, .jsonl.xz, .md or .txt; may be given again.",
        ),
        click.option(
            "--qa",
            required=True,
            multiple=True,
            type=FILE,
            help="Questions, .jsonl or .jsonl.xz; may be given again.",
        ),
    ):
        function = decorate(function)
    return function


@with_global_options()
@command.command("qa")
@_questions
@click.option(
    "--reread/--no-reread", default=True, help="With the reader pass (default), or without."
)
@click.option("--both", is_flag=True, default=None, help="Both with and without the reader pass.")
@click.option(
    "--given-chunk", is_flag=True, default=None, help="Also measure answers given the right chunk."
)
@_records
@_keep
@json_option
@click.pass_obj
def qa(settings: Settings, /, as_json: bool, **options: Any) -> None:
    """Measure answers to questions: F1, EM, and what is not in the document."""
    _run("qa", settings, options, as_json=as_json)


@with_global_options()
@command.command("retrieval")
@_questions
@click.option(
    "--judged", is_flag=True, default=None, help="Also order the best 8 as the reader judges them."
)
@_records
@_keep
@json_option
@click.pass_obj
def retrieval(settings: Settings, /, as_json: bool, **options: Any) -> None:
    """Measure whether the evidence is among the retrieved chunks."""
    _run("retrieval", settings, options, as_json=as_json)


@with_global_options()
@command.command("files")
@click.argument("questions", type=FILE)
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.option("--limit", type=click.IntRange(min=1), help="At most this many of each type.")
@click.option("--file", metavar="NAME", help="Only questions about this file.")
@click.option(
    "--retriever",
    type=click.Choice(["hybrid", "landmark", "lexical"]),
    help="How to find candidate chunks: by landmarks, by words (BM25), or by both.",
)
@click.option("--lexical", is_flag=True, default=None, help="Also measure BM25 alone.")
@click.option(
    "--joint", is_flag=True, default=None, help="Ask all files as one library, not each by itself."
)
@click.option(
    "--among",
    type=click.Path(exists=True, file_okay=False),
    metavar="LIBRARY",
    help="Ask this library, which holds the files and others: all of it with --joint.",
)
@click.option(
    "--reread/--no-reread", default=None, help="With the reader pass (default), or without."
)
@click.option(
    "--without",
    multiple=True,
    metavar="SOURCE",
    help="Switch a source of answers off: metadata, table or reader; may be repeated.",
)
@click.option("--only", metavar="SOURCE", help="Switch all other sources of answers off.")
@click.option(
    "--mode", type=click.Choice(["quote", "free"]), help="Judge quotes, or text the model writes."
)
@_records
@_keep
@json_option
@click.pass_obj
def files(settings: Settings, /, as_json: bool, **options: Any) -> None:
    """Measure answers about files of your own.

    QUESTIONS is a .jsonl file with a line for each question: "file" (its name in FOLDER), "type",
    "question", and "answer", a regular expression that a right quote matches, or null if the file
    has no answer.
    """
    _run("files", settings, options, as_json=as_json)


_hops = click.option(
    "--hops",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="Statements that an answer needs.",
)


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
@click.option("--needles", type=click.IntRange(min=1), help="Needles hidden at each length.")
@_hops
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@click.option(
    "--reread/--no-reread", default=None, help="With the reader pass (default), or without."
)
@_records
@json_option
@click.pass_obj
def needle(settings: Settings, /, as_json: bool, **options: Any) -> None:
    """Measure whether one hidden sentence is found."""
    _run("needle", settings, options, as_json=as_json)


@with_global_options()
@command.command("passkey")
@click.option(
    "--lengths",
    callback=_lengths,
    default="4k,16k,64k",
    show_default=True,
    help="Context lengths in tokens.",
)
@click.option("--cases", type=click.IntRange(min=1), help="Passkeys hidden at each length.")
@click.option("--answer", type=click.IntRange(min=1), help="Symbols of a passkey.")
@_hops
@click.option("--noise", type=click.IntRange(min=0), help="Other passkeys in each context.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False),
    help="Where chunk memory is kept while a context is read; the system's temporary folder if "
    "not given.",
)
@json_option
@click.pass_obj
def passkey(settings: Settings, /, as_json: bool, **options: Any) -> None:
    """Measure whether hidden symbols are found, in contexts of up to millions of tokens.

    For a model that was trained on passkeys. The context is random symbols; a DRT keeps its memory
    on disk, so that main memory does not grow with the length.
    """
    _run("passkey", settings, options, as_json=as_json)


_choices = click.option(
    "--choice",
    "choices",
    multiple=True,
    metavar="NAME",
    type=click.Choice(["own", "none", "random", "recent", "oracle"]),
    callback=lambda _ctx, _parameter, value: value or None,
    help="Chunks that a DRT reads: own, none, random, recent or oracle; may be given again, the "
    "first as the model's (default: all, with ppl --lengths its own).",
)


@with_global_options()
@command.command("records")
@click.option(
    "--lengths",
    callback=_lengths,
    default="256,1k",
    show_default=True,
    help="Lengths of rows in tokens.",
)
@click.option("--rows", type=click.IntRange(min=1), help="Rows of each length (default: 8).")
@click.option("--names", type=click.IntRange(min=2), help="Names in a row (default: 12).")
@click.option("--values", type=click.IntRange(min=1), help="Values of a name (default: 3).")
@click.option("--apart", type=click.IntRange(min=0), help="Others before a name returns.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@_choices
@json_option
@click.pass_obj
def records(settings: Settings, /, as_json: bool, **options: Any) -> None:
    """Measure copies of earlier records, by which chunks are read.

    For a model that was trained on records. Each chunk is a record: a name, its values, and the
    name of the next record, whose values stood before, beyond the window. The numbers are nats of
    such a value; by guessing it is the logarithm of how many values there are.
    """
    _run("records", settings, options, as_json=as_json)


@with_global_options()
@command.command("ppl")
@click.argument("corpus", type=FILE)
@click.option("--length", callback=_one_length, help="Tokens of one context.")
@click.option(
    "--lengths",
    callback=_lengths,
    help="Several lengths of contexts over the joined documents, read in segments: 2k,16k,256k.",
)
@click.option(
    "--memory",
    type=click.Choice(["device", "cpu", "disk"]),
    help="Where the memory of chunks is kept with --lengths (default: device).",
)
@click.option("--limit", callback=_one_length, help="At most this many tokens in all.")
@_choices
@click.option(
    "--window",
    type=click.IntRange(min=1),
    help="Tokens that far copies are beyond (default: the model's window).",
)
@json_option
@click.pass_obj
def ppl(settings: Settings, /, as_json: bool, **options: Any) -> None:
    """Measure perplexity: of all tokens, and of far copies.

    A far copy is a token that stood before, beyond the window, behind the same three tokens. A DRT
    is also measured without retrieval and with random, recent and oracle chunks: the oracle knows
    which chunks share most with the next one.
    """
    _run("ppl", settings, options, as_json=as_json)


@with_global_options()
@command.command("summary")
@click.argument("data", type=FILE)
@click.option("--limit", type=click.IntRange(min=1), help="At most this many of each source.")
@click.option("--source", metavar="NAME", help="Only documents of this data source.")
@click.option(
    "--mode",
    type=click.Choice(["auto", "extractive", "abstractive"]),
    help="How to make summaries.",
)
@click.option("--both", is_flag=True, default=None, help="Both extractive and abstractive.")
@json_option
@click.pass_obj
def summary(settings: Settings, /, as_json: bool, **options: Any) -> None:
    """Measure summaries against references: ROUGE."""
    _run("summary", settings, options, as_json=as_json)


@with_global_options()
@command.command("summary-lm")
@click.argument("data", type=FILE)
@click.option("--limit", type=click.IntRange(min=1), help="At most this many of each source.")
@click.option("--source", metavar="NAME", help="Only documents of this data source.")
@click.option(
    "--chunks", type=click.IntRange(min=1), help="Chunks of a document that are read (default: 64)."
)
@click.option(
    "--longest", type=click.IntRange(min=2), help="Most tokens of a summary (default: 256)."
)
@click.option("--write", is_flag=True, default=None, help="Write summaries, too, for ROUGE.")
@json_option
@click.pass_obj
def summary_lm(settings: Settings, /, as_json: bool, **options: Any) -> None:
    """Measure a language model on summaries: perplexity, and ROUGE of what it writes.

    For a model that was trained on summaries, of any architecture.
    """
    _run("summary-lm", settings, options, as_json=as_json)


@with_global_options()
@command.command("calibrate")
@_questions
@click.option(
    "--out",
    required=True,
    type=click.Path(exists=True, file_okay=False),
    help="Model folder to write calibration.json to.",
)
@click.option(
    "--also",
    type=(FILE, FILE),
    multiple=True,
    metavar="QA DOCS",
    help="More questions and their documents; may be repeated.",
)
@click.option(
    "--files",
    type=(FILE, click.Path(exists=True, file_okay=False)),
    multiple=True,
    metavar="QUESTIONS FOLDER",
    help="Questions about files, as of drt eval files; may be repeated.",
)
@click.option(
    "--among",
    type=click.Path(exists=True, file_okay=False),
    metavar="LIBRARY",
    help="Ask this library about the files of --files: each by itself, and all of it.",
)
@click.option(
    "--plot", type=click.Path(dir_okay=False), help="Write a reliability diagram to this file."
)
@click.option(
    "--quotes-only",
    is_flag=True,
    default=None,
    help="Fit the quote probability alone, and keep the confidence of the model.",
)
@click.option(
    "--only",
    metavar="NAME",
    help="Fit one calibration and keep the others: reread, stored or decoder.",
)
@_keep
@json_option
@click.pass_obj
def calibrate(settings: Settings, /, as_json: bool, **options: Any) -> None:
    """Fit confidence, quote probability and their thresholds; write them to a model."""
    _run("calibrate", settings, options, as_json=as_json)


def _evaluator(name: str) -> click.Command:
    """Return the command of a plug-in's evaluator, which takes its options as NAME=VALUE."""

    @with_global_options()
    @click.command(name)
    @click.argument("values", nargs=-1, metavar="[OPTION=VALUE]...")
    @json_option
    @click.pass_obj
    def run(settings: Settings, /, values: tuple[str, ...], as_json: bool) -> None:
        """Measure with the evaluator of a plug-in."""
        for value in values:
            if "=" not in value:
                raise click.UsageError(f"{value!r} is no OPTION=VALUE.")
        options = dict(value.split("=", 1) for value in values)
        for option in options.keys() & {"model", "device", "threads", "dtype", "quiet", "task"}:
            raise click.UsageError(f"{option} is an option of drt: --{option}.")
        _run(name, settings, options, as_json=as_json)

    return run


def _run(task: Any, settings: Settings, options: dict[str, Any], *, as_json: bool) -> None:
    from drt import evaluate

    result = evaluate(task, **settings.runtime(), quiet=settings.quiet, **options)
    if as_json:
        print_json(result)
    else:
        print_report(result)
