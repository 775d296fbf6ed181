"""A summary of documents, of a section, or of what changed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drt_cli._errors import DONE, FAILED, PARTLY
from drt_cli._options import Settings, json_option, jsonl_option, with_global_options
from drt_cli._output import place, print_json, print_line, read_paths, say
from drt_cli._state import remember
from drt_cli._text import one_line, printable

if TYPE_CHECKING:
    from drt import Summary


@with_global_options()
@click.command("summarize")
@click.argument("documents", nargs=-1, required=True, metavar="PATH|DOC...")
@click.option(
    "--length",
    type=click.Choice(["short", "medium", "long"]),
    help="How long the summary may be: 60 (short, the default), 150 or 400 words. Changes are all"
    " listed unless a length is set.",
)
@click.option(
    "--words",
    type=click.IntRange(min=1),
    metavar="N",
    help="At most this many words, instead of --length.",
)
@click.option(
    "--mode",
    type=click.Choice(["auto", "extractive", "abstractive"]),
    default="auto",
    show_default=True,
    help="Sentences of the document, or text the model writes.",
)
@click.option("--focus", metavar="TEXT", help="What the summary should be about.")
@click.option("--section", metavar="NAME", help="Only the sections whose name begins with this.")
@click.option(
    "--since",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="What changed since the older version in this file.",
)
@click.option(
    "--cite/--no-cite",
    default=True,
    show_default=True,
    help="Show where each sentence comes from.",
)
@json_option
@jsonl_option
@click.pass_obj
def command(
    settings: Settings,
    /,
    documents: tuple[str, ...],
    cite: bool,
    as_json: bool,
    as_lines: bool,
    **options: Any,
) -> int:
    """Summarise documents, or what changed in one.

    PATH is a file or a folder, which is read first if it is new or changed; DOC is the id, title or
    source of a document of the library. Several documents get one summary.

    \b
    Example: drt summarize handbook.md --section "Part 4" --words 100
    """
    if as_json and as_lines:
        raise click.UsageError("--json prints one object and --jsonl one a line; use one.")
    failed = False
    with settings.assistant() as assistant:
        names: list[str] = []
        for document in documents:
            if document == "-" or Path(document).exists():
                report = read_paths(assistant, [document], settings)
                names += [info.id for info in report.documents]
                failed = failed or bool(report.failures)
            else:
                names.append(document)
        if not names:
            return FAILED
        summary = assistant.summarize(names, **options)
        remember(assistant.library.path, f"summary of {' '.join(documents)}", summary.sentences)
    if as_json:
        print_json(summary.to_dict())
    elif as_lines:
        for line in _lines(summary):
            print_line(line)
    else:
        _print(summary, cite=cite)
    return PARTLY if failed else DONE


def _lines(summary: Summary) -> Iterator[dict[str, Any]]:
    """Yield the cited sentences; of changes each one, removed sentences included."""
    if not summary.changes:
        yield from (sentence.to_dict() for sentence in summary.sentences)
    for change in summary.changes:
        cited = {} if change.new is None else change.new.to_dict()
        yield {**cited, "kind": change.kind, "old": change.old}
    if summary.changes_omitted:
        yield {"changes_omitted": summary.changes_omitted}


def _print(summary: Summary, *, cite: bool) -> None:
    if summary.text:
        say(printable(_numbered(summary) if cite else summary.text))
    if summary.changes_omitted:
        total = len(summary.changes) + summary.changes_omitted
        say(
            f"... and {summary.changes_omitted} more of {total} changes; without --length and"
            " --words all are listed."
        )
    if cite and summary.sentences:
        click.echo()
        for number, sentence in enumerate(summary.sentences, start=1):
            say(f"[{number}] {place(sentence, share=False)}")


def _numbered(summary: Summary) -> str:
    """Return the text with the number of its citation after each sentence that has one."""
    if summary.mode == "extractive":
        numbered = enumerate(summary.sentences, start=1)
        return " ".join(f"{one_line(sentence.quote)} [{number}]" for number, sentence in numbered)
    if not summary.changes:
        return summary.text
    numbers = count(1)
    lines = zip(summary.text.splitlines(), summary.changes, strict=True)  # a line for each change
    return "\n".join(
        line if change.new is None else f"{line} [{next(numbers)}]" for line, change in lines
    )
