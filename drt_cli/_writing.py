"""Printing what a writer writes: where text is sent, verified sentences, and their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ._errors import report
from ._options import Settings
from ._output import note, place, print_answer, print_json, print_line, say
from ._text import one_line, printable

if TYPE_CHECKING:
    from drt import Writing, WrittenAnswer

HEADS = {
    "no answer": "The writer finds no answer in the passages.",
    "unsupported": "The passages support no sentence of the writer.",
}


def print_writing(writing: Writing, settings: Settings, *, as_json: bool, as_lines: bool) -> bool:
    """Print a writer's sentences as they come, and drt's own quotes; return whether it wrote."""
    note(settings, writing.sent)
    for sentence in writing:
        if as_lines:
            print_line({"type": "sentence", **sentence.to_dict()})
        elif not as_json:
            mark = "" if sentence.supported else f" [unsupported: {sentence.problem}]"
            say(printable(f"{one_line(sentence.text)}{mark}"))
    result = writing.result
    assert result is not None
    if result.problem:
        report(result.problem)
    if as_json:
        print_json(result.to_dict())
    elif as_lines:
        print_line({"type": "answer", **result.to_dict()})
    else:
        _print_sources(result)
    return result.state != "failed"


def _print_sources(result: WrittenAnswer) -> None:
    if result.state in HEADS:
        say(HEADS[result.state], bold=True)
    if result.sources:
        click.echo()
    for number, citation in sorted(result.sources.items()):
        say(f"[{number}] {place(citation, share=False)}")
        say(f"  {one_line(citation.quote)}", hanging=2)
    if result.sentences or result.state in HEADS:
        click.echo("\nQuotes:")
    print_answer(result.answer)
