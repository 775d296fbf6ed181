"""The helper process that has the model loaded: what it is, and its end; loads no model."""

from __future__ import annotations

import sys
import time

import click

from drt_cli._errors import FAILED, CliError, report
from drt_cli._groups import HintingGroup
from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import note, print_fields, print_json


@with_global_options()
@click.group("warm", cls=HintingGroup)
def command() -> None:
    """Show, start or end the helper process that has the model loaded.

    The first ask, search, summarize, trace or chat on a terminal starts it in the background, the
    next ones answer from it. It ends after --idle-minutes without commands. With --warm on (or
    warm = on in the settings) this is so off a terminal too, with --warm off never. A drt serve
    that is started so answers them as well, with the model that it has in memory, until it ends.

    \b
    Example: drt warm status
    """
    if sys.platform != "linux":
        raise CliError("the helper process needs Linux; elsewhere each command loads the model.")


@with_global_options()
@command.command("status")
@json_option
@click.pass_obj
def status(settings: Settings, /, as_json: bool) -> None:
    """Show the helper process, if one runs."""
    from drt_cli._warm.start import current_helper

    helper = current_helper()
    if as_json:
        print_json({"helper": None if helper is None else helper.to_dict()})
    elif helper is None:
        note(settings, "No helper process runs.")
    else:
        minutes = (time.time() - helper.began) / 60
        # The pid is a name, not an amount: without commas between its digits.
        words = {"pid": str(helper.pid), "began": f"{minutes:,.1f} minutes ago"}
        print_fields(helper.to_dict() | words)


@with_global_options()
@command.command("start")
@click.pass_obj
def start(settings: Settings, /) -> None:
    """Start a helper process with the model in the background, and do not wait for the model."""
    from drt_cli._warm.place import warm_folder
    from drt_cli._warm.start import current_helper, has_begun, start_helper

    pid = start_helper(settings)
    if not (current_helper() if pid is None else has_begun(pid)):
        raise CliError(f"no helper process could be started; its folder is {warm_folder()}.")


@with_global_options()
@command.command("stop")
@click.pass_obj
def stop(settings: Settings, /) -> int | None:
    """End the helper process; commands that it runs are finished."""
    from drt_cli._warm.place import opened_folder
    from drt_cli._warm.start import current_helper, stop_helper

    helper = current_helper()
    if helper is None:
        note(settings, "No helper process runs.")
        return None
    with opened_folder() as folder:
        if not stop_helper(folder, helper):
            report(f"the helper process {helper.pid} does not end; kill it.")
            return FAILED
    note(settings, f"The helper process {helper.pid} has ended.")
    return None
