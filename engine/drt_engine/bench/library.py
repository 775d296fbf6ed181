"""``drt bench library``: write, check, open, list and ask a library of made-up records.

Chunk memory is random and texts are made up, so that 16 million tokens take minutes, not a model's
hours; the records, the catalogue and the question are those of ordinary use. Only files that are
read again are read by the model (again.py). Each number stands beside the disk's or the
checksum's own rate, or beside the same over a small library.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from drt_engine.answer.ask import AskOptions, ask
from drt_engine.bench import again
from drt_engine.bench.ask import cold_processes
from drt_engine.bench.parts import MEGA, BenchOptions, run_process
from drt_engine.data.needle_words import ADJECTIVES, COLOURS, NOUNS, THINGS
from drt_engine.evaluate.report import BenchReport, BenchRow, bench_row
from drt_engine.ingest.temporary import open_library
from drt_engine.runtime import Runtime
from drt_engine.search.search import SearchRequest, search
from drt_engine.store import ChunkBatch, ChunkText, Store
from drt_engine.store.identity import TextHash
from drt_kernels.scan.coder import CODED_ROWS

TOKENS = 1 << 18
SMALL_TOKENS = 4096
SMALL_DOCUMENTS = 100  # at least
BATCH = 256  # chunks appended together, as reading does
_WORDS_PER_TOKEN = 0.75
WRITE, DISK = "write records", "write and fsync a file"
CHECK, CRC = "check records", "crc32 of the same bytes"
ASK, SMALL_ASK = "ask", "ask over 4k tokens"
SEARCH, SMALL_SEARCH = "search", "search over 4k tokens"


def bench_library(runtime: Runtime, options: BenchOptions) -> BenchReport:
    """Make one large document of ``tokens`` tokens, and a small one per 1,600, 10,000 at most."""
    started = time.monotonic()
    tokens, files = options.tokens or TOKENS, options.files or again.FILES
    documents = max(SMALL_DOCUMENTS, min(10_000, tokens // 1_600))
    rows: list[BenchRow] = []
    with tempfile.TemporaryDirectory(prefix="drt-bench-") as name:
        folder = Path(name)
        rows += _writing(runtime, folder, tokens)
        rows += _checking(runtime, folder / "large", options)
        rows += _asking(runtime, folder, options)
        rows += _small_documents(runtime, folder / "many", documents, options)
        rows += again.reading_again(
            runtime, folder, tokens=tokens, files=files, repeat=options.repetitions
        )
        with open_library(runtime, folder / "large") as store:
            stats = store.stats()
    return BenchReport(
        bench="library",
        rows=rows,
        seconds=time.monotonic() - started,
        model=runtime.name,
        calibration={
            "tokens": int(stats["tokens"]),
            "small_documents": documents,
            "files_read_again": files,
            "bytes_per_token": stats["bytes_per_token"],
            "threads": torch.get_num_threads(),
        },
    )


class MadeUp:
    """Records and texts without a model: random memory, words as often as words of English are."""

    def __init__(self, runtime: Runtime, seed: int = 0) -> None:
        self._config = config = runtime.config
        self._chance = random.Random(seed)
        self._numbers = torch.Generator().manual_seed(seed)
        shape = (BATCH, config.chunk, config.kv_heads, config.head_size)
        self._keys = torch.randn(shape, generator=self._numbers)
        named = sorted({*THINGS, *ADJECTIVES, *NOUNS, *COLOURS})
        self._words = [*named, *(f"w{number:x}" for number in range(50_000))]
        self._chance.shuffle(self._words)
        # as often as the inverse of their rank, the commonest left out as stop words are
        weights = (1 / (rank + 20) for rank in range(len(self._words)))
        self._weights = list(_running_sums(weights))

    def texts(self, count: int) -> list[str]:
        """Texts of ``count`` full chunks."""
        words = round(self._config.chunk * _WORDS_PER_TOKEN)
        return [self._text(words) for _ in range(count)]

    def batch(self, count: int) -> ChunkBatch:
        """Numbers of ``count`` full chunks."""
        config = self._config
        size = config.chunk
        shape = (count, size)
        ids = torch.randint(config.vocab // 16, config.vocab, shape, generator=self._numbers)
        places = torch.arange(size, dtype=torch.int32).expand(count, size)
        landmarks = torch.randn(count, config.width, generator=self._numbers)
        return ChunkBatch(
            ids=ids.int(),
            starts=places,
            ends=places + 1,
            lengths=torch.full((count,), size, dtype=torch.int32),
            keys=self._keys[:count],
            values=self._keys[:count].flip(0),
            landmarks=torch.nn.functional.normalize(landmarks, dim=-1),
        )

    def _text(self, words: int) -> str:
        return " ".join(self._chance.choices(self._words, cum_weights=self._weights, k=words)) + " "


def _running_sums(values: Iterator[float]) -> Iterator[float]:
    total = 0.0
    for value in values:
        total += value
        yield total


def make_document(store: Store, made_up: MadeUp, *, number: int, chunks: int) -> float:
    """Write a document of random records; returns the seconds that writing alone took."""
    seconds, start = 0.0, 0
    pieces = made_up.texts(chunks)
    text_hash = TextHash()
    text_hash.update(pieces)
    with store.begin_document(
        document_id=text_hash.document_id,
        title=f"Made up {number}",
        source=f"/made-up/{number}",
        media_type="",
    ) as writer:
        for at in range(0, chunks, BATCH):
            batch = made_up.batch(min(BATCH, chunks - at))
            texts = []
            for piece in pieces[at : at + BATCH]:
                texts.append(ChunkText(start, piece))
                start += len(piece)
            start_time = time.perf_counter()
            writer.append(batch, texts)
            seconds += time.perf_counter() - start_time
        start_time = time.perf_counter()
        writer.finish(places=[(0, None, None)])
    return seconds + time.perf_counter() - start_time


def _writing(runtime: Runtime, folder: Path, tokens: int) -> list[BenchRow]:
    """Write the large and the small library; the rate beside a plain file of the same size."""
    made_up, chunk = MadeUp(runtime), runtime.config.chunk
    rates = []
    for number, (name, size) in enumerate([("small", SMALL_TOKENS), ("large", tokens)]):
        with open_library(runtime, folder / name) as store:
            seconds = make_document(store, made_up, number=number + 1, chunks=max(1, size // chunk))
        size_bytes = sum(f.stat().st_size for f in (folder / name).rglob("*") if f.is_file())
        rates = [size_bytes / seconds / MEGA]  # of the large library in the end
    plain = [_plain_rate(folder / "plain") for _ in range(3)]
    return [
        bench_row(WRITE, rates, unit="MB/s", against=DISK, against_values=plain),
        bench_row(DISK, plain, unit="MB/s"),
    ]


def _plain_rate(path: Path) -> float:
    data = os.urandom(1 << 22)
    start_time = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(8):
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    seconds = time.perf_counter() - start_time
    path.unlink()
    return 8 * len(data) / seconds / MEGA


def _checking(runtime: Runtime, library: Path, options: BenchOptions) -> list[BenchRow]:
    files = [f for f in (library / "segments").iterdir() if f.is_file()]
    size = sum(file.stat().st_size for file in files)
    checks, sums = [], []
    for _ in range(min(options.repetitions, 3)):
        with open_library(runtime, library) as store:
            start_time = time.perf_counter()
            findings = store.check()
            checks.append(size / (time.perf_counter() - start_time) / MEGA)
        assert not findings, findings
        start_time = time.perf_counter()
        for file in files:
            zlib.crc32(file.read_bytes())
        sums.append(size / (time.perf_counter() - start_time) / MEGA)
    return [
        bench_row(CHECK, checks, unit="MB/s", against=CRC, against_values=sums),
        bench_row(CRC, sums, unit="MB/s"),
    ]


def _asking(runtime: Runtime, folder: Path, options: BenchOptions) -> list[BenchRow]:
    """One question over both libraries in turns; first answers, of an opening and of a process.

    The same words are searched, too.
    """
    times: dict[str, list[float]] = {"small": [], "large": []}
    searches: dict[str, list[float]] = {"small": [], "large": []}
    cold = []
    with (
        open_library(runtime, folder / "small") as small,
        open_library(runtime, folder / "large") as large,
    ):
        stores = {"small": small, "large": large}
        codings = -(-large.stats()["chunks"] // CODED_ROWS)  # one a question from the second on
        for number in range(-2 - codings, options.repetitions):
            for name, store in stores.items():
                seconds = _ask_seconds(runtime, store, options)
                search_seconds = _seconds(partial(_search, runtime, store, options))
                if number >= 0:
                    times[name].append(1000 * seconds)
                    searches[name].append(1000 * search_seconds)
        for _ in range(options.repetitions):
            with open_library(runtime, folder / "large") as store:
                cold.append(1000 * _ask_seconds(runtime, store, options))
    command = options.command(runtime, folder / "large", "ask", options.question)
    return [
        bench_row(ASK, times["large"], unit="ms", against=SMALL_ASK, against_values=times["small"]),
        bench_row(SMALL_ASK, times["small"], unit="ms"),
        bench_row(
            SEARCH,
            searches["large"],
            unit="ms",
            against=SMALL_SEARCH,
            against_values=searches["small"],
        ),
        bench_row(SMALL_SEARCH, searches["small"], unit="ms"),
        bench_row("ask after opening", cold, unit="ms", against=ASK, against_values=times["large"]),
        *cold_processes(command, options.repetitions),
    ]


def _search(runtime: Runtime, store: Store, options: BenchOptions) -> None:
    search(runtime, store, options.question, SearchRequest())


def _ask_seconds(runtime: Runtime, store: Store, options: BenchOptions) -> float:
    return _seconds(lambda: ask(runtime, store, options.question, AskOptions()))


def _small_documents(
    runtime: Runtime, library: Path, documents: int, options: BenchOptions
) -> list[BenchRow]:
    made_up = MadeUp(runtime, seed=1)
    with open_library(runtime, library) as store:
        start_time = time.perf_counter()
        for number in range(1, documents + 1):
            make_document(store, made_up, number=number, chunks=1)
        written = documents / (time.perf_counter() - start_time)
    opening, listing, first, again = [], [], [], []
    for _ in range(options.repetitions):
        start_time = time.perf_counter()
        with open_library(runtime, library) as store:
            opening.append(1000 * (time.perf_counter() - start_time))
            listing.append(1000 * _seconds(store.documents))
            first.append(1000 * _seconds(partial(_scan, store)))
            again.append(1000 * _seconds(partial(_scan, store)))
    command = options.command(runtime, library, "library", "list")
    process = [run_process(command).total for _ in range(options.repetitions)]
    python = [run_process([sys.executable, "-c", "print()"]).total for _ in process]
    return [
        bench_row(f"write {documents:,} small documents", [written], unit="documents/s"),
        bench_row("open it", opening, unit="ms"),
        bench_row("list its documents", listing, unit="ms"),
        bench_row("`drt library list`", process, unit="s", against="python", against_values=python),
        bench_row("python", python, unit="s"),
        bench_row("first scan of its landmarks", first, unit="ms"),
        bench_row("next scan", again, unit="ms"),
    ]


def _scan(store: Store) -> int:
    return sum(len(ids) for ids, _ in store.scan_landmarks())


def _seconds(work: Callable[[], object]) -> float:
    start_time = time.perf_counter()
    work()
    return time.perf_counter() - start_time
