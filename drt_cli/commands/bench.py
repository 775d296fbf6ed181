"""Times parts of the program; prints a table or the documented JSON."""

from __future__ import annotations

from typing import Any, Literal, get_args

import click

from drt_cli._options import Settings, TokensType, json_option, with_global_options
from drt_cli._output import print_json
from drt_cli._report import print_report

Name = Literal[
    "ingest", "ask", "retrieve", "library", "decode", "kernels", "train", "models", "pdf", "serve"
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
    "--pages",
    type=click.IntRange(min=1),
    help="Pages of the PDF files of pdf; a file five times as long measures the memory."
    "  [default: 600]",
)
@click.option(
    "--files",
    type=click.IntRange(min=1),
    help="Small files that library reads, and reads again unchanged.  [default: 1000]",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False),
    help="Where library makes its large library, keeps it, and uses it again.",
)
@click.option(
    "--shards",
    type=click.IntRange(1, 1000),
    help="Of how many libraries like its large one library simulates a question.",
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
    "--clients", type=click.IntRange(1, 512), help="Clients that ask serve.  [default: 64]"
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="How long they ask.  [default: 60]",
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
    ingest, ask, retrieve or library (the parts of reading and asking), decode (tokens that a model
    writes), kernels (grouped cross-attention and its alternatives), train (a step of a new model),
    models (the models of the paper beside each other; --tokens is the longest prompt), pdf (pages
    of PDF files, with the place of every character) or serve (many clients that ask one server,
    which needs the extra serve). What cannot run on this machine is left out and reported on
    stderr.
    """
    from drt import bench

    result = bench(name, **options, **settings.runtime())
    if as_json:
        print_json(result)
    else:
        print_report(result)
