"""Three documents of each binary format, as people have them."""

from __future__ import annotations

from tests.engine.documents import outlook_files as outlook
from tests.engine.documents.makers import (
    Text,
    column,
    make_docx,
    make_epub,
    make_odt,
    make_page_pdf,
    make_xlsx,
    paragraph,
    table,
)

LEFT = [
    "The ice came early that year and",
    "with it the bears. We kept the win-",
    "dows shut and the well-known stove",
    "burning. Nobody went out alone, for",
    "the path to the hut was long and un-",
    "marked, and the lamp gave out at four.",
]
RIGHT = [
    "in the afternoon. Then it was dark,",
    "and stayed so until ten. A well-",
    "known rule says that two men carry",
    "one rope; Hallbeck carried two. He",
    "said that a rope is lighter than a",
    "funeral, which nobody could deny.",
]


def journal(page: int) -> list[Text]:
    """A page in two columns under a title, with a header and its number; rows come as printers
    write them, line by line over both columns."""
    rows = [
        Text(x, 640 - 12 * number, line)
        for number in range(6)
        for x, line in ((60, LEFT[number]), (320, RIGHT[number]))
    ]
    title = Text(60, 680, f"{page}. How the winter of that year went by on the island", 16)
    note = Text(60, 540, f"Fig. {page}. The hut, seen from the path, with all of its windows shut.")
    head = Text(60, 760, "Journal of Cold Places", 9)
    return [head, title, *rows, note, Text(300, 30, str(page + 40), 9)]


def report_page(page: int, lines: list[str]) -> list[Text]:
    """A page of one column with a footer that counts."""
    return [*column(72, 700, lines), Text(72, 40, f"Annual report, page {page} of 4", 8)]


PRICES = [("Item", "Price"), ("Lamp oil", "3.50"), ("Hard biscuit", "12.00"), ("Rope", "30.00")]

PDFS = {
    "journal.pdf": make_page_pdf(
        [journal(page) for page in range(1, 5)],
        title="Cold Places",
        bookmarks=[(page - 1, "How the winter of that year went by") for page in range(1, 5)],
    ),
    "report.pdf": make_page_pdf(
        [
            report_page(1, ["Annual report", "", "The station was manned all year, and no-"]),
            report_page(2, ["body left it. The costs were these:"])
            + [
                Text(72 + 200 * column_number, 650 - 14 * row, cell)
                for row, cells in enumerate(PRICES)
                for column_number, cell in enumerate(cells)
            ],
            report_page(3, ["All bills are paid.", "", "", "The accounts were checked."]),
            report_page(4, ["End of the report – “signed”."]),
        ]
    ),
    "landscape.pdf": make_page_pdf(
        [
            [
                Text(120 + 14 * number, 80, line, up=True)
                for number, line in enumerate(["A table on its side", "reads from", "left."])
            ],
            [Text(72, 700, "An upright text."), Text(20, 200, "arXiv:2410.01651v2", up=True)],
        ],
        rotate=90,
    ),
}

FOOTNOTES = """<w:footnotes SPACE><w:footnote w:type="separator" w:id="-1"><w:p/></w:footnote>
<w:footnote w:id="1"><w:p><w:r><w:t>Signed in Tromsø.</w:t></w:r></w:p></w:footnote>
</w:footnotes>"""
COMMENTS = "<w:comments SPACE><w:comment/></w:comments>"

DOCXS = {
    "contract.docx": make_docx(
        paragraph("Agreement of Service", style="Title")
        + paragraph("Parties", style="Article")
        + paragraph("The Member joins the expedition.", style="Clause")
        + paragraph("The Leader leads it.", style="Clause")
        + paragraph("Notice", style="Article")
        + paragraph(
            "<w:t>Either side may give notice</w:t><w:footnoteReference w:id='1'/>"
            "<w:t xml:space='preserve'> of sixty days.</w:t>",
            style="Clause",
        )
        + paragraph("in writing,", list_id=2)
        + paragraph("by radio.", list_id=2),
        {"footnotes.xml": FOOTNOTES, "comments.xml": COMMENTS, "header1.xml": "<w:hdr SPACE/>"},
    ),
    "inventory.docx": make_docx(
        paragraph("Stores", style="H1")
        + paragraph("What is left in March:")
        + table([["Item", "Left"], ["Lamp oil", "4 cans"], ["Biscuit", table([["open", "1"]])]])
        + paragraph("Galley", style="H2")
        + paragraph("Pots", list_id=1)
        + paragraph("iron", list_id=1, level=1)
        + paragraph("Knives", list_id=1)
        + "<w:p><w:r><w:drawing/></w:r></w:p>",
        title="Inventory of 1994",
    ),
    "revised.docx": make_docx(
        "<w:p><w:r><w:t>The old text</w:t></w:r>"
        "<w:del><w:r><w:delText> is gone</w:delText></w:r></w:del>"
        "<w:ins><w:r><w:t xml:space='preserve"
        "'> stays</w:t><w:tab/><w:t>here.</w:t></w:r></w:ins></w:p>"
        "<w:p><w:moveFrom><w:r><w:t>Moved away.</w:t></w:r></w:moveFrom></w:p>"
        "<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>Hidden.</w:t></w:r>"
        "<w:r><w:t>Seen.</w:t><w:br/><w:t>Second line.</w:t></w:r></w:p>"
        "<w:p><w:r><mc:AlternateContent><mc:Choice><w:txbxContent><w:p><w:r><w:t>In a box.</w:t>"
        "</w:r></w:p></w:txbxContent></mc:Choice><mc:Fallback><w:txbxContent><w:p><w:r>"
        "<w:t>In a box.</w:t></w:r></w:p></w:txbxContent></mc:Fallback></mc:AlternateContent>"
        "<w:t>Around it.</w:t></w:r></w:p>"
    ),
}

LISTS = """<text:list-style style:name="L1">
<text:list-level-style-number text:level="1" style:num-format="a" style:num-prefix="("
 style:num-suffix=")"/><text:list-level-style-bullet text:level="2"/></text:list-style>
<style:style style:name="P1" style:family="paragraph" style:parent-style-name="Heading"/>"""

ODTS = {
    "lease.odt": make_odt(
        '<text:p text:style-name="P1">Lease of a Hut</text:p>'
        '<text:h text:outline-level="1">Parties</text:h><text:p>The Owner lets the hut.</text:p>'
        '<text:h text:outline-level="2">Members</text:h><text:p>All who sleep there.</text:p>'
        '<text:h text:outline-level="1">Notice</text:h><text:p>Notice is given<text:note>'
        "<text:note-citation>*</text:note-citation><text:note-body><text:p>By the Owner.</text:p>"
        "<text:p>Or for him.</text:p></text:note-body></text:note> as follows:</text:p>"
        '<text:list text:style-name="L1"><text:list-item><text:p>in writing,</text:p>'
        "<text:list><text:list-item><text:p>by hand</text:p></text:list-item></text:list>"
        "</text:list-item><text:list-item><text:p>by radio.</text:p><text:p>Twice.</text:p>"
        "</text:list-item></text:list><text:p>Or:</text:p>"
        '<text:list text:style-name="L1" text:continue-numbering="false"><text:list-item>'
        '<text:p>never.</text:p></text:list-item></text:list><text:list text:style-name="L1" '
        'text:continue-numbering="true"><text:list-item><text:p>Soon.</text:p></text:list-item>'
        "</text:list>",
        styles=LISTS,
        title="An old name",
    ),
    "stores.odt": make_odt(
        '<text:h text:outline-level="3">Stores</text:h><table:table><table:table-row>'
        "<table:table-cell><text:p>Item</text:p></table:table-cell><table:table-cell><text:p>Left"
        "</text:p></table:table-cell></table:table-row><table:table-row><table:table-cell>"
        "<text:p>Lamp<text:s text:c='2'/>oil</text:p></table:table-cell><table:table-cell "
        "table:number-columns-repeated='2'><text:p>4<text:tab/>cans</text:p></table:table-cell>"
        "<table:table-cell table:number-columns-repeated='1000'/></table:table-row></table:table>"
        "<text:p><draw:frame><draw:image/></draw:frame></text:p>",
        title="Stores of 1994",
    ),
    "revised.odt": make_odt(
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>It is gone.</text:p>"
        "</text:deletion></text:changed-region></text:tracked-changes>"
        "<text:table-of-content><text:index-body><text:p>Oil 3</text:p></text:index-body>"
        "</text:table-of-content><text:p>The text<text:change-start/> stays<office:annotation>"
        "<dc:creator>Tom</dc:creator><text:p>Really?</text:p></office:annotation><text:span> here"
        "</text:span>.<text:line-break/>Second line.</text:p>"
    ),
}

EPUBS = {
    "novel.epub": make_epub(
        {
            "one.xhtml": "<h1>Chapter One</h1><p>It was cold &amp; dark.</p>",
            "two.xhtml": "<p>It grew colder.</p><h2>The bear</h2><p>It left.</p>",
            "notes.xhtml": "<p>Never shown in the main line.</p>",
        },
        title="The Winter",
        contents={"one.xhtml": "Chapter One", "two.xhtml": "Chapter Two"},
        side=["notes.xhtml"],
    ),
    "old.epub": make_epub(
        {"a.html": "<h2>Part A</h2><p>First.</p>", "b.html": "<p>Second.</p>"},
        title="An Old Book",
        contents={"a.html": "1. Part A", "b.html#x": "2. Part B"},
        ncx=True,
    ),
    "plain.epub": make_epub({"only.xhtml": "<p>No title, no contents.</p>"}),
}

PYTHONS = {
    "tool.py": rb'''"""A tool that counts words."""

from __future__ import annotations

import sys

LIMIT = 10
TEXT = """
def not_a_function():
    pass
"""


class Counter:
    """Counts."""

    kinds = (
    "a",
    "b",
    )

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    @property
    @staticmethod
    def total(self) -> int:
        def inner(x: int) -> int:
            return x

        return sum(inner(n) for n in self.counts.values())


async def main(
    argument: str,
) -> int:
    print(argument)
    return 0


if __name__ == "__main__":
    sys.exit(0)
''',
    "broken.py": b"""def fine():
    return 1

class Half:
    def method(self):
        return (
""",
}

XLSXS = {
    "gdp.xlsx": make_xlsx(
        {
            "GDP": [["country", "year", "gdp"], ["Japan", 2010, 5.7], ["Norway", 2010, 0.43]],
            "Remarks": [["All sums are estimates"]],
        }
    ),
    "crew.xlsx": make_xlsx(
        {"Crew": [["name", "post", "from"], ["Anna Voll", "cook", 1993], ["Ola", "", 1994]]}
    ),
    "stores.xlsx": make_xlsx(
        {"March": [["item", "left"], ["oil", 4]], "April": [["item", "left"], ["oil", 3]]}
    ),
}

MSGS = {
    "minutes.msg": outlook.message(
        {
            outlook.SUBJECT: "Minutes of the water board",
            outlook.BODY: "The board met on 3 May.\r\n\r\nIt approved the pump for 4,200 crowns."
            "\r\n",
            outlook.SENDER: "Ida Holm",
            outlook.SENDER_ADDRESS: "ida@example.org",
        },
        people=[("Members of the board", "board@example.org")],
        attachments={"votes.csv": b"name,vote\nHolm,yes\nRiis,no\n", "pump.pdf": b"%PDF-1.5"},
        sent=133_280_000_000_000_000,
    ),
    "reply.msg": outlook.message(
        {
            outlook.SUBJECT: "Re: Minutes of the water board",
            outlook.BODY: "Thank you.\r\n\r\n> It approved the pump for 4,200 crowns.\r\n",
            outlook.HEADERS: "From: Per Riis <per@example.org>\r\nTo: Ida <ida@example.org>\r\n"
            "Cc: board@example.org\r\nDate: Thu, 04 May 2023 08:10:00 +0200\r\n\r\n",
        }
    ),
    "notice.msg": outlook.message(
        {
            outlook.SUBJECT: "Water is off on Friday",
            0x1013: "<p>Water is off <b>from 9 to 12</b> on Friday.</p>"
            "<ul><li>Fill a jug.</li></ul>",
            outlook.SENDER: "Water works",
            outlook.SENDER_ADDRESS: "works@example.org",
        }
    ),
}
