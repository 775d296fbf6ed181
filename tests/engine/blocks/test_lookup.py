"""Headers that are read in front of parts of a unit."""

from __future__ import annotations

from drt_engine.blocks.lookup import headers_of
from drt_engine.blocks.nodes import Node
from tests.tables import each_row


@each_row(
    ("text", "names", "headers"),
    [
        ("Jar | 4.10 | 6.90", "Item | Small | Large", {0: "Item:", 6: "Small:", 13: "Large:"}),
        ("Jar | | 6.90", "Item | Small | Large", {0: "Item:", 8: "Large:"}),
        ("| | 6.90", "Small | Large", {4: "Large:"}),  # as a PDF's rows are written
        ("| b | c", "A | B | C", {2: "B:", 6: "C:"}),  # as Word's are
        ("a | 3 |", "A | B | C", {0: "A:", 4: "B:"}),
        ("a | | |", "A | B | C", {0: "A:"}),
        ("a | b", " | B", {4: "B:"}),
        ("a | b | c", "A | B", {}),
        ("a | b", "", {}),
    ],
)
def test_names_of_a_rows_cells(text: str, names: str, headers: dict[int, str]) -> None:
    found = headers_of(text, Node("row", 100, 100 + len(text), header=names))
    assert dict(found) == {100 + at: name for at, name in headers.items()}


def test_what_a_note_is_about() -> None:
    assert headers_of("[3] Paid.", Node("note", 5, 14, header="It cost 450")) == (
        (5, "It cost 450"),
    )
    assert headers_of("07:10 x", Node("record", 0, 7, header="Monday", place="07:10")) == ()
