"""Workers: the same library as one process makes, whatever happens to them, and no process left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from drt_engine.documents import Source, expand_paths
from drt_engine.errors import ConfigError, DocumentError
from drt_engine.ingest.elsewhere import SourceElsewhere
from drt_engine.ingest.identity import DocumentText
from drt_engine.ingest.parallel import Workers
from drt_engine.ingest.pipeline import SourceHere, ingest_source
from drt_engine.results import IngestProgress
from drt_engine.store import ChunkBatch, DocumentRow, Store
from tests.engine.documents.helpers import make_pdf
from tests.model_folder import LETTERS, MANUAL, library, model_folder, runtime

# a text of several segments: the tiny model takes long enough for it to be stopped within
BOOK = "".join(f"Page {n} of the log. {LETTERS if n % 2 else MANUAL}\n" for n in range(160))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder of files of several kinds: a long one, a copy, a bad one, an archive."""
    path = tmp_path_factory.mktemp("files")
    (path / "a.md").write_text(MANUAL, encoding="utf-8")
    (path / "b.txt").write_text(BOOK, encoding="utf-8")
    (path / "c.txt").write_text(LETTERS, encoding="utf-8")
    (path / "copy.txt").write_text(LETTERS, encoding="utf-8")
    (path / "d.html").write_text("<html><title>Fog</title><p>The bell rings.</p></html>")
    (path / "empty.txt").write_text("")
    with zipfile.ZipFile(path / "e.zip", "w") as archive:
        archive.writestr("in/one.txt", "The keeper signs the log on the first Monday.")
        archive.writestr("in/two.html", "<p>The gun is fired twice an hour.</p>")
    for number in range(4):
        (path / f"f{number}.txt").write_text(f"Letter {number}. {LETTERS}", encoding="utf-8")
    return path


def read_all(
    store: Store, paths: Iterable[Path], workers: Workers | None = None
) -> list[tuple[str, bool] | str]:
    """Read paths; return ids with whether they were new, and sentences of what was not read."""
    sources: Iterator[Source | DocumentError] = expand_paths([str(path) for path in paths])
    turns = workers.readings(store, sources) if workers else ((source, None) for source in sources)
    results: list[tuple[str, bool] | str] = []
    for source, reading in turns:
        try:
            if isinstance(source, DocumentError):
                raise source
            row, new = ingest_source(runtime(), store, source, reading=reading)
            results.append((row.id, new))
        except DocumentError as error:
            results.append(str(error))
    return results


def contents(store: Store) -> tuple[list[tuple[object, ...]], ChunkBatch]:
    """All that a library holds but times and names of files, in its order."""
    rows = [row._replace(created="") for row in store.documents()]
    described: list[tuple[object, ...]] = []
    for row in rows:
        ids = store.chunk_ids([row.id])
        segments = [
            (s.first_ordinal, s.first_chunk, s.chunks, s.landmarks_crc)
            for s in store._catalog.segments([row.id])
        ]
        places, origins = store.places(row.id), store.origins(row.id)
        digest = store.source_digest(row.source)
        described.append((row, ids, segments, store.chunk_rows(ids), places, origins, digest))
    return described, store.read_chunks(store.chunk_ids())


def assert_same(one: Store, other: Store) -> None:
    (rows, memory), (other_rows, other_memory) = contents(one), contents(other)
    assert rows == other_rows
    for field in fields(ChunkBatch):
        assert torch.equal(getattr(memory, field.name), getattr(other_memory, field.name))


def pids_of(workers: Workers) -> list[int]:
    return [worker.pid for worker in workers._running.values()]


def alive(pids: Sequence[int]) -> list[int]:
    """Return those of the processes that still run, after a while."""
    deadline = time.monotonic() + 20
    while True:
        left = [pid for pid in pids if _runs(pid)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_workers_must_be_one_at_least() -> None:
    with pytest.raises(ConfigError, match="workers is 0, expected 1 or more"):
        Workers(runtime(), 0)


@pytest.mark.slow
def test_the_library_is_the_same_with_workers_and_without(folder: Path, tmp_path: Path) -> None:
    with (
        library(tmp_path / "alone") as alone,
        library(tmp_path / "together") as together,
        Workers(runtime(), 2) as workers,
    ):
        first = read_all(alone, [folder])
        assert read_all(together, [folder], workers) == first
        assert_same(alone, together)
        assert any("is empty" in result for result in first if isinstance(result, str))
        pids = pids_of(workers)
        assert len(pids) == 2
        # what changed is taken over as far as it is the same, and what did not is not read
        changed = tmp_path / "changed.txt"
        for text in (BOOK, BOOK + "One page more."):
            changed.write_text(text, encoding="utf-8")
            assert read_all(together, [changed], workers) == read_all(alone, [changed])
        assert_same(alone, together)
    assert alive(pids) == []


@pytest.mark.slow
def test_pages_that_a_worker_parses_are_told_while_the_document_is_waited_for() -> None:
    source = Source.from_bytes(b"", "terms.pdf")
    reading = SourceElsewhere(SourceHere(runtime(), source), source)
    text = DocumentText("0" * 64, 1, "terms", "application/pdf")
    steps: list[tuple[int, int]] = []

    def told(step: IngestProgress) -> None:
        steps.append((step.page, step.pages))
        if step.page == 2:
            reading.put(text)
        reading.parsed = (2, 3, 0.2)

    reading.parsed = (1, 3, 0.1)  # before its turn
    threading.Timer(0.1, setattr, (reading, "parsed", (1, 3, 0.15))).start()
    assert reading.identify(told) == text
    assert steps == [(1, 3), (2, 3)]


@pytest.mark.thorough
def test_workers_say_which_pages_they_parse(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    file = tmp_path / "terms.pdf"
    file.write_bytes(make_pdf([[f"Term {number} has words."] for number in range(800)]))
    steps: list[IngestProgress] = []
    with library(tmp_path / "library") as store, Workers(runtime(), 1) as workers:
        for source, reading in workers.readings(store, expand_paths([str(file)])):
            assert isinstance(source, Source)
            ingest_source(runtime(), store, source, reading=reading, progress=steps.append)
    parsed = [(step.page, step.pages, step.fraction) for step in steps if step.pages]
    assert parsed and all(pages == 800 and not fraction for _, pages, fraction in parsed)
    assert [page for page, _, _ in parsed] == sorted({page for page, _, _ in parsed})
    assert steps[-1].fraction == 1.0


def test_no_worker_starts_for_what_the_library_has(folder: Path, tmp_path: Path) -> None:
    with library(tmp_path / "library") as store, Workers(runtime(), 2) as workers:
        read_all(store, [folder / "a.md"])
        assert read_all(store, [folder / "a.md"], workers) == [(store.documents()[0].id, False)]
        assert pids_of(workers) == []


@pytest.mark.slow
def test_a_killed_worker_costs_only_time(folder: Path, tmp_path: Path) -> None:
    files = [folder / "b.txt", folder / "a.md", folder / "c.txt"]
    with (
        library(tmp_path / "alone") as alone,
        library(tmp_path / "together") as together,
        Workers(runtime(), 1) as workers,
    ):
        expected = read_all(alone, files)
        results, killed = [], False

        def kill_once(_: object) -> None:
            nonlocal killed
            if not killed:
                os.kill(pids_of(workers)[0], signal.SIGKILL)
                killed = True

        for source, reading in workers.readings(together, expand_paths([str(f) for f in files])):
            assert isinstance(source, Source)
            row, new = ingest_source(
                runtime(), together, source, reading=reading, progress=kill_once
            )
            results.append((row.id, new))
        assert killed and results == expected
        assert_same(alone, together)


@pytest.mark.slow
def test_a_document_that_ends_two_workers_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with library(tmp_path / "library") as store, Workers(runtime(), 1) as workers:
        converse = workers._converse

        def killing(worker: object, library: Store, reading: object) -> None:
            if reading.name.endswith("a.md"):  # type: ignore[attr-defined]
                worker.kill()  # type: ignore[attr-defined]
            converse(worker, library, reading)  # type: ignore[arg-type]

        monkeypatch.setattr(workers, "_converse", killing)
        failed, (_, is_new) = read_all(store, [folder / "a.md", folder / "c.txt"], workers)
        assert is_new and isinstance(failed, str)
        assert "a.md cannot be read (the process that read it ended 2 times" in failed
        assert "by SIGKILL" in failed and "read it again with fewer" in failed


@pytest.mark.slow
def test_leaving_ends_all_workers_and_keeps_what_was_read(folder: Path, tmp_path: Path) -> None:
    rows: list[DocumentRow] = []
    with library(tmp_path / "library") as store:
        with pytest.raises(KeyboardInterrupt), Workers(runtime(), 2) as workers:
            sources = expand_paths([str(folder / "a.md"), str(folder / "b.txt")])
            for source, reading in workers.readings(store, sources):
                assert isinstance(source, Source)
                if rows:
                    pids = pids_of(workers)
                    raise KeyboardInterrupt
                rows.append(ingest_source(runtime(), store, source, reading=reading)[0])
        assert pids and alive(pids) == []
        assert [row.id for row in store.documents()] == [row.id for row in rows]


PARENT = """
import sys
from drt_engine.documents import expand_paths
from drt_engine.ingest.elsewhere import SourceElsewhere
from drt_engine.ingest.identity import DocumentText
from drt_engine.ingest.parallel import Workers
from drt_engine.ingest.pipeline import SourceHere, ingest_source
from drt_engine.results import IngestProgress
from drt_engine.ingest.temporary import open_library
from drt_engine.runtime import Runtime
from pathlib import Path

model = Runtime.load(Path(sys.argv[1]), device="cpu", threads=1, dtype="fp32")
with open_library(model, Path(sys.argv[2])) as store, Workers(model, 2) as workers:
    for source, reading in workers.readings(store, expand_paths(sys.argv[3:])):
        ingest_source(model, store, source, reading=reading)
        print(*(w.pid for w in workers._running.values()), flush=True)
        sys.stdin.read()
"""


@pytest.mark.slow
def test_workers_end_with_a_writer_that_is_killed(folder: Path, tmp_path: Path) -> None:
    files = [str(folder / name) for name in ("c.txt", "b.txt", "a.md")]
    command = [sys.executable, "-c", PARENT, str(model_folder()), str(tmp_path / "library"), *files]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path},
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.kill()
    assert pids and alive(pids) == []


@pytest.mark.slow
def test_a_worker_that_cannot_load_the_model_stops_the_reading(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with (
        library(tmp_path / "library") as store,
        Workers(runtime(), 1) as workers,
        pytest.raises(ConfigError, match="a worker ended with code 1 while it loaded the model"),
    ):
        read_all(store, [folder / "a.md"], workers)
