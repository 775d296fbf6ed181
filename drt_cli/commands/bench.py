"""Times parts of the program; prints a table or the documented JSON."""

from __future__ import annotations

from typing import Any, Literal, get_args

import click

from drt_cli._options import Settings, TokensType, json_option, with_global_options
from drt_cli._output import print_json
from drt_cli._report import print_report

Name = Literal[
    "ingest",
    "ask",
    "retrieve",
    "library",
    "documents",
    "decode",
    "kernels",
    "train",
    "models",
    "pdf",
    "index",
    "serve",
]


@with_global_options()
@click.command("bench")
@click.argument("name", type=click.Choice(get_args(Name)))
@click.option("--repetitions", type=click.IntRange(min=1), help="How often each part is timed.")
@click.option(
    "--tokens",
    type=TokensType(),
    help="Number of made-up tokens, such as 4096, 16k (thousands) or 64M (millions).",
)
@click.option(
    "--file", type=click.Path(exists=True, dir_okay=False), help="A document to read instead."
)
@click.option("--question", metavar="TEXT", help="The question to ask.")
@click.option(
    "--questions",
    type=click.Path(exists=True, dir_okay=False),
    help="With ask: a .jsonl file of questions that are asked as well.",
)
@click.option(
    "--pages",
    type=click.IntRange(min=1),
    help="Pages of the PDF files of pdf; a file five times as long measures the memory."
    "  [default: 600]",
)
@click.option(
    "--files",
    type=click.IntRange(min=1),
    help="Small files that library reads, then again unchanged, or that ingest --workers reads;"
    " documents of the largest library of documents; uploads beside the questions of serve."
    "  [default: 1000, 48, 10000, 0]",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False),
    help="Where library, documents and index make what is large, keep it, and use it again.",
)
@click.option(
    "--shards",
    type=click.IntRange(1, 1000),
    help="Over how many libraries like their large one library and index simulate a question.",
)
@click.option(
    "--shape",
    type=click.Choice(["small", "128m"]),
    help="Model size for kernels, decode, train and models.  [default: small]",
)
@click.option(
    "--compile",
    is_flag=True,
    default=None,
    help="Time a compiled training step, too; compiling takes minutes.",
)
@click.option(
    "--lists",
    type=click.IntRange(1, 65_536),
    help="Groups of landmarks of index.  [default: twice the root of their number]",
)
@click.option(
    "--approximate",
    is_flag=True,
    default=None,
    help="With library: ask with an approximate index, too, which is made for it.",
)
@click.option(
    "--plan",
    metavar="PRESET",
    help="With train: memory and predicted rate of training this model, such as drt-3b.",
)
@click.option("--ranks", type=click.IntRange(1, 65_536), help="Processes of --plan.  [default: 1]")
@click.option(
    "--flops",
    type=click.FloatRange(min=0, min_open=True),
    help="Operations a second of a process of --plan, such as 4e14.  [default: this machine's]",
)
@click.option(
    "--clients", type=click.IntRange(1, 512), help="Clients that ask serve.  [default: 64]"
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="How long they ask.  [default: 60]",
)
@click.option(
    "--max-wait",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Longest wait of a question to serve; others are refused and ask again when told to."
    "  [default: none is refused]",
)
@click.option(
    "--steps",
    is_flag=True,
    default=None,
    help="Let 2, 4, 8 and so on clients ask serve, too, each for as long.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    help="How long models may take; it repeats what it times less often, and leaves out the rest.",
)
@click.option(
    "--results",
    type=click.Path(dir_okay=False),
    help="A file that keeps the rows of models as they are done; those in it are not timed again.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=2),
    metavar="N",
    help="Let N workers and one read small files for ingest, in turns, each on one thread; or let N"
    " servers and one answer from one library for serve.",
)
@click.option(
    "--ray",
    type=click.Choice(["local"]),
    help="Let these workers be those of a Ray on this machine.  [with --workers, default: 2]",
)
@json_option
@click.pass_obj
def command(
    settings: Settings,
    /,
    name: Name,
    as_json: bool,
    **options: Any,
) -> None:
    """Time the parts of the program: ingest, ask, decode, train, pdf and more.

    Every time is shown next to something timed in the same run, since machines differ. NAME is
    ingest, ask, retrieve or library (the parts of reading and asking), documents (work with a
    library of many small documents, by their number), index (exact and approximate scans of made-up
    landmarks, which needs the extra faiss), decode (tokens that a model writes), kernels (grouped
    cross-attention and its alternatives), train (a step of a new model), models (the models of the
    paper beside each other; --tokens is the longest prompt), pdf (pages of PDF files, with the
    place of every character) or serve (many clients that ask one server, or several of one library,
    which needs the extra serve). What cannot run on this machine is left out and reported on
    stderr.
    """
    from drt import bench

    result = bench(name, **options, **settings.runtime())
    if as_json:
        print_json(result)
    else:
        print_report(result)
