"""Printing: results on stdout as text or JSON, notes and progress on stderr.

Everything that comes from a document goes through ``_text.py`` on its way to a reader, and on a
terminal through ``_layout.py``, which wraps it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Protocol

import click

from ._errors import report
from ._layout import NARROWEST, columns, table, wrapped
from ._options import Settings
from ._status import StatusLine
from ._text import blocks, json_text, marked, marked_blocks, one_line, printable, shortened

if TYPE_CHECKING:
    from collections.abc import Callable

    from drt import (
        AllAnswers,
        Answer,
        Assistant,
        Citation,
        DocumentInfo,
        IngestProgress,
        IngestReport,
        IngestResult,
        Library,
        ScanInfo,
        SearchHit,
        SearchResult,
        Summary,
        UnreadLibrary,
    )

NOT_FOUND = "The document does not say."
LIKELY = "The document probably says it here:"
OR_HERE = "Or here:"
OTHERS = "Other places that may answer:"
OTHER_PART = "The other part of the question is probably answered here:"
BAR = "{desc} {percentage:3.0f}%|{bar}| {postfix}"
MOST_REMARKS = 10
FEW_REMARKS = 3  # documents that each have their own; of more, each kind has one
REMARK_CHARACTERS = 200
NAMES_CHARACTERS = 140  # of files of unknown types, within a remark
# How the engine's note about such a file ends.
UNKNOWN_TYPE = " (no reader knows its type)"
EMPTY_FILE = " (it is empty)"
READING_CONTINUES = "what was read is kept, and reading the same file again continues there"


def print_json(value: Any) -> None:
    """Print one JSON object."""
    click.echo(json_text(value, indent=2))


def print_line(value: Any) -> None:
    """Print one JSON object on a line of its own, at once."""
    click.echo(json_text(value))
    sys.stdout.flush()


def styled() -> bool:
    """Return whether bold and underlined text may be printed: on a terminal that wants it."""
    ctx = click.get_current_context(silent=True)
    return sys.stdout.isatty() and (ctx is None or ctx.color is not False)


def say(text: str, *, bold: bool = False, hanging: int | None = None) -> None:
    """Print text as a result, wrapped where standard output is a terminal."""
    laid_out = wrapped(text, columns(sys.stdout), hanging=hanging)
    click.echo(click.style(laid_out, bold=True) if bold else laid_out)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 document, 2,000 documents."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def note(settings: Settings, text: str) -> None:
    """Print a remark on stderr unless the user wants quiet."""
    if not settings.quiet:
        click.echo(wrapped(printable(text), columns(sys.stderr)), err=True)


def print_table(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> None:
    """Print rows in columns; the columns in ``right`` are right-aligned numbers."""
    if rows:
        # at once: thousands of rows are a table, too
        click.echo("\n".join(table(rows, columns(sys.stdout), right=frozenset(right))))


def print_fields(values: Mapping[str, Any]) -> None:
    """Print names and values for a reader: numbers with commas, lists item by item."""
    print_table([(name.replace("_", " "), _shown(value)) for name, value in values.items()])


def _shown(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, Mapping):
        names = [one_line(str(name)).replace("_", " ") for name in value]
        return ", ".join(map(" ".join, zip(names, map(_shown, value.values()), strict=True)))
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    return one_line(str(value))


def place(citation: Citation | SearchHit) -> str:
    """Return title, page, section or line, and handle, on one line; of a hit its score, too.

    Of several libraries, it names the one that the document is in.
    """
    parts = [_title(citation)]
    if citation.page_name:
        parts.append(citation.page_name)
    # A heading path mostly begins with the title, which stands there already.
    section = (citation.section or "").removeprefix(citation.title).removeprefix(" > ")
    if section:
        parts.append(one_line(section))
    if citation.line is not None:
        parts.append(f"line {citation.line}")
    parts.append(one_line(citation.handle))
    if hasattr(citation, "score"):
        parts.append(f"score {citation.score:.2f}")
    return ", ".join(parts)


def _title(citation: Citation | SearchHit) -> str:
    """Return the title of a document; of several libraries, with the one that it is in."""
    title = one_line(citation.title)
    return f"{title} ({one_line(_name(citation.library))})" if citation.library else title


def _name(folder: str) -> str:
    """Return the shortest end of a library's path that no other of the libraries asked has."""
    context = click.get_current_context(silent=True)
    settings = context.obj if context is not None else None
    folders = _folders(settings) if isinstance(settings, Settings) else ()
    others = [other.parts for other in folders if str(other) != folder]
    parts = PurePath(folder).parts
    for count in range(1, len(parts)):
        if parts[-count:] not in [other[-count:] for other in others]:
            return str(PurePath(*parts[-count:]))
    return folder


@cache
def _folders(settings: Settings) -> tuple[PurePath, ...]:
    """Return the folders of all libraries that are asked."""
    return tuple(settings.open_library().folders)


def print_citation(citation: Citation, number: int | None = None) -> None:
    """Print a quote, its place, and the sentence around it with the quote marked."""
    label = "" if number is None else f"[{number}] "
    if citation.metadata is not None:
        name, _, value = citation.metadata.partition(": ")
        say(one_line(value), bold=True)
        say(f"  {label}{_title(citation)}, {name} in the file's metadata, not in its text")
        return
    begin, end = marks()
    if one_line(citation.span).rstrip(".") == one_line(citation.quote).rstrip("."):
        say(f'"{blocks(citation.quote)}"', bold=True)
    else:
        say(f'"{marked_blocks(citation.quote, citation.span, begin=begin, end=end)}"')
    if citation.more_items:
        say(f"  ... and {citation.more_items:,} more", bold=True)
    say(f"  {label}{place(citation)}")
    if one_line(citation.quote) not in one_line(citation.context):
        return  # a list, which has more than one sentence
    if one_line(citation.context) != one_line(citation.quote):
        sentence = marked(citation.context, citation.quote, begin=begin, end=end)
        if sentence:
            say(f"  {sentence}", hanging=2)


def print_place(citation: Citation, number: int) -> None:
    """Print the place of a citation, and the sentence around it with the quote marked."""
    say(f"  [{number}] {place(citation)}")
    begin, end = marks()
    say(f"      {marked(citation.context, citation.quote, begin=begin, end=end)}", hanging=6)


def print_passage(passage: str, citation: Citation, number: int, *, mark: bool) -> None:
    """Print the passage around a citation, and its place; ``mark`` marks the quote in it."""
    begin, end = marks() if mark else ("", "")
    text = marked_blocks(passage, citation.quote, begin=begin, end=end)
    say("\n".join(f"  {line}" for line in text.split("\n")), hanging=2)
    say(f"  [{number}] {place(citation)}")


def marks() -> tuple[str, str]:
    """Return what is printed before and after a quote in its text."""
    return ("\x1b[1m", "\x1b[22m") if styled() else ("«", "»")


def print_answer(answer: Answer) -> None:
    """Print an answer with its citations, best first, a likely passage, or that there is none."""
    if answer.mode == "summary":
        _print_summary(answer)
        return
    if not answer.found:
        click.secho(LIKELY if answer.state == "likely" else NOT_FOUND, bold=True)
    elif answer.mode != "quote":
        say(printable(answer.text))
    elif _is_computed(answer):
        say(printable(answer.text), bold=True)
    print_evidence(answer)


def note_unread(result: Answer | AllAnswers | SearchResult | Summary) -> None:
    """Say on stderr which of several libraries a result was made without, and why.

    And why it is exact where it might have been approximate.
    """
    _note_unread(result.unread_libraries)
    scan: ScanInfo | None = getattr(result, "scan", None)  # a summary has none
    for reason in scan.notes if scan is not None else ():
        click.echo(f"drt: scanned in full: {printable(reason)}", err=True)


def note_unread_libraries(library: Library) -> None:
    """Say on stderr which of several libraries are not listed, and why."""
    _note_unread(library.unread_libraries())


def _note_unread(libraries: Iterable[UnreadLibrary]) -> None:
    for entry in libraries:
        text = f"without the library at {entry.library}: {entry.reason}"
        click.echo(f"drt: {printable(text)}", err=True)


def print_scan(scan: ScanInfo | None) -> None:
    """Print that a result is approximate, if it is."""
    if scan is not None and scan.approximate:
        say(f"approximate: {scan.probed_lists:,} of {scan.lists:,} lists of landmarks were scanned")


def stored_text(answer: str, state: str, citations: Sequence[Citation]) -> str:
    """Return the text of an answer that is shown again: of a likely one, its sentence."""
    if state == "answer":
        return answer
    return f"{LIKELY} {citations[0].sentence}" if state == "likely" and citations else NOT_FOUND


def _print_summary(answer: Answer) -> None:
    """Print a summary that a conversation was asked for, and the places of its sentences."""
    cited = list(enumerate(answer.citations, start=1))
    if all(citation.quote in answer.text for citation in answer.citations):
        say(" ".join(f"{one_line(citation.quote)} [{number}]" for number, citation in cited))
    else:  # the decoder wrote it
        say(printable(answer.text))
    click.echo()
    for number, citation in cited:
        say(f"[{number}] {place(citation)}")


def _is_computed(answer: Answer) -> bool:
    """Return whether no citation says the answer: a count or a sum of what they say."""
    return all(c.quote not in answer.text and c.metadata is None for c in answer.citations)


def print_evidence(answer: Answer) -> None:
    """Print the evidence of an answer: yes or no, its citations, and how sure it is."""
    if answer.verdict is not None:
        click.secho(f"{answer.verdict.capitalize()}.", bold=True)
    others = is_quoted = answer.found and answer.text == answer.citations[0].quote
    for number, citation in enumerate(answer.citations, start=1):
        if number > 1 and is_quoted and citation.context == answer.citations[0].context:
            continue  # that sentence was shown
        if number > 1 or not answer.found or answer.mode != "quote":
            click.echo()
        if answer.found and citation.likely:
            click.secho(OTHER_PART, bold=True)
        elif number > 1 and others:
            click.secho(OTHERS, bold=True)
            others = False
        if answer.state == "none" and number == 1:
            click.echo(f"Closest passage{'s' * (len(answer.citations) > 1)}:")
        if answer.state == "likely" and number > 1:
            click.secho(OR_HERE, bold=True)
        passage = (answer.passage, answer.second_passage)[number - 1] if number < 3 else ""
        if not answer.found and passage:
            print_passage(passage, citation, number, mark=answer.state == "likely")
        else:
            print_citation(citation, number)
    from drt._render import sureness

    if probability := sureness(answer):
        click.echo()
        say(probability)
    print_scan(answer.scan)
    if answer.hint:
        say(printable(answer.hint))


def read_paths(
    assistant: Assistant,
    paths: Sequence[str],
    settings: Settings,
    *,
    addresses: Callable[..., Iterator[IngestResult]] | None = None,
) -> IngestReport:
    """Read paths with progress on a terminal; say on stderr what was not read and why.

    ``addresses`` reads what else was named.
    """
    with progress_bar(settings) as progress:
        results = assistant.ingest_each(paths, progress=progress) if paths else iter(())
        if addresses is not None:
            results = chain(results, addresses(assistant, progress=progress))
        return collect(results, settings, progress=progress)


def collect(
    reading: Iterator[IngestResult],
    settings: Settings,
    *,
    progress: Bar | None = None,
    show: Callable[[IngestResult], None] | None = None,
) -> IngestReport:
    """Report results as they come, on stderr what was not read and why; return what they were.

    ``show`` gets every result with a document as soon as it is read. What was read until an
    interruption is in the ``report`` of the ``Interrupted`` that is raised then.
    """
    from drt import IngestReport

    results: list[IngestResult] = []
    failures: dict[str, list[str]] = {}  # sources of unread files by what is wrong with them
    try:
        for result in reading:
            results.append(result)
            if progress is not None:
                progress.clear()
            if result.error is not None:
                sources = failures.setdefault(_kind(result), [])
                sources.append(result.source)
                if len(sources) == 1:  # the others of its kind are one line in the end
                    report(str(result.error))
            elif result.document is not None and show is not None:
                show(result)
    except KeyboardInterrupt:
        read = sum(result.document is not None for result in results)
        note_interrupted(settings, read)
        raise Interrupted(IngestReport.of(results)) from None
    for first, *others in failures.values():
        if others:
            name, *names = (printable(PurePath(source).name) for source in (first, *others))
            note(settings, f"drt: the same as {name}: {_first_names(names, len(names))}")
    total = IngestReport.of(results)
    note_skipped(settings, total.documents, total.notes, unknown_files=total.skipped)
    return total


def _kind(result: IngestResult) -> str:
    """Return what is wrong with a file, without its name."""
    name = PurePath(result.source).name
    return str(result.error).replace(result.source, "").replace(name, "")


def note_interrupted(settings: Settings, read: int) -> None:
    """Say that reading was interrupted, and what of it is kept."""
    done = f"{counted(read, 'document')} {'was' if read == 1 else 'were'} read; " if read else ""
    note(settings, f"drt: interrupted; {done}{READING_CONTINUES}.")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while documents were read; ``report`` is what was read until then."""

    def __init__(self, report: IngestReport) -> None:
        super().__init__()
        self.report = report


def note_skipped(
    settings: Settings,
    documents: Sequence[DocumentInfo],
    notes: Sequence[str] = (),
    *,
    unknown_files: int = 0,
) -> None:
    """Print what was passed over of documents, of paths (``notes``), and files of unknown types.

    All ``unknown_files`` are one sentence, with as many of their names as fit, and so is each kind
    of thing that many documents hold; of all other remarks the first are printed.
    """
    remarks = _skipped(documents)
    unknown = [phrase for phrase in notes if phrase.endswith(UNKNOWN_TYPE)]
    # Beyond its first notes the engine only counts them. Where these are all of unknown files, the
    # sentence about those counts them, too.
    unnamed = f"{unknown_files - len(unknown)} more"
    empty = [phrase for phrase in notes if phrase.endswith(EMPTY_FILE)]
    named = {*unknown, *empty, unnamed}
    remarks += [f"Passed over: {phrase}" for phrase in notes if phrase not in named]
    if unknown_files:
        names = [phrase.removesuffix(UNKNOWN_TYPE) for phrase in unknown]
        note(settings, _unknown_files(names, unknown_files))
    if empty:
        names = [phrase.removesuffix(EMPTY_FILE) for phrase in empty]
        files = counted(len(empty), "empty file")
        note(settings, f"Passed over {files}: {_first_names(names, len(empty))}")
    for remark in remarks[:MOST_REMARKS]:
        note(settings, shortened(remark, REMARK_CHARACTERS))
    if len(remarks) > MOST_REMARKS:
        number = len(remarks) - MOST_REMARKS
        pronoun = "it" if number == 1 else "them"
        note(
            settings,
            f"... and {counted(number, 'more remark')}; drt ingest --json lists {pronoun}.",
        )


def _skipped(documents: Sequence[DocumentInfo]) -> list[str]:
    """Return what was passed over by document, or by kind where that is shorter."""
    remarks: list[str] = []
    kinds: dict[str, list[int]] = {}  # how many of a kind each document holds
    for document in {document.id: document for document in documents}.values():  # and no copies
        if document.skipped:
            remarks.append(f"{document.title}: passed over {', '.join(document.skipped)}")
        for phrase in document.skipped:
            number, _, kind = phrase.partition(" ")
            known = number.isdecimal()
            kinds.setdefault(kind if known else phrase, []).append(int(number) if known else 1)
    if len(remarks) <= max(FEW_REMARKS, len(kinds)):
        return remarks
    return [
        f"{counted(len(numbers), 'document')}: passed over {sum(numbers):,} {kind}"
        for kind, numbers in kinds.items()
    ]


def _unknown_files(names: Sequence[str], count: int) -> str:
    """Return the sentence about ``count`` files that no reader knows, of which some have names."""
    reason = "no reader knows its type" if count == 1 else "no reader knows their types"
    return f"Passed over: {_first_names(names, count) or counted(count, 'file')} ({reason})"


def _first_names(names: Sequence[str], count: int) -> str:
    """Return as many of the names of ``count`` files as fit, and how many more there are."""
    shown: list[str] = []
    for name in names:
        if len(", ".join([*shown, name])) > NAMES_CHARACTERS and shown:
            break
        shown.append(shortened(name, NAMES_CHARACTERS))
    unnamed = count - len(shown)
    return f"{', '.join(shown)}{f' and {unnamed:,} more' * bool(unnamed)}" if shown else ""


class Bar(Protocol):
    """What shows progress, and makes room for a line."""

    def clear(self) -> None: ...


class Progress:
    """A bar that shows how far a document is read, with tokens per second and time left."""

    def __init__(self) -> None:
        from tqdm import tqdm

        self._bar = tqdm(bar_format=BAR, leave=False, dynamic_ncols=True)
        self._line = StatusLine(columns(sys.stderr) or NARROWEST)
        self._line.show_loading()
        self._source: tuple[str, int] | None = None  # and its pages, while they are parsed

    def __call__(self, step: IngestProgress) -> None:
        self._line.clear()
        bar, screen = self._bar, columns(sys.stderr) or NARROWEST
        if (step.source, step.pages) != self._source:
            self._source = step.source, step.pages
            bar.reset(total=step.pages or step.total_characters)
            name = shortened(PurePath(step.source).name, max(10, min(40, screen // 3)))
            bar.set_description_str(name, refresh=False)
            bar.initial = 0
        if step.pages:
            self._show_page(step)
            return
        if step.tokens == 0:
            # Time left is judged by what this reading adds, not by what an earlier one left.
            bar.initial = step.characters
        rate = f"{step.tokens_per_second:,.0f} tokens/s"
        bar.set_postfix_str(f"{rate}{self._left(step)}", refresh=False)
        bar.n = step.characters
        bar.refresh()

    def _show_page(self, step: IngestProgress) -> None:
        self._bar.set_postfix_str(f"page {step.page:,} of {step.pages:,}", refresh=False)
        self._bar.n = step.page
        self._bar.refresh()
        if step.page == step.pages:
            self._line.show_loading()

    def _left(self, step: IngestProgress) -> str:
        """Return the time left, if it is known and there is any."""
        read, left = step.characters - self._bar.initial, step.total_characters - step.characters
        if read <= 0 or left <= 0 or step.seconds <= 0:
            return ""
        return f", {self._bar.format_interval(left * step.seconds / read)} left"

    def clear(self) -> None:
        """Take the bar off the screen until the next step."""
        self._line.clear()
        self._bar.clear()

    def close(self) -> None:
        """Take the bar off the screen for good."""
        self._line.clear()
        self._bar.close()


@contextmanager
def progress_bar(settings: Settings) -> Iterator[Progress | None]:
    """Yield a callback that draws a bar, or None off a terminal."""
    if settings.quiet or not sys.stderr.isatty():
        yield None
        return
    progress = Progress()
    try:
        yield progress
    finally:
        progress.close()


@contextmanager
def step_bar(settings: Settings) -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield a callback that draws a bar for steps by name, or None off a terminal."""
    if settings.quiet or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    with tqdm(bar_format="{desc} {percentage:3.0f}% |{bar}|", leave=False) as bar:

        def show(step: str, done: int, total: int) -> None:
            bar.total, bar.n = total, done
            bar.set_description_str(step)

        yield show
