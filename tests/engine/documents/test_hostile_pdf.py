"""PDF files whose parts lead back to themselves, or that are far larger than they look.

Each ends within its limits, in its words or in one sentence, in the process that reads it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from drt_engine.documents import Source, limits, open_document
from drt_engine.errors import DocumentError
from tests.engine.documents.helpers import assemble_pdf, joined

pytest.importorskip("pypdfium2")

MANY = 100_000
WORDS = "The lamp burns oil."
FONT = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
ITEM = "/Title (Fog) /Dest [4 0 R /Fit] /Parent 6 0 R"  # of an outline


def stream(content: str, extra: str = "") -> str:
    return f"<< /Length {len(content)} {extra} >>\nstream\n{content}\nendstream"


def show(words: str) -> str:
    return f"BT /F1 12 Tf 72 720 Td ({words}) Tj ET"


def page(contents: int = 5, *, extra: str = "", resources: str = "") -> str:
    return (
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> "
        f"{resources} >> /Contents {contents} 0 R {extra} >>"
    )


def pdf(
    *more: str,
    catalog: str = "",
    pages: str = "/Kids [4 0 R] /Count 1",
    one_page: str = "",
    content: str = "",
    font: str = FONT,
    trailer: str = "",
) -> bytes:
    """A document of one page, whose further objects have the numbers from 6 on."""
    start = [f"<< /Type /Catalog /Pages 2 0 R {catalog} >>", f"<< /Type /Pages {pages} >>", font]
    return assemble_pdf(
        [*start, one_page or page(), stream(content or show(WORDS)), *more], trailer
    )


def outline(items: Sequence[str]) -> bytes:
    """A document with an outline, whose items are the objects from 7 on."""
    root = "<< /Type /Outlines /First 7 0 R /Last 7 0 R /Count 1 >>"
    return pdf(root, *(f"<< {ITEM} {item} >>" for item in items), catalog="/Outlines 6 0 R")


def forms(*targets: int, times: int = 1) -> bytes:
    """A page that draws a form, and forms that each draw the form with a number."""
    draws = "/X Do " * times
    head = "/Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << /XObject << /X"
    objects = [stream(draws, f"{head} {target} 0 R >> >>") for target in targets]
    resources = "/XObject << /X 6 0 R >>"
    return pdf(*objects, one_page=page(resources=resources), content="/X Do " + show(WORDS))


def packed(letter: bytes, times: int) -> bytes:
    """A page whose content is packed; the table of objects is wrong, as in many honest files."""
    packer = zlib.compressobj()
    data = b"".join(packer.compress(letter * (1 << 20)) for _ in range(1 << 10)) + packer.flush()
    for _ in range(times - 1):
        data = zlib.compress(data)
    filters = b"/FlateDecode " * times
    head = b"<< /Length %d /Filter [%s] >>\nstream\n%s\nendstream" % (len(data), filters, data)
    return pdf(content="(mark)").replace(stream("(mark)").encode(), head)


def page_tree_of_depth(depth: int) -> bytes:
    nodes = [
        f"<< /Type /Pages /Kids [{7 + n if n < depth - 1 else 2} 0 R] /Count 1 >>"
        for n in range(depth)
    ]
    return pdf(*nodes).replace(b"/Pages 2 0 R", b"/Pages 6 0 R")


LOOPS: dict[str, Callable[[], bytes]] = {
    "page tree": lambda: pdf(pages="/Kids [2 0 R 4 0 R] /Count 2"),
    "page tree of two": lambda: pdf(
        "<< /Type /Pages /Kids [2 0 R 4 0 R] /Count 3 /Parent 2 0 R >>",
        pages="/Kids [6 0 R] /Count 3",
    ),
    "page tree of a thousand": lambda: pdf(pages=f"/Kids [{'2 0 R ' * 1000}] /Count 1000000"),
    "page labels": lambda: pdf("<< /Kids [6 0 R 6 0 R] >>", catalog="/PageLabels 6 0 R"),
    "page and parent": lambda: pdf(one_page=page().replace("/Parent 2", "/Parent 4")),
    "outline": lambda: outline(["/First 7 0 R /Next 7 0 R"]),
    "outline of two": lambda: outline(["/First 8 0 R /Next 8 0 R", "/First 7 0 R /Next 7 0 R"]),
    "outline of forty": lambda: outline(
        [f"/First {8 + n} 0 R /Next {8 + n} 0 R" for n in range(40)] + [""]
    ),
    "form": lambda: forms(6),
    "glyph": lambda: pdf(
        stream("9 0 d0 BT /F1 9 Tf (aaaa) Tj ET"),
        font="<< /Type /Font /Subtype /Type3 /FontBBox [0 0 9 9] /FontMatrix [1 0 0 1 0 0] "
        "/FirstChar 97 /LastChar 97 /Widths [9] /Encoding << /Differences [97 /a] >> "
        "/CharProcs << /a 6 0 R >> /Resources << /Font << /F1 3 0 R >> >> >>",
        content=show("aaaa"),
    ),
    "content": lambda: pdf("[6 0 R 6 0 R]", one_page=page(6)),
    "properties": lambda: pdf("<< /Title 6 0 R /Author 6 0 R >>", trailer="/Info 6 0 R"),
    "names": lambda: pdf("<< /Kids [6 0 R 6 0 R] >>", catalog="/Names << /Dests 6 0 R >>"),
    "fields": lambda: pdf(
        "<< /Type /Annot /Subtype /Widget /FT /Tx /T (a) /V (b) /Rect [0 0 9 9] /Kids [6 0 R] "
        "/Parent 6 0 R >>",
        catalog="/AcroForm << /Fields [6 0 R] >>",
        one_page=page(extra="/Annots [6 0 R]"),
    ),
    "tags": lambda: pdf(
        "<< /Type /StructTreeRoot /K [7 0 R] /ParentTree 6 0 R >>",
        "<< /Type /StructElem /S /P /P 6 0 R /K [7 0 R 7 0 R] /Pg 4 0 R >>",
        catalog="/StructTreeRoot 6 0 R /MarkInfo << /Marked true >>",
    ),
}

LARGE: dict[str, Callable[[], bytes]] = {
    "page of no end": lambda: pdf(pages="/Kids [4 0 R] /Count 2000000000"),
    "page number": lambda: pdf(catalog="/PageLabels << /Nums [0 << /S /r /St 2000000000 >>] >>"),
    "letters of a page number": lambda: pdf(
        catalog="/PageLabels << /Nums [0 << /S /a /St 200000000 >>] >>"
    ),
    "prefix of a page number": lambda: pdf(
        catalog=f"/PageLabels << /Nums [0 << /P ({'x' * 10_000_000}) /S /D >>] >>"
    ),
    "title of an outline": lambda: outline([f"/Title ({'x' * 10_000_000})"]),
    "outline, flat": lambda: outline([f"/Next {8 + n} 0 R" for n in range(MANY)] + [""]),
    "outline, deep": lambda: outline([f"/First {8 + n} 0 R" for n in range(MANY)] + [""]),
    "page tree, deep": lambda: page_tree_of_depth(MANY),
    "array, deep": lambda: pdf(catalog="/X " + "[" * 1_000_000),
    "notes": lambda: pdf(
        "<< /Type /Annot /Subtype /Text /Contents (a note) /Rect [0 0 9 9] /Popup 6 0 R >>",
        one_page=page(extra=f"/Annots [{'6 0 R ' * MANY}]"),
    ),
    "content again and again": lambda: pdf(f"[{'5 0 R ' * MANY}]", one_page=page(6)),
    "page": lambda: pdf(one_page=page().replace("[0 0 612 792]", "[-1e38 -1e38 1e38 1e38]")),
    "bomb": lambda: packed(b" ", 1),
    "bomb in bombs": lambda: packed(b"\n", 3),
    "forms in forms": lambda: forms(7, 6, times=10),
}


def ending(path: Path, content: bytes) -> str:
    """What reading a file comes to, in a process of its own: words, or a sentence."""
    path.write_bytes(content)
    try:
        return joined(list(open_document(Source.from_path(path)).blocks))
    except DocumentError as error:
        assert str(error).startswith(f"{path} ") and "\n" not in str(error)
        return str(error)


def is_good(text: str) -> bool:
    sentences = ("is damaged on page", "its reader crashed", "has no text on any page")
    return "burns oil" in text or "aa" in text or any(words in text for words in sentences)


@pytest.mark.thorough
@pytest.mark.few(1)
@pytest.mark.parametrize("name", LOOPS)
def test_what_leads_back_to_itself_ends(name: str, tmp_path: Path) -> None:
    found = ending(tmp_path / "a.pdf", LOOPS[name]())
    assert is_good(found), found[:300]


@pytest.mark.thorough
@pytest.mark.parametrize("name", LARGE)
def test_what_is_far_larger_than_it_looks_ends(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CPU_SECONDS", 5)
    found = ending(tmp_path / "a.pdf", LARGE[name]())
    assert is_good(found) or "s of computing" in found, found[:300]


@pytest.mark.stress
def test_a_hundred_thousand_pages_are_read(tmp_path: Path) -> None:
    """Of their own, and of one that is named again and again."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(MANY))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {MANY} >>",
        FONT,
    ]
    for number in range(MANY):
        objects += [page(5 + 2 * number), stream(show(f"Page {number} of the log."))]
    text = ending(tmp_path / "a.pdf", assemble_pdf(objects, ""))
    assert text.count(" of the log.") == MANY and f"Page {MANY - 1} of" in text
    same = ending(tmp_path / "b.pdf", pdf(pages=f"/Kids [{'4 0 R ' * MANY}] /Count {MANY}"))
    assert same.count(WORDS) == MANY
