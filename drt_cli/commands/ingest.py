"""Reads documents into the library."""

from __future__ import annotations

import click

from drt_cli._errors import DONE, FAILED, PARTLY
from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import note, print_json, read_paths
from drt_cli._text import one_line


@with_global_options()
@click.command("ingest")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@json_option
@click.pass_obj
def command(settings: Settings, /, paths: tuple[str, ...], as_json: bool) -> int:
    """Read documents into the library.

    PATH is a file, a folder (read with everything below it), a pattern, or "-" for standard
    input. An unchanged document is not read again; an interrupted reading continues. A document
    that cannot be read stops no other: the exit code is then 3.
    """
    with settings.assistant() as assistant:
        report = read_paths(assistant, paths, settings)
    if as_json:
        print_json(report.to_dict())
    else:
        for document in report.documents:
            state = "read" if document.new else "unchanged"
            title = one_line(document.title)
            click.echo(f"{state}  {document.id}  {title}  ({document.tokens:,} tokens)")
        if report.skipped:
            note(settings, f"Passed over, of types no reader knows: {report.skipped} file(s).")
        if report.tokens:
            rate = report.tokens / max(report.seconds, 1e-9)
            note(settings, f"{report.tokens:,} tokens in {report.seconds:.1f} s, {rate:,.0f}/s")
    if not report.failures:
        return DONE
    return PARTLY if report.documents else FAILED
