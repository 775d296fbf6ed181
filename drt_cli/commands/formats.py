"""Formats that can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import note, print_json, print_table
from drt_cli._text import one_line

if TYPE_CHECKING:
    from drt import FormatInfo

_SHOWN_SUFFIXES = 7


@with_global_options()
@click.command("formats")
@click.option("--all", "every", is_flag=True, help="Show every suffix.")
@json_option
@click.pass_obj
def command(settings: Settings, /, every: bool, as_json: bool) -> None:
    """List the formats that can be read, and what each needs.

    Files with other suffixes are recognised by their content. Packages can add formats (entry
    points of the group drt.readers).

    Example: drt formats --json
    """
    from drt import formats

    found = formats()
    if as_json:
        print_json({"formats": [one.to_dict() for one in found]})
        return
    print_table([(one_line(one.label), _suffixes(one, every), _state(one)) for one in found])
    missing = sorted({one.extra for one in found if one.extra and not one.installed})
    if missing:
        note(settings, f'\nMissing: pip install "drt-assistant[{",".join(missing)}]"')


def _suffixes(one: FormatInfo, every: bool) -> str:
    shown = one.suffixes if every else one.suffixes[:_SHOWN_SUFFIXES]
    left = len(one.suffixes) - len(shown)
    return one_line(" ".join(shown) + (f" and {left} more" if left else ""))


def _state(one: FormatInfo) -> str:
    """Return whether it can be read, and what it needs."""
    if one.problem is not None:
        return one_line(f"broken plug-in of {one.plugin}: {one.problem}")
    origin = f"plug-in of {one.plugin}" if one.plugin else ""
    needs = f"extra {one.extra}" if one.extra else f"package {one.package}" if one.package else ""
    state = f"{needs} (missing)" if needs and not one.installed else needs
    return one_line(", ".join(part for part in (origin, state) if part) or "built in")
