"""The benchmark of reading PDF files: what it makes, what it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.documents import Source
from drt_engine.documents.formats import format_named
from drt_engine.documents.opening import open_here
from drt_engine.errors import ConfigError
from drt_lab.bench import pdf
from drt_lab.bench.parts import ProcessTimes
from drt_lab.bench.run import bench

pytest.importorskip("pypdfium2")


@pytest.fixture(autouse=True)
def _no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "run_process", lambda command: ProcessTimes(1, 1, 41_000_000))


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [1, 2])
def test_made_pages_are_full_and_read_column_by_column(tmp_path: Path, columns: int) -> None:
    file = tmp_path / "a.pdf"
    file.write_bytes(pdf.made_pdf(4, columns=columns))
    assert pdf.page_count(file) == 4
    with open_here(format_named("pdf"), Source.from_path(file)) as document:
        blocks = list(document.blocks)
    heads = [block for block in blocks if block.text.strip() == "Report on the Harbour"]
    pages = [block for block in blocks if block not in heads]
    text = "".join(block.text for block in pages)
    assert [block.page for block in pages] == [1, 2, 3, 4]
    assert len(text) > 4 * 3500 and all(block.origin for block in blocks)
    # A running head is kept once, of its first page and behind the paragraph that this ends with.
    assert [head.page for head in heads] == [1] and "Report on the Harbour" not in text
    assert blocks.index(heads[0]) == 2
    words = pdf.generated_text(4 * 52 * 20).split()
    assert text.split() == words[: len(text.split())]
    assert pdf.read_pages(file) == sum(len(block.text) for block in blocks)


@pytest.mark.thorough
def test_rows_are_pages_a_second_beside_pdfiums_own_text() -> None:
    result = bench("pdf", {"repetitions": 2, "pages": 3})
    rows = {row["name"]: row for row in result["rows"]}
    assert result["bench"] == "pdf" and result["calibration"] == {"pages": 3}
    for kind in ("one column", "two columns"):
        ours, plain = rows[f"read, {kind}"], rows[f"PDFium's own text, {kind}"]
        assert ours["unit"] == plain["unit"] == "pages/s of a core"
        assert ours["against"] == plain["name"] and ours["ratio"] > 0
    assert rows["peak memory, 15 pages"]["median"] == 41


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.pdf"
    file.write_bytes(pdf.made_pdf(2, columns=1))
    result = bench("pdf", {"repetitions": 1, "file": file})
    assert [row["name"] for row in result["rows"]] == [
        "read, the file", "PDFium's own text, the file", "peak memory, 2 pages",
    ]  # fmt: skip


@pytest.mark.thorough
def test_the_process_that_is_measured_reads_the_file(tmp_path: Path) -> None:
    import subprocess
    import sys

    from drt_lab.bench.parts import environment

    command = [sys.executable, "-c", pdf._READ]
    file = tmp_path / "a.pdf"
    file.write_bytes(pdf.made_pdf(1, columns=1))
    assert subprocess.run([*command, str(file)], env=environment(), check=False).returncode == 0
    file.write_bytes(b"%PDF-1.4 nothing")
    ended = subprocess.run(
        [*command, str(file)], env=environment(), check=False, capture_output=True
    )
    assert ended.returncode != 0 and b"UnreadableDocument" in ended.stderr


@pytest.mark.parametrize("pages", [0, -1])
def test_no_pages_are_refused(pages: int) -> None:
    with pytest.raises(ConfigError, match="expected 1 or more"):
        bench("pdf", {"pages": pages})


def test_without_the_extra_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drt_engine.documents.formats.importable", lambda module: False)
    with pytest.raises(ConfigError, match="pip install"):
        bench("pdf", {"pages": 1})
