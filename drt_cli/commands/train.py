"""Training a model or a tokenizer."""

from __future__ import annotations

import os

import click

from drt_cli._options import Settings, with_global_options


class _ConfigFirst(click.Group):
    """Takes anything but the name of a subcommand as the config file of `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@with_global_options()
@click.group(
    "train",
    cls=_ConfigFirst,
    subcommand_metavar="CONFIG|FOLDER [KEY=VALUE]... | tokenizer CORPUS... --out DIR",
)
def command() -> None:
    """Train a model from a config file, or a tokenizer.

    CONFIG is a TOML file; KEY=VALUE changes one of its settings, as in optim.lr=1e-4. A FOLDER of
    TOML files is trained stage by stage, in the order of their names (10 is after 9). An
    interrupted run resumes from its last checkpoint. Several processes share the work when started
    by torchrun: torchrun --nproc-per-node 2 -m drt_cli train CONFIG optim.accumulate=2
    """


@with_global_options()
@command.command("run", hidden=True)
@click.argument("config", type=click.Path(exists=True))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.pass_obj
def run(settings: Settings, /, config: str, overrides: tuple[str, ...]) -> None:
    """Train a model; prints the run folder."""
    from drt import train

    for override in overrides:
        if "=" not in override:
            raise click.UsageError(f"{override!r} changes no setting; write KEY=VALUE.")
    folder = train(config, overrides, quiet=settings.quiet)
    if os.environ.get("RANK", "0") == "0":  # under torchrun one process speaks for all
        click.echo(folder)


@with_global_options()
@command.command("tokenizer")
@click.argument(
    "corpus",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="CORPUS...",
)
@click.option("--out", required=True, type=click.Path(), help="Folder to write it to.")
@click.option(
    "--vocab-size",
    type=click.IntRange(min=512),
    default=16384,
    show_default=True,
    help="Number of tokens.",
)
def tokenizer(corpus: tuple[str, ...], out: str, vocab_size: int) -> None:
    """Make a byte-level BPE tokenizer from corpus files."""
    from drt import train_tokenizer

    click.echo(train_tokenizer(corpus, out, vocab_size=vocab_size))
