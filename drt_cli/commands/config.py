"""The settings file: what options are where neither the command line nor the environment says."""

from __future__ import annotations

import click

from drt_cli._errors import DONE, FAILED, CliError
from drt_cli._groups import HintingGroup
from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import note, print_json, say
from drt_cli._settings import (
    converted,
    load_settings,
    option_of,
    parsed_value,
    settings_path,
    toml_value,
    value_without_setting,
    write_setting,
)
from drt_cli._text import printable


@with_global_options()
@click.group("config", cls=HintingGroup)
def command() -> None:
    """Get and set the defaults of options.

    A setting is named after an option, such as threads. An option of a single command has the name
    of the command in front, such as ask.top-k.

    \b
    Example: drt config set ask.top-k 12
    """


@with_global_options()
@command.command("get")
@click.argument("name", metavar="NAME")
@click.pass_context
def get(ctx: click.Context, name: str) -> int:
    """Print a setting; if it is not set, say what holds, with exit code 1.

    \b
    Example: drt config get ask.top-k
    """
    option = option_of(ctx.find_root().command, name)
    name = name.replace("_", "-")
    value = load_settings().get(name)
    if value is None:
        holds = value_without_setting(ctx, option, name)
        note(ctx.obj or Settings(), f"{name} is not set in {settings_path()}; {holds}.")
        return FAILED
    click.echo(printable(value if isinstance(value, str) else toml_value(value)))
    return DONE


@with_global_options()
@command.command("set")
@click.argument("name", metavar="NAME")
@click.argument("value", metavar="VALUE")
@click.pass_context
def set_(ctx: click.Context, name: str, value: str) -> None:
    """Set a setting; its value is checked like the option's.

    \b
    Example: drt config set threads 2
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise CliError("the value is not text in UTF-8, which the file is written in.") from None
    option = option_of(ctx.find_root().command, name)
    parsed = parsed_value(option, value)
    converted(ctx, option, name, parsed)
    if name == "model":
        from drt import model_info

        model_info(value)  # raises where there is none
    write_setting(name, parsed)


@with_global_options()
@command.command("unset")
@click.argument("name", metavar="NAME")
@click.pass_context
def unset(ctx: click.Context, name: str) -> None:
    """Remove a setting, if it is set.

    \b
    Example: drt config unset threads
    """
    option_of(ctx.find_root().command, name)
    write_setting(name, None)


@with_global_options()
@command.command("list")
@json_option
@click.pass_obj
def list_(settings: Settings | None, /, as_json: bool) -> None:
    """List all settings.

    \b
    Example: drt config list
    """
    settings_values = load_settings()
    if as_json:
        print_json(settings_values)
        return
    if not settings_values:
        note(settings or Settings(), f"There are no settings in {settings_path()}.")
    for name, value in settings_values.items():
        say(printable(f"{name} = {toml_value(value)}"), hanging=2)


@with_global_options()
@command.command("path")
def path() -> None:
    """Print the path of the settings file.

    \b
    Example: drt config path
    """
    click.echo(printable(str(settings_path())))
