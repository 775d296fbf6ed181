"""``drt bench pdf``: pages a second of the PDF reader, with places, and its memory on a long file.

Times are processor time, so that a busy machine shows what an idle one does with one core. No
model is needed.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from drt_engine.documents import Source
from drt_engine.documents.formats import format_named
from drt_engine.documents.opening import open_here
from drt_engine.errors import ConfigError
from drt_lab.bench.parts import MEGA, BenchOptions, generated_text, run_process
from drt_lab.evaluate.report import BenchReport, BenchRow, bench_row

PAGES = 600
_LONGER = 5  # times as many pages has the file whose memory is measured
_LINES = 52
_COLUMNS = {1: (92, (64,)), 2: (43, (64, 316))}  # characters of a line, left edges in points
PDFIUM = "PDFium's own text"
_READ = """
import sys
from drt_engine.documents import Source
from drt_engine.documents.formats import format_named
from drt_engine.documents.opening import open_here
for block in open_here(format_named("pdf"), Source.from_path(sys.argv[1])).blocks:
    pass
"""


def bench_pdf(options: BenchOptions) -> BenchReport:
    """Read PDF files again and again, in turns with taking PDFium's text without places.

    The files are made: pages of one column and of two, with running heads. Raises ConfigError
    without the extra that reads PDF files.
    """
    reader = format_named("pdf")
    if not reader.installed:
        raise ConfigError('reading PDF files needs pypdfium2; pip install "drt-assistant[pdf]"')
    started = time.monotonic()
    pages = options.pages or PAGES
    with tempfile.TemporaryDirectory(prefix="drt-bench-") as name:
        folder = Path(name)
        files = _files(folder, pages) if options.file is None else {"the file": options.file}
        rows = [row for label, file in files.items() for row in _rows(label, file, options)]
        long = options.file
        if long is None:
            long = folder / "long.pdf"
            long.write_bytes(made_pdf(pages * _LONGER, columns=2))
        # In a process of its own, and one that has no torch, as ingesting reads it.
        peak = run_process([sys.executable, "-c", _READ, str(long)]).peak_bytes
        size = pages * _LONGER if options.file is None else page_count(long)
    if peak is not None:
        rows.append(BenchRow(f"peak memory, {size} pages", peak / MEGA, 0.0, "MB"))
    return BenchReport(
        bench="pdf",
        rows=rows,
        seconds=time.monotonic() - started,
        model="no model",
        calibration={"pages": pages if options.file is None else size},
    )


def _files(folder: Path, pages: int) -> dict[str, Path]:
    files = {}
    for columns, label in ((1, "one column"), (2, "two columns")):
        files[label] = folder / f"{columns}.pdf"
        files[label].write_bytes(made_pdf(pages, columns=columns))
    return files


def _rows(label: str, file: Path, options: BenchOptions) -> Iterator[BenchRow]:
    pages = page_count(file)
    ours: list[float] = []
    plain: list[float] = []
    for number in range(options.repetitions + 1):
        times = _seconds(lambda: read_pages(file)), _seconds(lambda: _plain_text(file))
        if number:  # the first reading warms caches up
            ours.append(pages / times[0])
            plain.append(pages / times[1])
    against = f"{PDFIUM}, {label}"
    yield bench_row(
        f"read, {label}", ours, unit="pages/s of a core", against=against, against_values=plain
    )
    yield bench_row(against, plain, unit="pages/s of a core")


def _seconds(work: Callable[[], object]) -> float:
    """Processor time of this process for some work."""
    start_time = time.process_time()
    work()
    return time.process_time() - start_time


def read_pages(file: Path) -> int:
    """Read a PDF as ingesting does, places included, in this process; return its characters."""
    source = Source.from_path(file)
    with open_here(format_named("pdf"), source) as document:
        return sum(len(block.text) for block in document.blocks)


def _plain_text(file: Path) -> None:
    library = importlib.import_module("pypdfium2")
    document = library.PdfDocument(file)
    for page in document:
        text = page.get_textpage()
        text.get_text_bounded()
        text.close()
        page.close()
    document.close()


def page_count(file: Path) -> int:
    """How many pages a PDF has."""
    document = importlib.import_module("pypdfium2").PdfDocument(file)
    count = len(document)
    document.close()
    return count


def made_pdf(pages: int, *, columns: int) -> bytes:
    """Return a PDF of so many pages of made-up text in one column or two, with running heads."""
    words = iter(generated_text(pages * _LINES * 20).split())
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(pages))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number in range(pages):
        content = zlib.compress(_page(words, number, columns), 1)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font"
            b" << /F1 3 0 R >> >> /Contents %d 0 R >>" % (5 + 2 * number)
        )
        head = b"<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(content)
        objects.append(head + content + b"\nendstream")
    return _assembled(objects)


def _page(words: Iterator[str], number: int, columns: int) -> bytes:
    width, edges = _COLUMNS[columns]
    lines = [(64.0, 752.0, "Report on the Harbour"), (300.0, 36.0, str(number + 1))]
    for left in edges:
        lines += [(left, 724.0 - 13 * at, _line(words, width)) for at in range(_LINES)]
    shown = (f"BT /F1 10 Tf 1 0 0 1 {x} {y} Tm ({text}) Tj ET" for x, y, text in lines)
    return "\n".join(shown).encode("ascii")


def _line(words: Iterator[str], width: int) -> str:
    line = ""
    for word in islice(words, width):
        line = f"{line} {word}" if line else word
        if len(line) > width - 8:
            break
    return line


def _assembled(objects: Sequence[bytes]) -> bytes:
    """Return a PDF file of numbered objects with its table."""
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size, start = len(objects) + 1, len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, start)
    return bytes(out)
