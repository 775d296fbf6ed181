"""Reads documents into the library, once or for as long as a folder is watched."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drt_cli._errors import DONE, FAILED, PARTLY, report
from drt_cli._options import Settings, json_option, jsonl_option, with_global_options
from drt_cli._output import (
    Interrupted,
    note,
    note_interrupted,
    note_skipped,
    print_json,
    print_line,
    progress_bar,
    read_paths,
    say,
)
from drt_cli._text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from drt import Assistant, DocumentInfo, IngestReport, WatchEvent


@with_global_options()
@click.command("ingest")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="NAME",
    help="Give the documents this tag, also unchanged ones; may be repeated.",
)
@click.option("--watch", is_flag=True, help="Follow the changes of folders until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.05),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often --watch checks the folders.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Let N processes read and compute, on one thread each unless --threads says more.",
)
@json_option
@jsonl_option
@click.pass_obj
def command(
    settings: Settings,
    /,
    paths: tuple[str, ...],
    tags: tuple[str, ...],
    watch: bool,
    interval: float,
    workers: int | None,
    as_json: bool,
    as_lines: bool,
) -> int:
    """Read documents into the library.

    PATH is a file, a folder with its subfolders, a pattern, or "-" for standard input. Unchanged
    documents are skipped; interrupted ones are resumed. If a document cannot be read, the others
    still are, and the exit code is 3. Skipped parts of documents and archives, such as pictures,
    are reported on standard error and in JSON.

    With --watch each PATH is a folder. New and changed files are read when nobody writes to them
    any more, and documents of deleted files are removed.

    With --workers several documents are read at once, which is faster for many small files. This
    process writes them in their order, so the library is the same as without.

    \b
    Example: drt ingest reports/ manual.pdf
    """
    if as_json and (as_lines or watch):
        raise click.UsageError("--json prints one object in the end; use --jsonl.")
    if watch and workers is not None:
        raise click.UsageError("--watch reads one file at a time; leave out --workers.")
    with settings.assistant() as assistant:
        if watch:
            events = partial(assistant.watch, interval=interval, tags=tags)
            _watch(events, paths, settings, as_lines=as_lines)
        if as_lines:
            options: dict[str, Any] = {"tags": tags, "workers": workers}
            return _print_lines(assistant, paths, settings, options=options)
        show = None if as_json else _print_read
        try:
            result = read_paths(assistant, paths, settings, tags=tags, workers=workers, show=show)
        except Interrupted as interrupted:
            if as_json:
                print_json(interrupted.report.to_dict())
            raise
    if as_json:
        print_json(result.to_dict())
    else:
        _print_remarks(result, settings)
    return _code(len(result.documents), len(result.failures))


def _code(documents: int, failures: int) -> int:
    if not failures:
        return DONE
    return PARTLY if documents else FAILED


def _print_read(document: DocumentInfo) -> None:
    _print_document("read" if document.new else "unchanged", document)


def _print_remarks(result: IngestReport, settings: Settings) -> None:
    if result.tokens:
        rate = result.tokens / max(result.seconds, 1e-9)
        note(settings, f"{result.tokens:,} tokens in {result.seconds:.1f} s, {rate:,.0f}/s")


def _print_document(state: str, document: DocumentInfo) -> None:
    """Print a line at once, also into a pipe."""
    title = one_line(document.title)
    say(f"{state}  {document.id}  {title}  ({document.tokens:,} tokens)", hanging=2)
    sys.stdout.flush()


def _print_lines(
    assistant: Assistant, paths: tuple[str, ...], settings: Settings, *, options: dict[str, Any]
) -> int:
    """Print each document, or its failure, as soon as it is known."""
    documents = failures = 0
    try:
        with progress_bar(settings) as progress:
            for result in assistant.ingest_each(paths, progress=progress, **options):
                print_line(result.to_dict())
                documents += result.document is not None
                failures += result.error is not None
    except KeyboardInterrupt:
        note_interrupted(settings, documents)
        raise
    return _code(documents, failures)


def _watch(
    watch: Callable[..., Iterator[WatchEvent]],
    paths: tuple[str, ...],
    settings: Settings,
    *,
    as_lines: bool,
) -> None:
    """Print what changes until it is interrupted."""
    note(settings, f"Watching {', '.join(paths)}; Ctrl-C ends it.")
    with progress_bar(settings) as progress:
        folders = [Path(path) for path in paths]
        for event in watch(folders, progress=progress):
            if as_lines:
                print_line(event.to_dict())
            elif event.document is None:
                report(event.message)
            else:
                _print_document(event.kind, event.document)
                note_skipped(settings, [event.document])
