"""Models on this machine."""

from __future__ import annotations

import sys
from typing import Literal

import click

from drt_cli._groups import HintingGroup
from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import print_json, print_table, say
from drt_cli._text import printable, reflowed


@with_global_options()
@click.group("model", cls=HintingGroup)
def command() -> None:
    """List, describe, verify and convert models."""


@with_global_options()
@command.command("list")
@json_option
def list_models(as_json: bool) -> None:
    """List the models that come with the package."""
    from drt import models

    infos = models()
    if as_json:
        print_json({"models": [model.to_dict() for model in infos]})
        return
    print_table(
        [(model.name, f"{model.bytes / 1e6:.1f} MB", model.path) for model in infos], right=[1]
    )


@with_global_options()
@command.command("info")
@click.argument("name", metavar="[NAME|DIR]", required=False)
@json_option
@click.pass_obj
def info(settings: Settings, /, name: str | None, as_json: bool) -> None:
    """Print a model's card."""
    from drt import model_info

    model = model_info(name or settings.model)
    if as_json:
        print_json(model.to_dict())
    else:
        card = model.card or f"{model.path} has no model card."
        # A terminal has lines of its own; a pipe gets the file as it is.
        say(printable(reflowed(card) if sys.stdout.isatty() else card))


@with_global_options()
@command.command("verify")
@click.argument("name", metavar="[NAME|DIR]", required=False)
@json_option
@click.pass_obj
def verify(settings: Settings, /, name: str | None, as_json: bool) -> None:
    """Load a model and check its files against its configuration."""
    from drt import verify_model

    model = verify_model(name or settings.model)
    if as_json:
        print_json(model.to_dict())
    else:
        say(
            f"{model.name} is sound: {model.parameters:,} parameters, "
            f"fingerprint {model.fingerprint}"
        )


@with_global_options()
@command.command("convert")
@click.argument("source", metavar="NAME|DIR")
@click.argument("out", type=click.Path(), metavar="OUT")
@click.option(
    "--dtype",
    type=click.Choice(["bf16", "fp32"]),
    default="bf16",
    show_default=True,
    help="Type of the written weights.",
)
def convert(source: str, out: str, dtype: Literal["bf16", "fp32"]) -> None:
    """Import an encoder as a model of drt, or export a model of drt as plain tensors.

    A folder with a BERT-like encoder of Hugging Face becomes a model folder OUT that retrieves
    passages and can be trained to answer. A model of drt, by name or folder, becomes safetensors
    and JSON under plain names in OUT, which can be used without drt.
    """
    from drt import convert_model

    click.echo(convert_model(source, out, dtype=dtype))
