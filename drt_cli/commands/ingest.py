"""Reads documents into the library, once or for as long as a folder is watched."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click

from drt_cli._addresses import Addresses, fetch_options, named_addresses
from drt_cli._changed import note_missing
from drt_cli._errors import DONE, FAILED, PARTLY, report
from drt_cli._interrupt import PATIENCE, allow
from drt_cli._options import Settings, json_option, jsonl_option, with_global_options
from drt_cli._output import (
    Bar,
    Interrupted,
    collect,
    note,
    note_interrupted,
    note_skipped,
    print_json,
    print_line,
    progress_bar,
    say,
)
from drt_cli._shards_bar import shards_bar
from drt_cli._text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from drt import (
        Assistant,
        DocumentInfo,
        IngestProgress,
        IngestReport,
        IngestResult,
        WatchEvent,
    )

_RAY_SECONDS = 30.0  # that ending a Ray may take; it takes 2


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
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Let workers of a Ray cluster read into shards: auto, HOST:PORT or ray://HOST:PORT; local"
    " starts a Ray on this machine.",
)
@click.option(
    "--shards",
    type=int,
    metavar="N",
    help="How many shards, and workers, for --ray; by default as many as the library has.",
)
@fetch_options
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
    ray: str | None,
    shards: int | None,
    fetch: bool,
    fetch_private: bool,
    as_json: bool,
    as_lines: bool,
) -> int:
    """Read documents into the library.

    PATH is a file, a folder with its subfolders, a pattern, "-" for standard input, or an address,
    https://..., which is fetched with --fetch or once a terminal was asked. Unchanged
    documents are skipped; interrupted ones are resumed. If a document cannot be read, the others
    still are, and the exit code is 3. Skipped parts of documents and archives, such as pictures,
    are reported on standard error and in JSON.

    With --watch each PATH is a folder. New and changed files are read when nobody writes to them
    any more, and documents of deleted files are removed.

    With --workers several documents are read at once, which is faster for many small files. This
    process writes them in their order, so the library is the same as without.

    With --ray each worker writes its own shard, an ordinary library in the folder LIBRARY.shards,
    and --library LIBRARY asks all of them as one. Workers must see paths and library as this
    process does. The extra "cluster" installs Ray.

    \b
    Example: drt ingest reports/ manual.pdf
    """
    if as_json and (as_lines or watch):
        raise click.UsageError("--json prints one object in the end; use --jsonl.")
    if watch and workers is not None:
        raise click.UsageError("--watch reads one file at a time; leave out --workers.")
    if ray is None and shards is not None:
        raise click.UsageError("--shards is for --ray ADDRESS; --ray local uses this machine.")
    if ray is not None and (watch or workers is not None):
        raise click.UsageError("--ray has workers of its own; leave out --workers and --watch.")
    named = named_addresses(paths, fetch=fetch, private=fetch_private)
    if named.urls and (watch or ray is not None):
        raise click.UsageError("--watch and --ray read files; leave out the addresses.")
    with settings.assistant() as assistant:
        if watch:
            events = partial(assistant.watch, interval=interval, tags=tags)
            _watch(events, paths, settings, as_lines=as_lines)
        reading = _Reading(assistant, named, tags, workers=workers, ray=ray, shards=shards)
        if as_lines:
            return _print_lines(reading, settings)
        try:
            with reading.opened(settings) as (results, progress):
                show = None if as_json else _print_read
                result = collect(results, settings, progress=progress, show=show)
        except Interrupted as interrupted:
            if as_json:
                print_json(interrupted.report.to_dict())
            raise
        if ray is not None and result.documents:
            note(settings, f"drt --library {assistant.library.path} asks all shards.")
        elif ray is None:
            note_missing(settings, assistant.library, named.files)
    if as_json:
        print_json(result.to_dict())
    else:
        _print_remarks(result, settings)
    return _code(len(result.documents), len(result.failures))


@dataclass(frozen=True)
class _Reading:
    """What is to be read, and by whom."""

    assistant: Assistant
    named: Addresses
    tags: tuple[str, ...]
    workers: int | None
    ray: str | None
    shards: int | None

    @contextmanager
    def opened(self, settings: Settings) -> Iterator[tuple[Iterator[IngestResult], Bar | None]]:
        """Yield the results as they come, and the bar that shows progress on a terminal.

        Leaving ends the reading, wherever it is.
        """
        with ExitStack() as stack:
            results: Iterator[IngestResult]
            bar: Bar | None
            if self.ray is None:
                bar = progress = stack.enter_context(progress_bar(settings))
                results = self._read(progress)
            else:
                allow(_RAY_SECONDS)
                stack.callback(allow, PATIENCE)
                bar = stack.enter_context(shards_bar(settings))
                results = self.assistant.ingest_shards(
                    self.named.files, ray=self.ray, shards=self.shards, tags=self.tags, progress=bar
                )
            if isinstance(results, Generator):
                stack.callback(results.close)
            yield results, bar

    def _read(
        self, progress: Callable[[IngestProgress], None] | None
    ) -> Generator[IngestResult, None, None]:
        """Read the files, then the addresses."""
        if self.named.files:
            yield from self.assistant.ingest_each(
                self.named.files, tags=self.tags, workers=self.workers, progress=progress
            )
        yield from self.named.read(self.assistant, tags=self.tags, progress=progress)


def _code(documents: int, failures: int) -> int:
    if not failures:
        return DONE
    return PARTLY if documents else FAILED


def _print_read(result: IngestResult) -> None:
    document = result.document
    assert document is not None
    if document.new or result.source == document.source:
        _print_document("read" if document.new else "unchanged", document)
        return
    name, first_name = PurePath(result.source).name, PurePath(document.source).name
    if name == first_name:
        name, first_name = result.source, document.source
    say(f"copy  {document.id}  {one_line(name)}: same text as {one_line(first_name)}", hanging=2)
    sys.stdout.flush()


def _print_remarks(result: IngestReport, settings: Settings) -> None:
    if result.tokens:
        rate = result.tokens / max(result.seconds, 1e-9)
        note(settings, f"{result.tokens:,} tokens in {result.seconds:.1f} s, {rate:,.0f}/s")


def _print_document(state: str, document: DocumentInfo) -> None:
    """Print a line at once, also into a pipe."""
    title = one_line(document.title)
    say(f"{state}  {document.id}  {title}  ({document.tokens:,} tokens)", hanging=2)
    sys.stdout.flush()


def _print_lines(reading: _Reading, settings: Settings) -> int:
    """Print each document, or its failure, as soon as it is known."""
    documents = failures = 0
    try:
        with reading.opened(settings) as (results, _):
            for result in results:
                # counted first: Ctrl-C may come as soon as somebody has read the line
                documents += result.document is not None
                failures += result.error is not None
                print_line(result.to_dict())
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
