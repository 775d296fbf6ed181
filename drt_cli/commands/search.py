"""The passages that fit a query best, each with its best sentence marked; nothing reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from drt_cli._errors import DONE, FAILED, PARTLY
from drt_cli._options import (
    CountType,
    Settings,
    filter_options,
    json_option,
    jsonl_option,
    with_global_options,
)
from drt_cli._output import (
    marks,
    note,
    note_unread,
    place,
    print_json,
    print_line,
    print_scan,
    read_paths,
    say,
)
from drt_cli._state import remember
from drt_cli._status import waiting
from drt_cli._text import marked_blocks
from drt_cli._warm import with_helper
from drt_cli._words import check_question

if TYPE_CHECKING:
    from drt import DocumentInfo, SearchHit


@with_global_options()
@click.command("search")
@click.argument("query")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--top-k",
    type=CountType(1, 50),
    default=10,
    show_default=True,
    metavar="N",
    help="Most passages to show.",
)
@click.option(
    "--retriever",
    type=click.Choice(["hybrid", "landmark", "lexical"]),
    default="hybrid",
    show_default=True,
    help="How to find passages: by landmarks, by words (BM25, loads no model), or by both.",
)
@filter_options
@json_option
@jsonl_option
@click.pass_obj
@with_helper
def command(
    settings: Settings,
    /,
    query: str,
    paths: tuple[str, ...],
    documents: tuple[str, ...],
    as_json: bool,
    as_lines: bool,
    **options: Any,
) -> int:
    """Find the passages that fit a query best, without an answer.

    With PATHs, drt searches only these documents, and first reads those that are new or changed.
    Without, it searches the whole library. The best sentence of each passage is marked. The show
    command takes the numbers and handles of passages.

    \b
    Example: drt search "notice period" contract.pdf
    """
    if as_json and as_lines:
        raise click.UsageError("--json prints one object and --jsonl one a line; use one.")
    check_question("search", query, paths, noun="query")
    with settings.assistant() as assistant:
        reading = read_paths(assistant, paths, settings) if paths else None
        if reading is not None and not reading.documents:
            return FAILED
        selected: list[str | DocumentInfo] = [*documents, *(reading.documents if reading else ())]
        with waiting(settings, loads=options["retriever"] != "lexical", question=False):
            result = assistant.search(query, documents=selected or None, **options)
        remember(assistant.library, query, result.hits)
    note_unread(result)
    if as_json:
        print_json(result.to_dict())
    elif as_lines:
        for hit in result.hits:
            print_line(hit.to_dict())
    else:
        _print(result.hits)
        print_scan(result.scan)
        if not result.hits:
            note(settings, "No passage has a word of the query; other words may find one.")
    return PARTLY if reading is not None and reading.failures else DONE


def _print(hits: tuple[SearchHit, ...]) -> None:
    begin, end = marks()
    for number, hit in enumerate(hits, start=1):
        if number > 1:
            click.echo()
        say(f"[{number}] {place(hit)}", bold=True)
        text = marked_blocks(hit.text, hit.sentence, begin=begin, end=end)
        say("\n".join(f"  {line}" for line in text.split("\n")), hanging=2)
