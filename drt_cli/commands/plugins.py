"""The plug-ins that are installed, and which of them cannot be used."""

from __future__ import annotations

import click

from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import note, print_json, print_table
from drt_cli._text import one_line


@with_global_options()
@click.command("plugins")
@json_option
@click.pass_obj
def command(settings: Settings, /, as_json: bool) -> None:
    """List the plug-ins: readers, writers, evaluators and commands of other packages.

    One that cannot be imported is listed with the reason, and not used.

    \b
    Example: drt plugins
    """
    from drt import plugins
    from drt_cli.main import COMMANDS

    infos = plugins(commands=COMMANDS)
    if as_json:
        print_json({"plugins": [plugin.to_dict() for plugin in infos]})
        return
    if not infos:
        note(settings, "There are no plug-ins; docs/plugins.md of drt tells how to write one.")
    print_table(
        [
            (
                plugin.kind,
                one_line(plugin.name),
                one_line(f"{plugin.package} {plugin.version}"),
                plugin.state + (f": {one_line(plugin.problem)}" if plugin.problem else ""),
            )
            for plugin in infos
        ]
    )
