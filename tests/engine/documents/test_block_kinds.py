"""What a span of a document is: never a heading, a running head or a bare mark for an answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from drt_engine.documents import Source, open_document
from drt_engine.documents.structure.block_kinds import NEVER_QUOTED, BlockKinds, block_kind
from tests.tables import each_row


@dataclass
class Text:
    """A document and the library that holds it."""

    text_: str
    places_: list[tuple[int, int | None, str | None]]
    title: str = ""
    media_type: str = "text/plain"
    id: str = "one"

    @property
    def characters(self) -> int:
        return len(self.text_)

    def text(self, _: str, start: int, end: int) -> str:
        return self.text_[start:end]

    def places(self, _: str) -> list[tuple[int, int | None, str | None]]:
        return self.places_

    def kind(self, words: str) -> str:
        start = self.text_.index(words)
        return block_kind(self, self, start, start + len(words))


def read(folder: Path, name: str, text: str) -> Text:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    pieces, places, start = [], [], 0
    with open_document(Source.from_path(path)) as document:
        for block in document.blocks:
            places.append((start, block.page, block.section))
            pieces.append(block.text)
            start += len(block.text)
    return Text("".join(pieces), places, document.title, document.media_type)


PATCH = """The scan is told in words.

diff --git a/notes.md b/notes.md
--- a/notes.md
+++ b/notes.md
@@ -1,3 +1,3 @@
 Before that, the chunks are read.
-The quote is the first of the spans.
+The quote is the likeliest of the spans.

 - an item of the notes
-- 
2.39.5
That was the patch.
"""


def test_the_changes_of_a_patch_are_code(tmp_path: Path) -> None:
    patch = read(tmp_path, "patch.txt", PATCH)
    for words in ("diff", "+++ b", "Before", "The quote is the likeliest", "- an item"):
        assert patch.kind(words) == "code"
    assert patch.kind("The scan") == patch.kind("That was") == "paragraph"


NOTES = """# Harbour notes

Read me with care. The pier is long.

## Tides

- High water is at noon,
  and again at night.
- ``*`` is all of it.

> The sea gives.

| port | depth |
| --- | --- |
| Hull | 9 m |

```sh
# not a heading
sail --now
```

Figure 2: The old pier.

[^1]: Measured in 1902.

## Release 2.4 (2021-03-05)

Nothing else changed.
"""


@each_row(
    ("words", "kind"),
    [
        ("Harbour notes", "heading"),
        ("Tides", "heading"),
        ("The pier is long.", "paragraph"),
        ("High water", "item"),
        ("again at night", "item"),
        ("- ", "mark"),
        ("``*``", "item"),
        ("gives", "quote"),
        ("9 m", "row"),
        ("not a heading", "code"),
        ("The old pier", "caption"),
        ("Measured in 1902", "note"),
        ("2021-03-05", "field"),
        ("Release 2.4", "heading"),
        ("Tides\n\n- High water", "item"),
        ("Nothing else", "paragraph"),
    ],
)
def test_kinds_in_markdown(tmp_path: Path, words: str, kind: str) -> None:
    assert read(tmp_path, "notes.md", NOTES).kind(words) == kind


def test_headings_of_plain_text_are_told_by_their_sections(tmp_path: Path) -> None:
    text = "CHAPTER IV\n\nIt was night.\n\nThe lamps\n=========\n\nThey burnt low.\n"
    document = read(tmp_path, "novel.txt", text)
    kinds = [document.kind(words) for words in ("IV", "It was night.", "lamps", "They burnt")]
    assert kinds == ["heading", "paragraph", "heading", "paragraph"]


def test_a_heading_of_two_lines_and_its_number() -> None:
    text = "1.2. Files of\nthe system\n\nThey are few."
    document = Text(text, [(0, 1, "Part > Files of the system")])
    assert [document.kind(w) for w in ("Files of", "the system", "few")] == [
        "heading",
        "heading",
        "paragraph",
    ]


def test_running_heads_are_told_by_the_pages_beside_them() -> None:
    prose = ("Boats sank.", "Ships came.", "It rained.", "Nobody fell.", "We sold all.", "The end.")
    pages = [f"Annual report {n}\n{words} We went on.\n" for n, words in enumerate(prose)]
    starts = [sum(map(len, pages[:n])) for n in range(6)]
    document = Text("".join(pages), [(at, n + 1, None) for n, at in enumerate(starts)])
    assert document.kind("Annual report 3") == "running head"
    assert document.kind("Nobody fell.") == "paragraph"


def test_what_a_publisher_puts_around_a_book() -> None:
    document = Text(
        "The Project Gutenberg eBook of Boats\nfree for all\n"
        "*** START OF THE PROJECT GUTENBERG EBOOK BOATS ***\n\nBoats float.\n\n"
        "This page intentionally left blank\n\n"
        "*** END OF THE PROJECT GUTENBERG EBOOK BOATS ***\nmost other parts of the world\n",
        [(0, None, None)],
    )
    assert document.kind("Boats float.") == "paragraph"
    for words in ("free for all", "intentionally left blank", "parts of the world"):
        assert document.kind(words) == "boilerplate"


def test_lines_of_contents_and_values_between_words() -> None:
    document = Text("Contents\nTides ...... 12\n\nHe was 39. It costs 20.", [(0, None, None)])
    kinds = BlockKinds(document, document)
    assert [kinds.kind(0, 8), kinds.kind(9, 14)] == ["heading", "contents"]
    assert document.kind("39.") == "paragraph"
    assert "paragraph" not in NEVER_QUOTED
    assert kinds.kind(8, 9) == "mark"  # between two lines


def test_sections_listed_by_number_are_contents() -> None:
    entries = "".join(f"1.{n}\tWhy is lamp {n} lit?\n" for n in range(1, 9))
    last = "1.9\tWhat of a long name that goes on\n\tbelow?\n\nText.\n"
    text = f"Table of Contents:\n\n{entries}{last}"
    document = Text(text, [])
    assert document.kind("Why is lamp 2 lit?") == "contents"
    assert document.kind("below?") == "contents"
    assert document.kind("Text.") == "paragraph"
    without_heading = Text(text.partition("\n\n")[2], [])
    assert without_heading.kind("Why is lamp 2 lit?") == "paragraph"
    clauses = "".join(f"1.{n} The tenant pays on day {n}.\n" for n in range(1, 9))
    assert Text(f"Contents\n\n{clauses}", []).kind("The tenant pays on day 2") == "paragraph"
    steps = "".join(f"1.{n} Lamp {n}\n" for n in (1, 2, 4, 3, 5, 6, 7, 8))
    assert Text(f"Contents\n\n{steps}", []).kind("Lamp 4") == "paragraph"


@pytest.mark.parametrize("gap", ["\n\n", "\n"])
def test_text_below_numbered_headings_is_no_contents(gap: str) -> None:
    body = "".join(
        f"15.{n}. Status {400 + n}{gap}   The status {400 + n} means that it is refused.\n\n"
        for n in range(1, 25)
    )
    for text in (f"Status codes\n\n{body}Appendix\n", f"Contents\n\n{body}Appendix\n"):
        assert Text(text, []).kind("The status 412 means") == "paragraph"
