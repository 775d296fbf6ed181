"""``drt bench documents``: work with a library of many small documents, by their number.

Every piece of work is timed over three libraries in turns, each with ten times the documents of the
one before; a ratio is to the smallest. The processor's milliseconds are beside those of the clock:
where other work runs on the machine, they are what can be compared.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.documents import Source, expand_paths
from drt_engine.errors import DocumentError
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.temporary import open_library
from drt_engine.runtime import Runtime
from drt_engine.search.search import SearchRequest, search
from drt_engine.store import Store
from drt_engine.store.transfer.backup import copy_library
from drt_kernels.scan.coder import CODED_ROWS
from drt_lab.bench.many import SmallTexts, make_many, small_file, tiny_runtime
from drt_lab.bench.parts import BenchOptions
from drt_lab.bench.phases import Seconds
from drt_lab.bench.timing import load_average
from drt_lab.evaluate.report import BenchReport, BenchRow, bench_row

DOCUMENTS = 10_000  # of the largest library, unless options name another number
LEAST = 100
_STEP = 10
_DESCRIPTORS = Path("/proc/self/fd")


def bench_documents(options: BenchOptions) -> BenchReport:
    """Time a hundredth, a tenth and all of ``files`` documents; a model of random weights reads."""
    started, load = time.monotonic(), load_average()
    largest = max(LEAST, options.files or DOCUMENTS)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="drt-bench-")))
        folder = options.folder or scratch
        folder.mkdir(parents=True, exist_ok=True)
        runtime = tiny_runtime(folder / "model", options.model)
        sizes = [max(1, largest // step) for step in (_STEP * _STEP, _STEP, 1)]
        cases = [_made(runtime, folder, size, options.question) for size in sizes]
        for repetition in range(options.repetitions + 1):
            for case in cases:  # in turns; the first time is for caches
                case.time_short(counts=repetition > 0)
        for case in cases:
            case.time_long()
    return BenchReport(
        bench="documents",
        rows=list(_rows(cases)),
        seconds=time.monotonic() - started,
        model="a random model of width 32",
        calibration={
            "documents": largest,
            "chunks": cases[-1].chunks,
            "tokens": cases[-1].tokens,
            "bytes_per_token": cases[-1].bytes_per_token,
            "load_before": load,
            "load_after": load_average(),
        },
    )


def _made(runtime: Runtime, folder: Path, size: int, question: str) -> _Case:
    library, files = folder / f"documents-{size}", folder / f"files-{size}"
    make_many(runtime, library, files, size)
    return _Case(runtime, library, files, size=size, question=question)


@dataclass
class _Case:
    """A library of ``size`` documents, and what work over it took."""

    runtime: Runtime
    library: Path
    files: Path
    size: int
    question: str
    times: dict[str, list[Seconds]] = field(default_factory=dict)
    descriptors: int = 0
    chunks: int = 0
    tokens: int = 0
    bytes_per_token: float = 0.0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.size)
        self._texts = SmallTexts(self.runtime, seed=self.size + 1)
        self._new = self.size  # number of the next document that is new

    def time_short(self, *, counts: bool) -> None:
        """Time once all that takes a part of a second."""
        timed = self._timed if counts else _untimed
        with timed("open"):
            store = open_library(self.runtime, self.library)
        with store:
            with timed("ask, just opened"):
                self._ask(store)
            self._reading(store, timed)
            self._changing(store, timed)
        with open_library(self.runtime, self.library) as store:
            with timed("read a document, just opened"):
                row = self._read_new(store)
            store.remove_document(row)

    def _reading(self, store: Store, timed: Timed) -> None:
        """Time what changes nothing."""
        stats = store.stats()
        self.chunks, self.tokens = int(stats["chunks"]), int(stats["tokens"])
        self.bytes_per_token = float(stats["bytes_per_token"] or 0)
        for _ in range(2 + self.chunks // CODED_ROWS):
            for _ in store.scan_coded_landmarks():  # each scan makes codes for some more
                pass
        self._ask(store)
        row = store.document(self._name())
        with timed("ask"):
            self._ask(store)
        with timed("ask about one document"):
            ask(self.runtime, store, self.question, AskOptions(documents=(row.id,)))
        with timed("search"):
            search(self.runtime, store, self.question, SearchRequest())
        with timed("list"):
            store.documents()
        with timed("find a document by its name"):
            store.document(self._name())
        with timed("stats"):
            store.stats()
        self.descriptors = max(self.descriptors, _open_descriptors())

    def _changing(self, store: Store, timed: Timed) -> None:
        """Time what writes; the library is the same afterwards, but for the order in it."""
        store.remove_document(self._read_new(store))  # what is done once for an opening
        with timed("read a document"):
            new = self._read_new(store)
        with timed("ask after one was read"):
            self._ask(store)
        store.remove_document(new)
        row = store.document(self._name())
        with timed("tag a document"):
            store.change_tags(row.id, add=("seen",))
        store.change_tags(row.id, remove=("seen",))
        with timed("remove a document"):
            store.remove_document(row.id, undoable=True)
        self._ask(store)
        with timed("ask after one was removed"):
            self._ask(store)
        with timed("bring a document back"):
            store.undo_remove(row.id)

    def time_long(self) -> None:
        """Time once what goes through the whole library."""
        with open_library(self.runtime, self.library) as store:
            with self._timed("read the folder again, unchanged"):
                self._read_folder(store)
            with self._timed("check"):
                findings = store.check()
            assert not findings, findings[:3]
        backup = self.library.with_name(f"{self.library.name}.backup")
        shutil.rmtree(backup, ignore_errors=True)  # of an interrupted run
        with self._timed("back up"):
            copy_library(self.library, backup, check=False)
        shutil.rmtree(backup)

    def _ask(self, store: Store) -> None:
        ask(self.runtime, store, self.question, AskOptions())

    def _name(self) -> str:
        return small_file(self.files, self._chance.randrange(self.size)).name

    def _read_new(self, store: Store) -> str:
        """Read a document that was not there before; return its id."""
        with tempfile.TemporaryDirectory(prefix="drt-bench-") as folder:
            file = Path(folder) / "new.txt"
            self._new += 1
            file.write_text(self._texts.text(self._new), encoding="utf-8")
            source = Source.from_path(file)
            try:
                row, is_new = ingest_source(self.runtime, store, source)
            finally:
                source.close()
            assert is_new, row
            return row.id

    def _read_folder(self, store: Store) -> None:
        """Read the folder as ``drt ingest`` does; nothing in it is new."""
        for source in expand_paths([str(self.files)]):
            if isinstance(source, DocumentError):
                raise source
            try:
                _, is_new = ingest_source(self.runtime, store, source)
            finally:
                source.close()
            assert not is_new, source.name

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = Seconds.now()
        yield
        self.times.setdefault(name, []).append(Seconds.now() - start)


Timed = Callable[[str], contextlib.AbstractContextManager[None]]


def _untimed(_: str) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def _open_descriptors() -> int:
    """Return how many files this process has open; 0 where the system does not tell."""
    return len(os.listdir(_DESCRIPTORS)) if _DESCRIPTORS.is_dir() else 0


def _rows(cases: list[_Case]) -> Iterator[BenchRow]:
    least = cases[0]
    for clock, suffix in (("wall", ""), ("cpu", ", processor")):
        for name in least.times:
            taken = [[1000 * getattr(t, clock) for t in case.times[name]] for case in cases]
            first = _row_name(name, least, suffix)
            yield bench_row(first, taken[0], unit="ms")
            for case, values in zip(cases[1:], taken[1:], strict=True):
                row_name = _row_name(name, case, suffix)
                yield bench_row(row_name, values, unit="ms", against=first, against_values=taken[0])
    for case in cases:
        yield bench_row(_row_name("open files", case, ""), [case.descriptors], unit="files")


def _row_name(name: str, case: _Case, suffix: str) -> str:
    return f"{name}, {case.size:,} documents{suffix}"
