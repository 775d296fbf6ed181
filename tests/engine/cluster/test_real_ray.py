"""Reading into shards by real workers, which are killed while they read; by the SDK, with Ray."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drt import Assistant, IngestReport, IngestResult, Library
from drt_engine.cluster.connection import connect
from drt_engine.cluster.shard_reader import ModelSettings
from drt_engine.cluster.sharded_reading import NamedFile, ReadingOptions, ShardedReading
from drt_engine.cluster.shards import ShardedLibrary
from tests.engine.cluster.fake_ray import NEEDS_RAY
from tests.engine.cluster.listening import other_addresses
from tests.model_folder import LETTERS, MANUAL, model_folder
from tests.sdk.test_federated import QUESTIONS, plain

pytestmark = [NEEDS_RAY, pytest.mark.slow]

MODEL: dict[str, Any] = {"model": model_folder(), "device": "cpu", "threads": 1, "dtype": "fp32"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder of documents of several segments, and short ones."""
    path = tmp_path / "files"
    path.mkdir()
    for number in range(6):
        pages = (f"Page {n} of book {number}. {LETTERS if n % 2 else MANUAL}\n" for n in range(80))
        (path / f"book{number}.txt").write_text("".join(pages), encoding="utf-8")
        (path / f"letter{number}.txt").write_text(f"Letter {number}. {LETTERS}", encoding="utf-8")
    return path


def writers(shard: Path) -> list[int]:
    """Return the processes that have a shard's catalogue open."""
    pids = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            try:
                files = [os.readlink(file) for file in (process / "fd").iterdir()]
            except OSError:
                continue
            if str(shard / "catalog.db") in files:
                pids.append(int(process.name))
    return pids


def sources(path: Path) -> list[list[str]]:
    """Return the sources of each shard, which must be whole, in its order."""
    shards = []
    for shard in ShardedLibrary.of(path, None).shards:
        assert Library(shard).check() == []
        shards.append([document.source for document in Library(shard).documents()])
    return shards


def expect_once(path: Path, folder: Path) -> None:
    """Check that each file is in the shards once, and that nothing else is."""
    files = sorted(str(file) for file in folder.iterdir())
    assert sorted(sum(sources(path), [])) == files


def killing(results: Iterator[IngestResult], path: Path, times: int) -> Iterator[IngestResult]:
    """Yield results; kill the worker of each of the first ones in the document after it."""
    library = ShardedLibrary.of(path, 2)
    for result in results:
        yield result
        assert other_addresses(os.getpid()) == []
        if times and result.document is not None:
            time.sleep(0.2)
            for pid in writers(library.shards[library.shard_of(Path(result.source))]):
                os.kill(pid, signal.SIGKILL)
                times -= 1
    assert times == 0


def test_workers_that_are_killed_while_they_read(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "papers"
    with Assistant(path, **MODEL) as assistant:
        results = assistant.ingest_shards(folder, ray="local", shards=2)
        report = IngestReport.of(killing(results, path, 3))
        assert report.failures == ()
        counts = Counter(document.source for document in report.documents)
        assert set(counts.values()) == {1} and len(counts) == 12
        expect_once(path, folder)

        again = IngestReport.of(assistant.ingest_shards(folder, ray="local"))
        assert len(again.documents) == 12 and not any(one.new for one in again.documents)
        expect_once(path, folder)
        # asked like one library with these documents in this order
        with Assistant(tmp_path / "whole", **MODEL) as one:
            for source in sum(sources(path), []):
                one.ingest(source)
            for question in QUESTIONS:
                assert plain(assistant.ask(question)) == plain(one.ask(question))
                assert plain(assistant.search(question)) == plain(one.search(question))


def test_a_document_that_ends_its_worker_twice(folder: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    os.mkfifo(bad)  # a worker that opens it waits, until it is killed
    library = ShardedLibrary.of(tmp_path / "papers", 1)
    files = [folder / "letter0.txt", bad, folder / "letter1.txt"]
    pids: list[int] = []

    def kill_twice() -> None:
        deadline = time.monotonic() + 240
        while len(pids) < 2 and time.monotonic() < deadline:
            time.sleep(0.5)
            for pid in writers(library.shards[0]):
                if pid not in pids:
                    time.sleep(1)
                    pids.append(pid)
                    os.kill(pid, signal.SIGKILL)

    settings = ModelSettings(str(model_folder()), device="cpu", dtype="fp32")
    with (
        connect("local", cpus=1) as cluster,
        ShardedReading(cluster, library, ReadingOptions(settings)) as reading,
    ):
        reading.open()
        results = reading.results([NamedFile(file) for file in files])
        first = next(results)
        killer = threading.Thread(target=kill_twice)
        killer.start()
        rest = list(results)
        killer.join()
    assert [first.name, *(result.name for result in rest)] == [str(file) for file in files]
    assert len(pids) == 2 and rest[1].is_new
    assert "bad.txt cannot be read (the worker that read it ended 2 times" in str(rest[0].error)
    assert sources(library.path) == [[str(files[0]), str(files[2])]]


def command(*words: str | Path, library: Path) -> list[str]:
    model = ["--model", str(model_folder()), "--device", "cpu", "--dtype", "fp32"]
    start = [sys.executable, "-m", "drt_cli", *model, "--threads", "1", "--library", str(library)]
    return [*start, *map(str, words)]


def rays(folder: Path) -> list[str]:
    """Return the command lines of processes of a Ray whose files are in a folder."""
    lines = []
    for process in Path("/proc").iterdir():
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if process.name.isdecimal() and str(folder) in line:
            lines.append(line)
    return lines


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_reading_that_is_ended_goes_on(
    folder: Path, tmp_path: Path, number: signal.Signals
) -> None:
    path, temporary = tmp_path / "papers", Path(tempfile.mkdtemp(dir="/tmp"))
    words = ("ingest", "--jsonl", "--ray", "local", "--shards", "2", folder)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "TMPDIR": str(temporary),
        "DRT_STATE_DIR": str(tmp_path / "state"),
        "DRT_CONFIG_FILE": str(tmp_path / "config.toml"),
    }
    options: dict[str, Any] = {"env": environment, "text": True, "start_new_session": True}
    with subprocess.Popen(
        command(*words, library=path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert "document" in process.stdout.readline()
        os.killpg(process.pid, number) if number == signal.SIGINT else process.kill()
        said = process.stderr.read()
    assert process.returncode == (130 if number == signal.SIGINT else -9), said
    if number == signal.SIGINT:
        assert "were read; what was read is kept" in said or "was read; what" in said
        assert "Traceback" not in said
    deadline = time.monotonic() + 30
    while rays(temporary) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert rays(temporary) == []
    done = subprocess.run(command(*words, library=path), capture_output=True, **options)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 12
    expect_once(path, folder)
    shutil.rmtree(temporary)
