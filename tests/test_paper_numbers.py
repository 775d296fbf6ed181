"""Numbers that docs/paper.md attributes to the paper are those of docs/data/paper.json.

A number in italics is the paper's. A comment before its paragraph or table names the places of all
of them in the file, in their order: keys joined by ``/``, places by ``;``, several keys as
``{a|b}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from tests.tables import each_row

DOCS = Path(__file__).parents[1] / "docs"
PAPER = json.loads((DOCS / "data" / "paper.json").read_text(encoding="utf-8"))
_ITALIC = re.compile(r"(?<![*\w])\*(\d[\d.]*)\*(?![*\w])")
_COMMENT = re.compile(r"<!-- paper: (.*) -->\n")


def places(comment: str) -> Iterator[str]:
    """Yield the places that a comment names."""
    for place in comment.split("; "):
        parts = re.split(r"\{([^}]*)\}", place)  # every second one is a list of keys
        choices = [part.split("|") if at % 2 else [part] for at, part in enumerate(parts)]
        yield from map("".join, product(*choices))


def number(place: str) -> Any:
    """Return the number at a place of the file."""
    value: Any = PAPER
    for key in place.split("/") if "CNN" not in place else _keys(place):
        value = value[key]
    return value


def _keys(place: str) -> list[str]:
    """Return the keys of a place with the data set whose own name has a slash."""
    table, _, rest = place.partition("/CNN/DailyMail/")
    return [table, "CNN/DailyMail", *rest.split("/")]


def blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each paragraph or table with the places that its comment names."""
    for block in re.split(r"\n\s*\n", text):
        comment = _COMMENT.search(block)
        yield block, list(places(comment[1])) if comment else []


PAGE = (DOCS / "paper.md").read_text(encoding="utf-8")


@each_row(("block", "named"), [b for b in blocks(PAGE) if b[1] or _ITALIC.search(b[0])])
def test_a_number_of_the_paper_is_that_of_its_place(block: str, named: list[str]) -> None:
    quoted = [float(text.rstrip(".")) for text in _ITALIC.findall(block)]
    assert quoted == [number(place) for place in named]


def test_the_page_quotes_all_tables() -> None:
    named = {place for _, block_places in blocks(PAGE) for place in block_places}
    assert {place.split("/")[0] for place in named} >= {"table1", "table2", "table3", "table4"}
    assert len(named) > 100


def test_what_once_was_misquoted() -> None:
    books = {name: row["128M"]["PG19 valid"] for name, row in PAPER["table1"]["16k"].items()}
    assert (books["DRT x1"], books["DRT x2"], books["base LM"]) == (14.05, 14.02, 14.55)
    landmark, one_group = PAPER["table3"]["Landmark Attention"], PAPER["table3"]["DRT x1"]
    assert (landmark["48k"]["offload"]["time"], landmark["48k"]["device"]["time"]) == (163.1, 4.25)
    assert [one_group[n]["device"]["time"] for n in ("16k", "48k")] == [1.06, 1.08]
    assert PAPER["table3"]["Block-Recurrent"]["16k"]["device"]["time"] == 2.85
