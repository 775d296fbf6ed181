"""What a bug report contains: the machine, the packages, the library, and a self-test."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from drt_cli._errors import DONE, FAILED
from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import print_json, say
from drt_cli._settings import SETTINGS_PROBLEM, settings_path
from drt_cli._text import one_line

if TYPE_CHECKING:
    from drt import DoctorCheck

_NAME_WIDTH = 14


@with_global_options()
@click.command("doctor")
@json_option
@click.pass_context
def command(ctx: click.Context, /, as_json: bool) -> int:
    """Check that drt works here; print what a bug report needs.

    Shows versions, the processor and its instruction sets, the type to compute in and why, the
    library, and which extras are missing; then reads a small text, asks a question and compares
    the quote. The exit code is 1 if something is broken.

    \b
    Example: drt doctor --json
    """
    from drt import doctor

    settings = ctx.ensure_object(Settings)
    library = settings.open_library()
    library.expect_one()
    report = doctor(library.path, **settings.runtime())
    report = replace(report, checks=(*report.checks, _settings_check(ctx)))
    if as_json:
        print_json(report.to_dict())
    else:
        for check in report.checks:
            _print(check)
        click.secho("OK" if report.ok else "Not OK: see the lines marked with !", bold=True)
    return DONE if report.ok else FAILED


def _settings_check(ctx: click.Context) -> DoctorCheck:
    """Return the state of the settings file, which only the command line reads."""
    from drt import DoctorCheck

    problem = ctx.meta.get(SETTINGS_PROBLEM)
    if problem is not None:
        return DoctorCheck("settings", str(problem), "problem")
    path = settings_path()
    return DoctorCheck("settings", str(path) if path.exists() else f"none, {path} is not there")


def _print(check: DoctorCheck) -> None:
    mark = {"ok": " ", "note": "-", "problem": "!"}[check.status]
    text = one_line(check.value) + (f"; {one_line(check.remedy)}" if check.remedy else "")
    say(f"{mark} {check.name:<{_NAME_WIDTH}}{text}", hanging=2 + _NAME_WIDTH)
