"""Printing: results on stdout as text or JSON, notes and progress on stderr.

Everything that comes from a document goes through `_text.py` on its way to a reader.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ._errors import report
from ._options import Settings
from ._text import marked, one_line, printable, shortened

if TYPE_CHECKING:
    from collections.abc import Callable

    from drt import Answer, Assistant, Citation, DocumentInfo, IngestProgress, IngestReport

NOT_FOUND = "The document does not say."
BAR = "{desc} {percentage:3.0f}%|{bar}| {postfix}, {remaining} left"
MOST_REMARKS = 10
REMARK_CHARACTERS = 200
READING_CONTINUES = (
    "drt: interrupted; what was read is kept, and reading the same file again continues there."
)


def print_json(value: Any) -> None:
    """Prints one JSON object."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_line(value: Any) -> None:
    """Prints one JSON object on a line of its own, at once."""
    click.echo(json.dumps(value, ensure_ascii=False))
    sys.stdout.flush()


def styled() -> bool:
    """Whether bold and underlined text may be printed: on a terminal that wants it."""
    ctx = click.get_current_context(silent=True)
    return sys.stdout.isatty() and (ctx is None or ctx.color is not False)


def note(settings: Settings, text: str) -> None:
    """Prints a remark on stderr unless the user wants quiet."""
    if not settings.quiet:
        click.echo(printable(text), err=True)


def print_table(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> None:
    """Prints rows in columns; the columns in `right` are right-aligned numbers."""
    if not rows:
        return
    numbers = set(right)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = [f"{{:{'>' if i in numbers else '<'}{width}}}" for i, width in enumerate(widths)]
    line = "  ".join(cells).format
    # at once: thousands of rows are a table, too
    click.echo("\n".join([line(*row).rstrip() for row in rows]))


def place(citation: Citation, *, share: bool = True) -> str:
    """Title, page, section or line, handle and probability, on one line."""
    parts = [one_line(citation.title)]
    if citation.page is not None:
        parts.append(f"page {citation.page}")
    # A heading path mostly begins with the title, which stands there already.
    section = (citation.section or "").removeprefix(citation.title).removeprefix(" > ")
    if section:
        parts.append(one_line(section))
    if citation.line is not None:
        parts.append(f"line {citation.line}")
    parts.append(one_line(citation.handle))
    if share:
        parts.append(f"retrieved with {citation.probability:.0%}")
    return ", ".join(parts)


def print_citation(citation: Citation, number: int | None = None) -> None:
    """Prints a quote, its place, and the sentence around it with the quote marked."""
    click.secho(f'"{one_line(citation.quote)}"', bold=True)
    label = "" if number is None else f"[{number}] "
    click.echo(f"  {label}{place(citation)}")
    if one_line(citation.context) != one_line(citation.quote):
        begin, end = marks()
        sentence = marked(citation.context, citation.quote, begin=begin, end=end)
        if sentence:
            click.echo(f"  {sentence}")


def marks() -> tuple[str, str]:
    """What stands before and after a quote in its text."""
    return ("\x1b[4m", "\x1b[24m") if styled() else ("«", "»")


def print_answer(answer: Answer) -> None:
    """Prints an answer with its citations, best first, or that there is none."""
    if not answer.found:
        click.secho(NOT_FOUND, bold=True)
    elif answer.mode != "quote":
        click.echo(printable(answer.text))
    print_evidence(answer)


def print_evidence(answer: Answer) -> None:
    """Prints what stands behind an answer: its citations and the confidence."""
    for number, citation in enumerate(answer.citations, start=1):
        if number > 1 or not answer.found or answer.mode != "quote":
            click.echo()
        if not answer.found:
            click.echo("Closest passage:")
        print_citation(citation, number)
    click.echo(f"\nconfidence {answer.confidence:.2f}")


def read_paths(assistant: Assistant, paths: Sequence[str], settings: Settings) -> IngestReport:
    """Reads paths with progress on a terminal; says on stderr what was not read and why."""
    try:
        with progress_bar(settings) as progress:
            result = assistant.ingest_many(paths, progress=progress)
    except KeyboardInterrupt:
        note(settings, READING_CONTINUES)
        raise
    for _, message in result.failures:
        report(message)
    note_skipped(settings, result.documents, result.notes)
    return result


def note_skipped(
    settings: Settings, documents: Sequence[DocumentInfo], others: Sequence[str] = ()
) -> None:
    """Prints what was passed over of documents, one remark for each of the first, and `others`."""
    read = [one for one in documents if one.skipped]
    remarks = [f"{one.title}: passed over {', '.join(one.skipped)}" for one in read]
    remarks += [f"Passed over: {one}" for one in others]
    for remark in remarks[:MOST_REMARKS]:
        note(settings, shortened(remark, REMARK_CHARACTERS))
    if len(remarks) > MOST_REMARKS:
        left = len(remarks) - MOST_REMARKS
        note(settings, f"... and {left} more remarks; drt ingest --json lists them.")


@contextmanager
def progress_bar(settings: Settings) -> Iterator[Callable[[IngestProgress], None] | None]:
    """A callback that draws a bar with tokens per second and time left; None off a terminal."""
    if settings.quiet or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    with tqdm(bar_format=BAR, leave=False, dynamic_ncols=True) as bar:
        source: str | None = None

        def draw(step: IngestProgress) -> None:
            nonlocal source
            if step.source != source:
                source = step.source
                bar.reset(total=step.total_characters)
                bar.set_description_str(shortened(source, 30), refresh=False)
                # Time left is judged by what this reading adds, not by what an earlier one left.
                bar.initial = step.characters
            bar.set_postfix_str(f"{step.tokens_per_second:,.0f} tokens/s", refresh=False)
            bar.n = step.characters
            bar.refresh()

        yield draw
