"""Stored conversations; loads no model."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from drt_cli._errors import DONE, FAILED
from drt_cli._files import write_from_library
from drt_cli._groups import HintingGroup
from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import (
    NOT_FOUND,
    counted,
    note,
    place,
    print_json,
    print_table,
    say,
    stored_text,
)
from drt_cli._text import one_line, printable
from drt_cli._writing import print_stored, written_markdown


@with_global_options()
@click.group("session", cls=HintingGroup)
def command() -> None:
    """List, search, show, rename, delete and export conversations."""


@with_global_options()
@command.command("list")
@json_option
@click.pass_obj
def list_sessions(settings: Settings, /, as_json: bool) -> None:
    """List the conversations."""
    sessions = settings.open_library().sessions()
    if as_json:
        print_json({"sessions": [session.to_dict() for session in sessions]})
        return
    if not sessions:
        note(settings, "There are no conversations; drt chat --session NAME begins one.")
    print_table(
        [(one_line(info.name), counted(info.turns, "turn"), info.updated) for info in sessions],
        right=[1],
    )


@with_global_options()
@command.command("show")
@click.argument("name")
@json_option
@click.pass_obj
def show(settings: Settings, /, name: str, as_json: bool) -> None:
    """Show the questions and answers of a conversation."""
    turns = settings.open_library().session_turns(name)
    if as_json:
        print_json({"session": name, "turns": [turn.to_dict() for turn in turns]})
        return
    for turn in turns:
        say(f"> {printable(turn.question)}", bold=True)
        if turn.writing is not None:
            print_stored(turn.writing)
            click.echo("Quotes:")
        say(printable(stored_text(turn.answer, turn.state, turn.citations)))
        for citation in turn.citations:
            say(f"  {place(citation)}")


@with_global_options()
@command.command("rename")
@click.argument("name")
@click.argument("new_name")
@click.pass_obj
def rename(settings: Settings, /, name: str, new_name: str) -> None:
    """Rename a conversation."""
    settings.open_library().rename_session(name, new_name)


@with_global_options()
@command.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def delete(settings: Settings, /, name: str, yes: bool) -> int:
    """Delete a conversation for good."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("A conversation is deleted for good; say --yes to do it unasked.")
    if not yes and not click.confirm(f"Delete {name!r} for good?", err=True):
        return FAILED
    settings.open_library().delete_session(name)
    return DONE


@with_global_options()
@command.command("export")
@click.argument("name")
@click.option("--output", type=click.Path(dir_okay=False), help="File to write.")
@click.pass_obj
def export(settings: Settings, /, name: str, output: str | None) -> None:
    """Write a conversation as Markdown."""
    library = settings.open_library()
    lines = [f"# {one_line(name)}", ""]
    for turn in library.session_turns(name):
        lines += [f"## {one_line(turn.question)}", ""]
        lines += written_markdown(turn.writing)
        lines += [one_line(stored_text(turn.answer, turn.state, turn.citations)), ""]
        lines += [f"- {place(citation)}" for citation in turn.citations]
        lines += [""] if turn.citations else []
    text = "\n".join(lines).rstrip() + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        write_from_library(Path(output), text, library.path)


@with_global_options()
@command.command("search")
@click.argument("words", nargs=-1, required=True)
@json_option
@click.pass_obj
def search(settings: Settings, /, words: tuple[str, ...], as_json: bool) -> None:
    """Find turns that contain all the words.

    \b
    Example: drt session search notice period
    """
    turns = settings.open_library().search_sessions(" ".join(words))
    if as_json:
        print_json({"turns": [turn.to_dict() for turn in turns]})
        return
    if not turns:
        note(settings, "No conversation holds these words.")
    for turn in turns:
        say(f"{one_line(turn.session)}, turn {turn.turn}", bold=True)
        say(f"  > {one_line(turn.question)}", hanging=4)
        say(f"  {one_line(turn.answer) or NOT_FOUND}", hanging=2)
