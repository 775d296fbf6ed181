"""The documents of a library; loads no model."""

from __future__ import annotations

import sys

import click

from drt_cli._errors import DONE, FAILED
from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import note, print_json, print_table
from drt_cli._text import one_line, printable


@with_global_options()
@click.group("library")
def command() -> None:
    """List, show, remove and check documents."""


@with_global_options()
@command.command("list")
@json_option
@click.pass_obj
def list_documents(settings: Settings, /, as_json: bool) -> None:
    """List the documents."""
    library = settings.open_library()
    documents = library.documents()
    if as_json:
        rows = [document.to_dict() for document in documents]
        print_json({"library": str(library.path), "documents": rows})
        return
    if not documents:
        note(settings, f"The library at {library.path} holds no documents; drt ingest reads some.")
    print_table(
        [
            (one.id, f"{one.tokens:,} tokens", one_line(one.title), one_line(one.source))
            for one in documents
        ],
        right=[1],
    )


@with_global_options()
@command.command("show")
@click.argument("document", metavar="DOC")
@click.option("--text", "as_text", is_flag=True, help="Print its text, which citations count in.")
@click.option("--start", type=click.IntRange(min=0), default=0, help="First character of --text.")
@click.option("--end", type=click.IntRange(min=0), help="Character after the last of --text.")
@json_option
@click.pass_obj
def show(
    settings: Settings, /, document: str, as_text: bool, start: int, end: int | None, as_json: bool
) -> None:
    """Show one document, by id, title or source."""
    library = settings.open_library()
    if as_text:
        text = library.text(document, start, end)
        # Exact where a program reads it; harmless where a terminal does.
        shown = sys.stdout.isatty()
        click.echo(printable(text) if shown else text, nl=shown)
        return
    found = library.show(document)
    if as_json:
        print_json(found.to_dict())
        return
    for name, value in found.to_dict().items():
        if name != "new":
            click.echo(f"{name:<10}  {one_line(str(value))}")


@with_global_options()
@command.command("remove")
@click.argument("documents", nargs=-1, required=True, metavar="DOC...")
@click.pass_obj
def remove(settings: Settings, /, documents: tuple[str, ...]) -> None:
    """Remove documents, by id, title or source."""
    library = settings.open_library()
    for document in documents:
        removed = library.remove(document)
        click.echo(f"removed  {removed.id}  {one_line(removed.title)}")


@with_global_options()
@command.command("check")
@json_option
@click.pass_obj
def check(settings: Settings, /, as_json: bool) -> int:
    """Compare catalogue and files; exit code 1 where something was lost."""
    library = settings.open_library()
    findings = library.check()
    if as_json:
        print_json({"findings": [finding.to_dict() for finding in findings]})
    else:
        for finding in findings:
            click.echo(printable(f"{finding.severity}: {finding.where}: {finding.message}"))
    if not findings:
        note(settings, f"The library at {library.path} is consistent.")
    lost = any(finding.severity == "error" for finding in findings)
    return FAILED if lost else DONE


@with_global_options()
@command.command("stats")
@json_option
@click.pass_obj
def stats(settings: Settings, /, as_json: bool) -> None:
    """Count documents, tokens and bytes."""
    values = settings.open_library().stats()
    if as_json:
        print_json(values)
        return
    for name, value in values.items():
        shown = f"{value:,}" if isinstance(value, int) else one_line(str(value))
        click.echo(f"{name:<20}  {shown}")
