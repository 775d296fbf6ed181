"""A summary of documents, of a section, or of what changed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drt_cli._errors import DONE, FAILED, PARTLY
from drt_cli._options import (
    DATE,
    Settings,
    json_option,
    jsonl_option,
    part_options,
    with_global_options,
)
from drt_cli._output import note_unread, place, print_json, print_line, read_paths, say
from drt_cli._state import remember
from drt_cli._status import waiting
from drt_cli._text import markdown, one_line, printable
from drt_cli._warm import with_helper

if TYPE_CHECKING:
    from drt import Summary


def _file_or_date(
    _ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    if value is None or Path(value).is_file() or DATE.fullmatch(value):
        return value
    raise click.BadParameter(
        f"{value!r} is neither a file nor a date (YYYY, YYYY-MM or YYYY-MM-DD)."
    )


@with_global_options()
@click.command("summarize")
@click.argument("documents", nargs=-1, metavar="[PATH|DOC]...")
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
@part_options
@click.option(
    "--since",
    callback=_file_or_date,
    metavar="FILE|DATE",
    help="What changed since the older version in this file; or only documents of this day, month"
    " or year (YYYY-MM-DD) or later.",
)
@click.option(
    "--cite/--no-cite",
    default=True,
    show_default=True,
    help="Show what is summarised, and where each sentence comes from.",
)
@click.option(
    "--markdown",
    "as_markdown",
    is_flag=True,
    help="Print Markdown, each place as a footnote.",
)
@json_option
@jsonl_option
@click.pass_obj
@with_helper
def command(
    settings: Settings,
    /,
    documents: tuple[str, ...],
    cite: bool,
    as_markdown: bool,
    as_json: bool,
    as_lines: bool,
    **options: Any,
) -> int:
    """Summarise documents, or what changed in one.

    PATH is a file or a folder, which is read first if it is new or changed; DOC is the id, title or
    source of a document of the library. Several documents get one summary. With --tag, --type,
    --pages or a date no document need be named: all that they leave are summarised.

    \b
    Example: drt summarize handbook.md --section "Part 4" --words 100
    """
    if as_json + as_lines + as_markdown > 1:
        raise click.UsageError(
            "--json prints one object, --jsonl one a line and --markdown a text; use one."
        )
    if not documents and not any(options[name] for name in ("tags", "types", "pages", "since")):
        raise click.UsageError("name a document to summarise, or filter them.")
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
        if documents and not names:
            return FAILED
        with waiting(settings, question=False):
            summary = assistant.summarize(names or None, **options)
        subject = " ".join(documents) or "the documents that are left"
        remember(assistant.library, f"summary of {subject}", summary.sentences)
    note_unread(summary)
    if as_json:
        print_json(summary.to_dict())
    elif as_lines:
        for line in _lines(summary):
            print_line(line)
    elif as_markdown:
        click.echo(_as_markdown(summary, cite=cite))
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
    if cite and summary.about:
        say(printable(summary.about))
        click.echo()
    if summary.text:
        say(printable(_numbered(summary) if cite else summary.text))
    if summary.changes_omitted:
        say(_remark(summary))
    if cite and summary.sentences:
        click.echo()
        for number, sentence in enumerate(summary.sentences, start=1):
            say(f"[{number}] {place(sentence)}")


def _remark(summary: Summary) -> str:
    total = len(summary.changes) + summary.changes_omitted
    return (
        f"... and {summary.changes_omitted} more of {total} changes; without --length and --words"
        " all are listed."
    )


def _as_markdown(summary: Summary, *, cite: bool) -> str:
    """Return a paragraph of the sentences, or a list of the changes, and the places.

    The places are footnotes, or a list where the text is not made of sentences that have one.
    """
    numbers = count(1)

    def note() -> str:
        return f"[^{next(numbers)}]" if cite else ""

    has_notes = bool(summary.changes) or summary.mode == "extractive"
    if summary.changes:
        pairs = zip(summary.text.splitlines(), summary.changes, strict=True)
        lines = [
            f"- {markdown(line)}{'' if change.new is None else note()}" for line, change in pairs
        ]
    elif has_notes:
        lines = [" ".join(f"{markdown(s.quote)}{note()}" for s in summary.sentences)]
    else:
        lines = [markdown(summary.text)]
    if cite and summary.about:
        lines[:0] = [markdown(summary.about), ""]
    if summary.changes_omitted:
        lines += ["", markdown(_remark(summary))]
    if cite and summary.sentences:
        lines.append("")
        for number, sentence in enumerate(summary.sentences, start=1):
            label = f"[^{number}]:" if has_notes else "-"
            lines.append(f"{label} {markdown(place(sentence))}")
    return "\n".join(lines)


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
