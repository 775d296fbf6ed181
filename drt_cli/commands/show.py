"""A cited passage with its surroundings; loads no model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drt_cli._changed import note_changed
from drt_cli._files import write_from_library
from drt_cli._options import Settings, json_option, with_global_options
from drt_cli._output import marks, note, place, print_json, say
from drt_cli._text import printable

if TYPE_CHECKING:
    from drt import Citation, Passage


@with_global_options()
@click.command("show")
@click.argument("citation", metavar="CITATION")
@click.option(
    "--around",
    type=click.IntRange(min=0),
    default=400,
    show_default=True,
    metavar="N",
    help="Characters to show before and after the quote.",
)
@click.option("--open", "opened", is_flag=True, help="Open the document too, a PDF at its page.")
@click.option(
    "--png",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the page of a PDF as a picture, with the quote in yellow.",
)
@json_option
@click.pass_obj
def command(
    settings: Settings,
    /,
    citation: str,
    around: int,
    opened: bool,
    png: Path | None,
    as_json: bool,
) -> None:
    """Show a cited passage and the text around it.

    CITATION is a handle, DOCUMENT:START-END, as ask, trace and summarize print it; DOCUMENT is an
    id, the start of an id, a title or a source. Or it is the number of a citation of the last
    answer in this terminal from this library; if there is none, another last answer is used, and a
    note says which.

    \b
    Example: drt show 1
    """
    from drt import Library, page_image, passage

    library = settings.open_library()
    if citation.isdecimal():
        from drt._paths import named_libraries
        from drt_cli._state import cited

        answer, citation, whose = cited(int(citation), library)
        folders = named_libraries(answer.library)
        library = Library(folders, lock_timeout=settings.lock_timeout)
        if whose:
            note(settings, whose)
    result = passage(library, citation, around=around)
    if as_json:
        print_json(result.to_dict())
    else:
        _print(result)
    note_changed(settings, library, [result.citation.document])
    if png is not None:
        write_from_library(png, page_image(library, result.citation).png, library.path)
    if opened:
        from drt_cli._open import open_source

        open_source(result.citation.source, result.citation.page)


def _characters(citation: Citation) -> str:
    """Return where in its file, or on its page, a quote is; empty if that is unknown."""
    if citation.source_start is None:
        return ""
    of_page = "" if citation.page is None else " of the page"
    return f", characters {citation.source_start}-{citation.source_end}{of_page}"


def _print(cited: Passage) -> None:
    begin, end = marks()
    # Once the text is made harmless the marks may be put in: only they can style it.
    parts = [printable(part) for part in (cited.before, cited.quote, cited.after)]
    say(place(cited.citation))
    say(printable(cited.citation.source) + _characters(cited.citation))
    say(f"\n{parts[0].lstrip()}{begin}{parts[1]}{end}{parts[2].rstrip()}")
