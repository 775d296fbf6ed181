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
@click.option("--all", "all_suffixes", is_flag=True, help="Show every suffix.")
@json_option
@click.pass_obj
def command(settings: Settings, /, all_suffixes: bool, as_json: bool) -> None:
    """List the formats that can be read, and what each needs.

    Files with other suffixes are recognised by their content. Packages can add formats (entry
    points of the group drt.readers).

    Example: drt formats --json
    """
    from drt import formats

    entries = formats()
    if as_json:
        print_json({"formats": [entry.to_dict() for entry in entries]})
        return
    print_table(
        [
            (one_line(entry.label), _suffixes(entry, all_suffixes), _state(entry))
            for entry in entries
        ]
    )
    missing = sorted({entry.extra for entry in entries if entry.extra and not entry.installed})
    if missing:
        note(settings, f'\nMissing: pip install "drt-assistant[{",".join(missing)}]"')


def _suffixes(entry: FormatInfo, all_suffixes: bool) -> str:
    shown = entry.suffixes if all_suffixes else entry.suffixes[:_SHOWN_SUFFIXES]
    left = len(entry.suffixes) - len(shown)
    return one_line(" ".join(shown) + (f" and {left} more" if left else ""))


def _state(entry: FormatInfo) -> str:
    """Return whether it can be read, and what it needs."""
    if entry.problem is not None:
        return one_line(f"broken plug-in of {entry.plugin}: {entry.problem}")
    origin = f"plug-in of {entry.plugin}" if entry.plugin else ""
    needs = f"package {entry.package}" if entry.package else ""
    if entry.extra:
        needs = f"extra {entry.extra}"
    state = f"{needs} (missing)" if needs and not entry.installed else needs
    return one_line(", ".join(part for part in (origin, state) if part) or "built in")
