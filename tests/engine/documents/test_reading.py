"""What people lose when a reader takes marks for text, or text for marks; one test a kind."""

from __future__ import annotations

import json
from pathlib import Path

from tests.engine.documents.helpers import joined, read, section_at
from tests.engine.documents.makers import make_epub


def notebook(*cells: dict[str, object]) -> str:
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4})


def result(**data: str) -> dict[str, object]:
    output = {"output_type": "execute_result", "data": data}
    return {"cell_type": "code", "source": "f()", "outputs": [output]}


def test_a_result_is_read_in_the_form_that_says_most(tmp_path: Path) -> None:
    head = "<style>x</style><tr><th>Oil</th><th>Price</th></tr>"
    table = f"<table>{head}<tr><td>a</td><td>3</td></tr></table>"
    opaque = "<IPython.core.display.HTML object>"
    text = notebook(
        result(**{"text/html": table, "text/plain": opaque}),
        result(**{"text/html": "<b>bold</b>", "text/plain": "plain"}),
        result(**{"text/latex": "$x^2$", "text/plain": "<Math object>"}),
        result(**{"text/markdown": "# no heading", "text/plain": "<M>"}),
        result(**{"text/html": "<script>x</script>", "text/plain": opaque}),
    )
    read_text = joined(read(tmp_path / "a.ipynb", text)[1])
    results = [part for part in read_text.split("```\n")[1::2] if part]
    assert "Oil | Price\na | 3" in read_text
    assert "```\nplain\n```" in read_text and "```\n$x^2$\n```" in read_text
    assert "```\n# no heading\n```" in read_text and results


def test_html_of_a_cell_is_no_text_but_code_stays(tmp_path: Path) -> None:
    source = (
        '<div align="right"><i>Ann<br>2024</i></div>\n\n# Head\n\n`<div>` a < b\n\n'
        "```html\n<div>code</div>\n```\n<table><tr><td>x</td><td>y</td></tr></table>\n"
    )
    cell = {"cell_type": "markdown", "source": source}
    document, blocks = read(tmp_path / "a.ipynb", notebook(cell))
    assert joined(blocks) == (
        "Ann\n2024\n\n\n# Head\n\n`<div>` a < b\n\n```html\n<div>code</div>\n```\n\n\nx | y\n\n"
    )
    assert document.title == "Head"


def test_a_long_row_is_read_in_lines_that_repeat_its_key(tmp_path: Path) -> None:
    cells = ["c" * 300, "d" * 300, "e"]
    _, blocks = read(tmp_path / "a.csv", "Name,A,B,C\nOil," + ",".join(cells) + "\n")
    lines = joined(blocks).splitlines()
    assert lines[1:3] == [f"Name: Oil | A: {cells[0]}", f"Name: Oil | B: {cells[1]} | C: e"]
    assert {block.line for block in blocks} == {1, 2}


def test_comments_before_a_table_are_text_and_the_last_one_may_name_its_columns(
    tmp_path: Path,
) -> None:
    comments = "# Berths of the harbour\n#\n# From Ann, with one comma\n"
    rows = "A1\t12\tnorth\n# closed in winter\nA2\t9\n"
    _, blocks = read(tmp_path / "a.tab", f"{comments}#berth\tlength\tside\n{rows}")
    text = "Berths of the harbour\n\nFrom Ann, with one comma\n"
    assert joined(blocks) == (
        f"{text}berth | length | side\nberth: A1 | length: 12 | side: north\n"
        "closed in winter\nberth: A2 | length: 9\n"
    )
    _, blocks = read(tmp_path / "b.csv", f"{comments}Name,Age\nAnn,12\n#4,9\n")
    assert joined(blocks) == f"{text}Name | Age\nName: Ann | Age: 12\n4,9\n"
    _, blocks = read(tmp_path / "c.tab", "#code\tzone\t\t\tnote\nAD\tAndorra\nAQ\tCasey\tcold\n")
    assert joined(blocks) == (
        "code | zone | note\ncode: AD | zone: Andorra\ncode: AQ | zone: Casey | note: cold\n"
    )
    _, blocks = read(tmp_path / "c.csv", "Name,Colour\n#4,red\n")  # no comments before it
    assert joined(blocks) == "Name | Colour\nName: #4 | Colour: red\n"


def test_page_marks_of_a_book_are_pages_not_text(tmp_path: Path) -> None:
    page = (
        '<p>One.</p><p>quite<span epub:type="pagebreak" id="p3" title="3">3</span> content '
        '<span class="pagenum">[Pg 4]</span>at last.</p><p>Two.</p>'
        '<span role="doc-pagebreak" aria-label="5"/><p>Three.</p>'
    )
    _, blocks = read(tmp_path / "a.epub", make_epub({"a.xhtml": page}))
    assert joined(blocks) == "One.\n\nquite content at last.\n\nTwo.\n\nThree.\n"
    assert [(block.page, block.text.strip()) for block in blocks] == [
        (None, "One.\n\nquite content at last."),
        (4, "Two."),
        (5, "Three."),
    ]


def test_the_contents_name_what_a_chapter_only_numbers(tmp_path: Path) -> None:
    chapters = {
        "a.xhtml": "<h1>IV</h1><p>Snow.</p>",
        "b.xhtml": "<hgroup><h1>V</h1><p>The Rope</p></hgroup><p>Ice.</p>",
    }
    _, blocks = read(tmp_path / "a.epub", make_epub(chapters, contents={"a.xhtml": "IV. The Lamp"}))
    assert section_at(blocks, "Snow.") == "IV. The Lamp"
    assert section_at(blocks, "Ice.") == "V The Rope"


def test_comments_of_markdown_are_hidden_and_its_lines_still_count(tmp_path: Path) -> None:
    hidden = "<!-- no\n# no -->\n"
    text = f"One.\n{hidden}Two.\n:::{{note}}\nThree.\n:::\n<!-- a --> four\n<!-- open\nfive\n"
    document, blocks = read(tmp_path / "a.md", text)
    assert joined(blocks) == "One.\nTwo.\nThree.\n<!-- a --> four\n<!-- open\nfive\n"
    lines = text.split("\n")
    for block in blocks:
        start = block.origin_at(0)
        assert start is not None and text[start:].startswith(block.text)
        assert block.line is not None and block.text.startswith(lines[block.line - 1])
    assert document.skipped == (
        "2 lines of comments (hidden from who reads the page)",
        "2 fences of a directive (a mark for the page's layout)",
    )


HEADER = """/* The prose of a comment
   struct of things and
   class of this (and that)
*/
typedef struct lamp_s {
    struct oil_s FAR *oil; /* a member */
} lamp;

extern int lamp_light(lamp *l, int hours);
/*
     Lights the lamp; must type be 3,
enum of hours
*/
EXTERN const char * EXPORT lamp_name OF((lamp *l,
                                         int n));
/* Gives "/*" its name. */
#define GLOB "src/*"
int lamp_end(void);
"""


def test_prose_of_comments_is_no_definition_and_declarations_are(tmp_path: Path) -> None:
    _, blocks = read(tmp_path / "lamp.h", HEADER)
    assert joined(blocks) == HEADER
    for needle, section in (
        ("The prose", None),
        ("class of", None),
        ("a member", "lamp_s"),
        ("enum of hours", "lamp_light"),
        ("int n", "lamp_name"),
        ("void", "lamp_end"),
    ):
        assert section_at(blocks, needle) == section, needle


def test_marks_that_never_end_cost_no_more_than_their_length() -> None:
    # each of these took minutes where every start looked for its end; none is a timed test
    from drt_engine.documents.base import Notes
    from drt_engine.documents.readers.notebook import _without_tags
    from drt_engine.documents.structure.contents import has_leader, page_of

    assert not has_leader("." * 200_000 + "z") and page_of("1 " * 100_000 + "z") is None
    open_tables = "<table></table>" + "<table " * 100_000
    assert _without_tags(open_tables, Notes()).count("<table ") == 100_000


def test_empty_columns_at_the_end_need_no_name(tmp_path: Path) -> None:
    text = "Name,Age,,\nAnn,12,,\nBen,,,\nCleo,9,late,\n"
    _, blocks = read(tmp_path / "a.csv", text)
    rows = ["Name | Age", "Name: Ann | Age: 12", "Name: Ben", "Name: Cleo | Age: 9 | late"]
    assert joined(blocks).splitlines() == rows


def test_without_names_empty_fields_keep_their_places(tmp_path: Path) -> None:
    _, blocks = read(tmp_path / "a.csv", "1,2,3,4\n5,,7,\n,,,\n,8,,\n")
    assert joined(blocks).splitlines() == ["1 | 2 | 3 | 4", "5 |  | 7", " | 8"]
