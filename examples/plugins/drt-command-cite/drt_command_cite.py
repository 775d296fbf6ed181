"""``drt cite HANDLE``: a passage of a document as a BibTeX entry."""

from __future__ import annotations

import re
from typing import Any

import click


@click.command("cite")
@click.argument("handle")
@click.option("--key", help="The key of the entry; made from the title if not given.")
@click.pass_obj
def command(settings: Any, /, handle: str, key: str | None) -> None:
    """Print a cited passage as a BibTeX entry.

    ``settings`` has what drt's options say: ``open_library()`` and ``assistant()`` use them.
    """
    from drt import passage

    library = settings.open_library()
    found = passage(library, handle, around=0)
    document = library.show(found.citation.document)
    fields = {
        "title": document.title,
        "author": document.author,
        "date": document.date,
        "pages": "" if found.citation.page is None else str(found.citation.page),
        "note": " ".join(found.quote.split()),
    }
    name = key or re.sub(r"\W+", "-", document.title.lower()).strip("-")
    lines = [f"  {field} = {{{_tex(value)}}}," for field, value in fields.items() if value]
    click.echo("\n".join([f"@misc{{{name},", *lines, "}"]))


def _tex(text: str) -> str:
    return re.sub(r"([\\{}%&$#_])", r"\\\1", text)
