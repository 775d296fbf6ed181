"""Reading again what was read before: unchanged files, and a document that grew by a hundredth.

The rows of ``drt bench library`` that need a model; each document is made up and read as any other.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from drt_engine.documents import Source, expand_paths
from drt_engine.errors import DocumentError
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.temporary import open_library
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_lab.bench.parts import generated_text
from drt_lab.evaluate.report import BenchRow, bench_row

FILES = 1_000  # unless options name another number
FILE_TOKENS = 40
LARGE_TOKENS = 100_000  # at most: a larger document only makes the share smaller
_SHARE = 0.01
AGAIN, HASH = "read unchanged files again", "read and hash these files"
APPEND, WHOLE = "append 1% to a large document", "read it whole"


def reading_again(
    runtime: Runtime, folder: Path, *, tokens: int, files: int, repeat: int
) -> list[BenchRow]:
    """Measure both in ``folder``: ``files`` small files, and a document of ``tokens`` tokens.

    The document has ``LARGE_TOKENS`` at most.
    """
    (folder / "files").mkdir()
    with open_library(runtime, folder / "again") as store:
        return [
            *_unchanged(runtime, store, folder / "files", files=files, repeat=repeat),
            *_appended(runtime, store, folder / "large.txt", min(tokens, LARGE_TOKENS)),
        ]


def _unchanged(
    runtime: Runtime, store: Store, folder: Path, *, files: int, repeat: int
) -> list[BenchRow]:
    for number in range(files):
        text = generated_text(FILE_TOKENS, seed=number)
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    assert _read_all(runtime, store, folder) == files
    again, hashed = [], []
    for _ in range(repeat):
        start_time = time.perf_counter()
        assert _read_all(runtime, store, folder) == 0
        again.append(files / (time.perf_counter() - start_time))
        start_time = time.perf_counter()
        for file in folder.iterdir():
            hashlib.sha256(file.read_bytes()).digest()
        hashed.append(files / (time.perf_counter() - start_time))
    return [
        bench_row(AGAIN, again, unit="files/s", against=HASH, against_values=hashed),
        bench_row(HASH, hashed, unit="files/s"),
    ]


def _read_all(runtime: Runtime, store: Store, folder: Path) -> int:
    """Read a folder as ``drt ingest`` does; return how many of its documents were new."""
    num_new = 0
    for source in expand_paths([str(folder)]):
        if isinstance(source, DocumentError):
            raise source
        num_new += _read(runtime, store, source)
    return num_new


def _appended(runtime: Runtime, store: Store, file: Path, tokens: int) -> list[BenchRow]:
    """Time three appends, and once the reading of the whole, which takes long."""
    file.write_text(generated_text(tokens, seed=1) + "\n\n", encoding="utf-8")
    whole_seconds = _read_seconds(runtime, store, file)
    appends = []
    for number in range(3):
        with file.open("a", encoding="utf-8") as end:
            end.write(generated_text(max(1, round(tokens * _SHARE)), seed=number + 2) + "\n\n")
        appends.append(_read_seconds(runtime, store, file))
    return [
        bench_row(APPEND, appends, unit="s", against=WHOLE, against_values=[whole_seconds]),
        bench_row(WHOLE, [whole_seconds], unit="s"),
    ]


def _read_seconds(runtime: Runtime, store: Store, file: Path) -> float:
    start_time = time.perf_counter()
    assert _read(runtime, store, Source.from_path(file))
    return time.perf_counter() - start_time


def _read(runtime: Runtime, store: Store, source: Source) -> bool:
    try:
        return ingest_source(runtime, store, source)[1]
    finally:
        source.close()
