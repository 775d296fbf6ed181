"""What the document tests share: reading a file whole, and PDF files written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drt_engine.documents import Block, OpenDocument, Source, open_document
from drt_engine.documents.base import BLOCK_CHARACTERS


def read(path: Path, content: bytes | str | None = None) -> tuple[OpenDocument, list[Block]]:
    """Write `content` to `path`, open it in this process and read all its blocks."""
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    document = open_document(Source.from_path(path), isolate=False)
    blocks = list(document.blocks)
    assert all(0 < len(block.text) <= BLOCK_CHARACTERS for block in blocks)
    return document, blocks


def joined(blocks: Sequence[Block]) -> str:
    return "".join(block.text for block in blocks)


def sections(blocks: Sequence[Block]) -> list[tuple[str | None, str]]:
    """Each block's section with its text stripped."""
    return [(block.section, block.text.strip()) for block in blocks]


def section_at(blocks: Sequence[Block], needle: str) -> str | None:
    """The section of the one place where `needle` stands."""
    found = [block.section for block in blocks if needle in block.text]
    assert len(found) == 1, (needle, found)
    return found[0]


def make_pdf(pages: Sequence[Sequence[str]], *, title: str = "", encrypt: bool = False) -> bytes:
    """A PDF whose pages hold the given lines; `encrypt` locks it with a password nobody knows."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i, lines in enumerate(pages):
        shown = " ".join(f"({line}) Tj T*" for line in lines)
        content = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET"
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * i} 0 R >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    objects.append(f"<< /Title ({title}) >>")
    info = len(objects)
    locked = ""
    if encrypt:
        key = "<" + "5a" * 32 + ">"
        objects.append(f"<< /Filter /Standard /V 1 /R 2 /O {key} /U {key} /P -4 >>")
        locked = f"/Encrypt {len(objects)} 0 R /ID [<00><00>]"
    return assemble_pdf(objects, f"/Info {info} 0 R {locked}")


def assemble_pdf(objects: Sequence[str], trailer: str) -> bytes:
    """A PDF file of numbered objects with its table."""
    out, offsets = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    return (
        f"{out}xref\n0 {size}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{len(out)}\n%%EOF\n"
    ).encode("latin-1")
