"""drt without what other systems lack: no fcntl, resource, O_NOFOLLOW, fork, SIGKILL or poll."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from drt_engine import files
from drt_engine.store.filesystem.disk import open_plain
from tests import model_folder
from tests.forks import Forks
from tests.hidden_system import portalocker

# The packages are imported anew, by a process that has imported torch.
CODE = """
import subprocess
import sys
from tests.hidden_system import hide

for name in [name for name in sys.modules if name.partition(".")[0].startswith("drt")]:
    del sys.modules[name]
hide()
import importlib, pkgutil, sys, time
import drt, drt_cli, drt_engine, drt_lab
from pathlib import Path

for package in (drt_engine, drt_lab, drt, drt_cli):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        # The package mcp, where it is installed, imports what its authors need of this system, and
        # PyTorch's distributed checkpoints ask for SIGKILL wherever the platform is not win32.
        own = ("drt._mcp", "drt_lab.train.shard", "drt_lab.train.stored_shards")
        if not module.name.endswith("__main__") and not module.name.startswith(own):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:
                print("missing", module.name, error.name)
model, folder = sys.argv[1], Path(sys.argv[2])
with drt.Assistant(folder / "a.library", model=model, threads=1) as assistant:
    report = assistant.ingest_many([folder / "notes.txt", folder / "page.html", folder / "a.zip"])
    print("read", len(report.documents), len(report.failures))
    answer = assistant.ask("When is the bell rung?")
    print("answer", type(answer).__name__, answer.question)
    try:
        assistant.ingest(folder / "broken.docx")
    except drt.DocumentError as error:
        print("refused", error)
    library = assistant.library
    print("check", [finding for finding in library.check()])
    library.export_archive(folder / "a.drtlib")
    library.export_archive(folder / "a.drtlib")
    library.remove(report.documents[0].id, forget=True)
    library.compact()
    print("left", len(library.documents()))
with drt.Assistant(folder / "b.library", model=model, threads=1) as other:
    print("imported", len(other.library.import_archive(folder / "a.drtlib")))
"""


@pytest.mark.slow  # imports all of drt anew; run by .ci/run, too
def test_documents_are_read_asked_checked_exported_and_removed(
    tmp_path: Path, forks: Forks
) -> None:
    (tmp_path / "notes.txt").write_text("The bell of the chapel is rung at noon.\n")
    (tmp_path / "page.html").write_text("<h1>Rules</h1><p>The gate is locked at nine.</p>")
    (tmp_path / "broken.docx").write_bytes(b"PK\x03\x04 and no more")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("crew.csv", "name,post\nIda Holm,captain\n")
    ended = forks.run(CODE, model_folder.model_folder(), tmp_path, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert "read 3 0" in lines and "check []" in lines and "left 2" in lines, ended.stdout
    assert "answer Answer When is the bell rung?" in lines
    assert "broken.docx is not a whole Word file" in ended.stdout
    assert "imported 3" in lines
    optional = {"matplotlib", "mcp", "openai", "jsonschema", "starlette", "uvicorn"}
    missing = [line.split()[1:] for line in lines if line.startswith("missing")]
    # The helper process of the command line is for Linux alone.
    assert {name for module, name in missing if "drt_cli._warm" not in module} <= optional


@pytest.fixture
def without_fcntl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``drt_engine.files`` lock as on Windows, over this system's flock."""
    import fcntl

    monkeypatch.setitem(sys.modules, "portalocker", portalocker(fcntl.flock, fcntl.LOCK_UN))
    monkeypatch.setattr(files, "fcntl", None)


@pytest.mark.parametrize("shared", [False, True])
def test_locks_without_fcntl(tmp_path: Path, without_fcntl: None, shared: bool) -> None:
    path = tmp_path / "lock"
    with path.open("w") as first, path.open("w") as second:
        assert files.lock(first, shared=shared)
        assert files.lock(second, shared=True) is shared
        assert not files.lock(second)
        files.unlock(first)
        assert files.lock(second)


def test_the_real_portalocker_has_what_is_used_of_it() -> None:
    real = pytest.importorskip("portalocker")
    assert {"EXCLUSIVE", "SHARED", "NON_BLOCKING"} <= set(real.LockFlags.__members__)
    assert issubclass(real.exceptions.AlreadyLocked, real.exceptions.LockException)
    assert callable(real.lock) and callable(real.unlock)


def test_a_link_is_refused_without_o_nofollow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "thesis.txt").write_text("Mine.")
    (tmp_path / "lock").symlink_to(tmp_path / "thesis.txt")
    monkeypatch.setattr("drt_engine.store.filesystem.disk.NO_FOLLOW", 0)
    with pytest.raises(OSError, match="link or a special file") as caught:
        open_plain(tmp_path / "lock", os.O_RDWR)
    assert caught.value.errno == errno.EINVAL
    os.close(open_plain(tmp_path / "lock", os.O_RDONLY, follow=True))


def test_reading_and_writing_at_a_place_without_pread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pread")
    monkeypatch.delattr(os, "pwrite")
    descriptor = os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT)
    try:
        assert files.write_at(descriptor, b"abcdef", 2) == 6
        assert files.read_at(descriptor, 3, 4) == b"cde"
        assert files.read_at(descriptor, 9, 100) == b""
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("refused", [False, True])
def test_macos_writes_through_the_memory_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    calls: list[object] = []

    class Fcntl:
        F_FULLFSYNC = 51

        @staticmethod
        def fcntl(descriptor: int, command: int) -> None:
            calls.append(command)
            if refused:
                raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(files, "fcntl", Fcntl)
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("fsync"))
    (tmp_path / "a").touch()
    files.flush_path(tmp_path / "a")
    files.flush_path(tmp_path)
    assert calls == ([51, "fsync"] * 2 if refused else [51, 51])


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_types_fit_systems_that_are_not_here(platform: str) -> None:
    """What a system's Python lacks is an error of its types: calls, flags, signals, modules."""
    pytest.importorskip("mypy")
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "mypy", "--platform", platform]
    command += ["--cache-dir", str(root / ".mypy_cache" / platform)]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
