"""All questions that were asked, newest first; loads no model and needs no library."""

from __future__ import annotations

import click

from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import counted, note, print_json, say
from drt_cli._text import one_line

LAST = 20


@with_global_options()
@click.command("log")
@click.argument("words", nargs=-1, metavar="[TEXT]...")
@click.option(
    "--last",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"At most so many, the newest.  [default: {LAST}, all with --json]",
)
@click.option("--clear", is_flag=True, help="Delete the log.")
@json_option
@click.pass_obj
def command(
    settings: Settings, /, words: tuple[str, ...], last: int | None, clear: bool, as_json: bool
) -> None:
    """List the questions that were asked, the newest first.

    With TEXT, only those that contain all its words in the question, the answer or the titles of
    the documents. Only you can read the log; `drt library remove --forget` removes entries that
    cite the document. DRT_LOG=0, `drt config set log false` or --no-log keeps questions out of it.

    \b
    Example: drt log notice period
    """
    from drt import QuestionLog

    log = QuestionLog(settings.log_path())
    if clear:
        if words or last or as_json:
            raise click.UsageError("--clear deletes the whole log; use it alone.")
        click.echo(f"deleted  {counted(log.clear(), 'question')}")
        return
    limit = last or (None if as_json else LAST)
    entries = log.entries(" ".join(words), limit=limit)
    if as_json:
        print_json({"log": str(log.path), "entries": [entry.to_dict() for entry in entries]})
        return
    for entry in entries:
        say(f"{entry.time[:16].replace('T', ' ')}  {one_line(entry.question)}", bold=True)
        shown = f'"{one_line(entry.answer)}"' if entry.answer else STATES.get(entry.state, "-")
        parts = [shown, *map(one_line, entry.documents[:1]), f"{entry.seconds:.1f} s"]
        say(f"  {', '.join(parts)}", hanging=2)
    if not entries:
        note(
            settings, "No question of the log contains this." if words else "No question is logged."
        )


STATES = {"likely": "a likely passage", "none": "the documents do not say"}
