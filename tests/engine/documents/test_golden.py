"""Every format: three documents as people have them, and the text and places read from them.

After a change that is meant, look at what `python -m tests.engine.documents.test_golden` prints,
and keep it, when it is right, with `--write`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from drt_engine.documents import Source, all_formats, open_document
from drt_engine.documents.formats import BUILT_IN, PICTURE, by_suffix
from tests.engine.documents import samples

FOLDER = Path(__file__).parent / "golden"
MADE = {
    **samples.PDFS,
    **samples.DOCXS,
    **samples.ODTS,
    **samples.EPUBS,
    **samples.PYTHONS,
    **samples.XLSXS,
    **samples.MSGS,
}
NAMES = sorted([*MADE, *(path.stem for path in FOLDER.glob("*.sample"))])


def shown(path: Path) -> str:
    """What is read from a document: its title, its blocks with their places, what was skipped."""
    document = open_document(Source.from_path(path), isolate=False)
    lines = [f"{document.title} | {document.media_type}\n"]
    for block in document.blocks:
        lines.append(f"@ page {block.page} | section {block.section} | line {block.line}\n")
        lines.append(block.text if block.text.endswith("\n") else f"{block.text}\\\n")
    return "".join([*lines, *(f"skipped: {one}\n" for one in document.skipped)])


def placed(name: str, folder: Path) -> Path:
    """The document as a file."""
    path = folder / name
    # No tool must take a sample for a file of this project.
    path.write_bytes(MADE[name] if name in MADE else (FOLDER / f"{name}.sample").read_bytes())
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_document_is_read_as_expected(name: str, tmp_path: Path) -> None:
    if name.endswith(".pdf"):
        pytest.importorskip("pypdfium2")
    if name.endswith(".xlsx"):
        pytest.importorskip("openpyxl")
    if name.endswith(".pptx"):
        pytest.importorskip("pptx")
    if name.endswith((".ods", ".xls")):
        pytest.importorskip("python_calamine")
    if name.endswith(".rtf"):
        pytest.importorskip("striprtf")
    if name.endswith(".msg"):
        pytest.importorskip("oxmsg")
    expected = (FOLDER / f"{name}.expected").read_text(encoding="utf-8")
    assert shown(placed(name, tmp_path)) == expected


def test_every_format_has_three_documents() -> None:
    found = [by_suffix(name) for name in NAMES]
    # of pictures another library reads the words
    counts = {
        one.name: found.count(one) for one in BUILT_IN if not one.archive and one.name != PICTURE
    }
    assert min(counts.values()) >= 3, counts
    assert set(BUILT_IN) <= set(all_formats())


def main(arguments: list[str]) -> None:
    """Print, or write, what is read from each document."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            text = shown(placed(name, Path(folder)))
            if "--write" in arguments:
                (FOLDER / f"{name}.expected").write_text(text, encoding="utf-8")
            else:
                print(f"##### {name}", text, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
