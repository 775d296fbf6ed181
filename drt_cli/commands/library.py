"""The documents of a library; only repairing and rebuilding it load a model."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from drt_cli import _state
from drt_cli._errors import DONE, FAILED
from drt_cli._groups import HintingGroup
from drt_cli._options import Settings, document_options, json_option, with_global_options
from drt_cli._output import (
    counted,
    note,
    note_unread_libraries,
    print_fields,
    print_json,
    print_table,
    progress_bar,
    say,
    step_bar,
)
from drt_cli._text import one_line, printable

if TYPE_CHECKING:
    from drt import Backup, IndexRecall, Library


NO_INDEX = "There is no approximate index; drt library index --approximate makes one."


@with_global_options()
@click.group("library", cls=HintingGroup)
def command() -> None:
    """List, show, remove, check, export, import and back up documents."""


@with_global_options()
@command.command("list")
@document_options
@click.option("--removed", is_flag=True, help="Those that undo-remove can bring back, last first.")
@json_option
@click.pass_obj
def list_documents(settings: Settings, /, removed: bool, as_json: bool, **filters: Any) -> None:
    """List the documents."""
    library = settings.open_library()
    if removed and any(filters.values()):
        raise click.UsageError("--removed takes no other option than --json.")
    documents = library.removed() if removed else library.documents(**filters)
    note_unread_libraries(library)
    if as_json:
        rows = [document.to_dict() for document in documents]
        print_json({"library": str(library.path), "documents": rows})
        return
    if removed and not documents:
        note(settings, f"No removed document of {library.path} can be brought back.")
    elif not documents:
        note(settings, f"The library at {library.path} holds no documents; drt ingest reads some.")
    print_table(
        [
            (
                document.id,
                f"{document.tokens:,} tokens",
                one_line(document.title) + _tag_words(document.tags),
                one_line(document.source),
            )
            for document in documents
        ],
        right=[1],
    )


@with_global_options()
@command.command("show")
@click.argument("document", metavar="DOC")
@click.option("--text", "as_text", is_flag=True, help="Print its text, which citations refer to.")
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
    info = library.show(document)
    note_unread_libraries(library)
    if as_json:
        print_json(info.to_dict())
        return
    print_fields({name: value for name, value in info.to_dict().items() if name != "new"})


def _tag_words(tags: Sequence[str]) -> str:
    return f"  [{', '.join(map(printable, tags))}]" if tags else ""


# A tag to take away looks like an option; -h must not ask for help here.
_TAG_SETTINGS = {"ignore_unknown_options": True, "help_option_names": ["--help"]}


@with_global_options()
@command.command("tag", context_settings=_TAG_SETTINGS)
@click.argument("document", metavar="DOC")
@click.argument("changes", nargs=-1, required=True, metavar="+TAG|-TAG...")
@click.pass_obj
def tag(settings: Settings, /, document: str, changes: tuple[str, ...]) -> None:
    """Give a document tags and take some away.

    DOC is an id, a title or a source. A tag has no spaces and no commas. ask, search, trace, chat
    and summarize take --tag NAME.

    \b
    Example: drt library tag manual.pdf +work -draft
    """
    for change in changes:
        if change[:1] not in ("+", "-") or len(change) < 2:
            raise click.UsageError(f"{change!r} is neither +TAG nor -TAG.")
    add, remove = ([c[1:] for c in changes if c[0] == sign] for sign in "+-")
    info = settings.open_library().tag(document, add=add, remove=remove)
    click.echo(f"{info.id}  {one_line(info.title)}{_tag_words(info.tags) or '  no tags'}")


def _is_asked() -> bool:
    """Return whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@with_global_options()
@command.command("remove")
@click.argument("documents", nargs=-1, required=True, metavar="DOC...")
@click.option(
    "--forget",
    is_flag=True,
    help="Leave no byte of them in the library, and no conversation that cites them; cannot be"
    " undone.",
)
@click.option("--yes", is_flag=True, help="Do not ask, as a terminal does.")
@click.pass_obj
def remove(settings: Settings, /, documents: tuple[str, ...], forget: bool, yes: bool) -> None:
    """Remove documents, by id, title or source; a terminal asks first.

    drt library undo-remove brings them back until drt library compact frees their room on the disk.
    --forget leaves nothing to bring back; it takes documents that were removed before, too. It
    reaches the library, your log of questions and what drt show remembers. Archives that
    were exported, other copies, and the history of your shell keep what they hold.
    """
    from drt import NotFoundError

    library = settings.open_library()
    if not yes and _is_asked():
        titles = "\n".join(f"  {one_line(_title(library, name, forget))}" for name in documents)
        verb, end = ("Forget", " for good") if forget else ("Remove", "")
        question = f"{titles}\n{verb} {counted(len(documents), 'document')}{end}?"
        click.confirm(question, abort=True, err=True)
    removed_ids: set[str] = set()
    with _noting_a_lost_index(settings, library):
        for document in documents:
            if forget:
                # First, since a command that was killed is repeated when the document is gone.
                library.expect_one()
                with contextlib.suppress(NotFoundError):
                    _state.forget(library.show(document).id)
            removed = library.remove(document, forget=forget, undoable=not forget)
            removed_ids.add(removed.id)
            if forget:
                _state.forget(removed.id)  # one that was removed before
            done = "forgotten" if forget else "removed"
            say(f"{done}  {removed.id}  {one_line(removed.title)}", hanging=2)
    if forget:
        return
    lost = removed_ids - {document.id for document in library.removed()}
    if lost:
        names = ", ".join(sorted(lost))
        note(settings, f"The disk is full or they are damaged, so undo-remove has no copy: {names}")
    else:
        note(settings, f"To undo: drt library undo-remove {' '.join(sorted(removed_ids))}")


def _title(library: Library, name: str, forget: bool) -> str:
    """Return the title of a document to remove; ``forget`` takes removed ones, too."""
    from drt import NotFoundError

    try:
        return library.show(name).title
    except NotFoundError:
        if forget and library.removed():
            return name
        raise


@with_global_options()
@command.command("undo-remove")
@click.argument("documents", nargs=-1, required=True, metavar="DOC...")
@click.pass_obj
def undo_remove(settings: Settings, /, documents: tuple[str, ...]) -> None:
    """Bring back documents that remove has removed, by id, title or source.

    They come back as they were, tags included, without being read again. drt library list --removed
    lists them; compact, rebuild and remove --forget delete them for good.

    \b
    Example: drt library undo-remove notes.txt
    """
    library = settings.open_library()
    for document in documents:
        info = library.undo_remove(document)
        say(f"back  {info.id}  {one_line(info.title)}", hanging=2)


@with_global_options()
@command.command("check")
@click.option(
    "--repair",
    is_flag=True,
    help="Repair what the stored texts allow; save what is left of a damaged catalogue.",
)
@json_option
@click.pass_obj
def check(settings: Settings, /, repair: bool, as_json: bool) -> int:
    """Verify all checksums; exit code 1 if something was lost.

    \b
    Example: drt library check --repair
    """
    library = settings.open_library()
    with _noting_a_lost_index(settings, library):
        findings = library.repair(**settings.runtime()) if repair else library.check()
    if as_json:
        print_json({"findings": [finding.to_dict() for finding in findings]})
    else:
        for finding in findings:
            say(printable(f"{finding.severity}: {finding.where}: {finding.message}"), hanging=2)
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
    library = settings.open_library()
    values = library.stats()
    note_unread_libraries(library)
    if as_json:
        print_json(values)
        return
    print_fields(values)


@with_global_options()
@command.command("compact")
@click.pass_obj
def compact(settings: Settings, /) -> None:
    """Free the space of removed documents, which cannot be brought back then.

    \b
    Example: drt library compact
    """
    freed = settings.open_library().compact()
    say(f"{freed:,} bytes freed")


@with_global_options()
@command.command("export")
@click.argument("file", type=click.Path(dir_okay=False))
@click.pass_obj
def export(settings: Settings, /, file: str) -> None:
    """Write all documents and conversations to one file.

    \b
    Example: drt library export notes.drtlib
    """
    library = settings.open_library()
    library.export_archive(file)
    say(f"exported  {os.path.getsize(file):,} bytes  {printable(file)}", hanging=2)


@with_global_options()
@command.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.pass_obj
def import_(settings: Settings, /, file: str) -> None:
    """Import an exported file, after verifying all of it.

    \b
    Example: drt --library copy.library library import notes.drtlib
    """
    library = settings.open_library()
    documents = library.import_archive(file)
    for document in documents:
        say(f"imported  {document.id}  {one_line(document.title)}", hanging=2)
    if not documents:
        note(settings, f"All documents of {file} are in the library at {library.path} already.")


@with_global_options()
@command.command("backup")
@click.argument("folder", type=click.Path())
@click.option(
    "--earlier",
    type=click.Path(exists=True, file_okay=False),
    metavar="FOLDER",
    help="An earlier backup on the same disk; unchanged files are linked in place of copied.",
)
@click.option("--no-check", is_flag=True, help="Do not verify the copy's checksums.")
@json_option
@click.pass_obj
def backup(
    settings: Settings, /, folder: str, earlier: str | None, no_check: bool, as_json: bool
) -> None:
    """Copy the library to a new folder while others read and write it.

    The copy is one moment's library and can be used with --library. It is verified, and kept only
    if it is sound.

    \b
    Example: drt library backup /backups/monday --earlier /backups/sunday
    """
    copy = settings.open_library().backup(folder, earlier=earlier, check=not no_check)
    _print_copy("backed up", copy, as_json=as_json)


@with_global_options()
@command.command("restore")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.option("--no-check", is_flag=True, help="Do not verify the copy's checksums.")
@json_option
@click.pass_obj
def restore(settings: Settings, /, folder: str, no_check: bool, as_json: bool) -> None:
    """Copy a backup to the library's place, where there must be none.

    \b
    Example: drt --library restored.library library restore /backups/monday
    """
    copy = settings.open_library().restore(folder, check=not no_check)
    _print_copy("restored", copy, as_json=as_json)


def _print_copy(done: str, copy: Backup, *, as_json: bool) -> None:
    if as_json:
        print_json(copy.to_dict())
        return
    size = f"{copy.copied_bytes:,} bytes"
    if copy.linked_bytes:
        size += f" copied, {copy.linked_bytes:,} linked"
    words = f"{done}  {counted(copy.documents, 'document')}  {size}  {printable(copy.folder)}"
    say(words, hanging=2)


@with_global_options()
@command.command("federate")
@click.argument("file", type=click.Path(dir_okay=False))
@click.argument("libraries", nargs=-1, required=True, type=click.Path(), metavar="LIBRARY...")
@click.pass_obj
def federate(settings: Settings, /, file: str, libraries: tuple[str, ...]) -> None:
    """Write a file that lists libraries, to be asked as one: --library FILE.

    Answers are the same as from one library with all their documents. All must be readable, and
    made with one model. Folders inside that of FILE are noted relative to it. A LIBRARY may be such
    a list, too.

    \b
    Example: drt library federate all.json mine.library /mnt/share/team.library
    """
    from drt import Library

    Library.federate(file, libraries, lock_timeout=settings.lock_timeout)
    note(settings, f"drt --library {file} asks all of them.")


@with_global_options()
@command.command("index")
@click.option("--approximate", "make", is_flag=True, help="Make it, or make it again.")
@click.option("--remove", is_flag=True, help="Remove it.")
@click.option(
    "--check",
    "measure",
    is_flag=True,
    help="Ask sentences of the library and compare with exact scans, at several numbers of lists.",
)
@click.option(
    "--lists",
    type=click.IntRange(1, 65_536),
    help="Groups of chunks.  [default: twice the root of the chunks]",
)
@click.option(
    "--probes",
    type=click.IntRange(1, 65_536),
    help="Lists that a question scans; can be changed without making the index again.  [default:"
    " a 16th of them, at least 32]",
)
@json_option
@click.pass_obj
def index(
    settings: Settings,
    /,
    make: bool,
    remove: bool,
    measure: bool,
    lists: int | None,
    probes: int | None,
    as_json: bool,
) -> None:
    """Make or show the approximate index, for libraries of many millions of tokens.

    With it, ask, search and the others scan a part of the landmarks where --approximate is set,
    and their results say so. It groups the chunks by their landmarks. Chunks that are read later
    are scanned in full until it is made again. Making it needs pip install
    "drt-assistant[faiss]"; using it does not.

    \b
    Example: drt library index --approximate
    """
    if remove and (make or measure or lists or probes or as_json):
        raise click.UsageError("--remove takes no other option.")
    if lists and not make:
        raise click.UsageError("--lists is decided when the index is made; add --approximate.")
    library = settings.open_library()
    if remove:
        note(settings, "removed" if library.remove_index() else NO_INDEX)
        return
    if make:
        with step_bar(settings) as progress:
            library.make_index(
                lists=lists, probes=probes, threads=settings.threads, progress=progress
            )
    elif probes is not None:
        library.set_index_probes(probes)
    if measure:
        _print_recall(library.index_recall(**settings.runtime()), as_json=as_json)
        return
    info = library.index()
    if as_json:
        print_json({"index": None if info is None else info.to_dict()})
    elif info is None:
        note(settings, NO_INDEX)
    else:
        print_fields(info.to_dict())


def _print_recall(rows: Sequence[IndexRecall], *, as_json: bool) -> None:
    if as_json:
        print_json({"recall": [row.to_dict() for row in rows]})
        return
    print_table(
        [("lists", "of", f"recall@{rows[0].count}", "ms", "exact ms")]
        + [
            (
                f"{row.probes:,}",
                f"{row.lists:,}",
                f"{row.recall:.3f}",
                f"{row.milliseconds:.1f}",
                f"{row.exact_milliseconds:.1f}",
            )
            for row in rows
        ],
        right=[0, 1, 2, 3, 4],
    )


@with_global_options()
@command.command("rebuild")
@click.pass_obj
def rebuild(settings: Settings, /) -> None:
    """Read all documents again for the model of --model.

    The stored texts are read; the original files are not needed. The library stays as it is until
    all are read. An interrupted rebuild resumes where it stopped.

    \b
    Example: drt --model my-model library rebuild
    """
    library = settings.open_library()
    with _noting_a_lost_index(settings, library), progress_bar(settings) as progress:
        documents = library.rebuild(**settings.runtime(), progress=progress)
    for document in documents:
        say(f"rebuilt  {document.id}  {one_line(document.title)}", hanging=2)


@contextlib.contextmanager
def _noting_a_lost_index(settings: Settings, library: Library) -> Iterator[None]:
    """Say that the approximate index is gone, where what is done in the block removed it."""
    had_index = _has_index(library)
    try:
        yield
    finally:  # an error may come after the index went
        if had_index and not _has_index(library):
            note(
                settings,
                "The approximate index is gone, as it repeated what was removed or read again; drt"
                " library index --approximate makes it anew.",
            )


def _has_index(library: Library) -> bool:
    from drt import DrtError

    try:
        return library.exists() and library.index() is not None
    except DrtError:  # of several libraries, or damaged
        return False
