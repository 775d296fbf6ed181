"""Files that are cut short while they are open: a typed error, never a signal; and Ctrl-C."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from drt_engine.store import Store
from drt_engine.store.filesystem.disk import Disk
from drt_engine.store.segments import landmark_files
from drt_engine.store.upkeep import check
from tests.engine.store.helpers import add_document, open_store, segment_files
from tests.forks import Forks
from tests.sampling import sampled

Cut = Callable[[Path, str, int], dict[str, str]]


# Use the library once, cut a file, and use it again; print what each use then raises.
USE_AND_CUT = """
import os, sys
from pathlib import Path
from drt_engine.errors import CorruptStore
from drt_engine.store import Store
path, name, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with Store.open(path) as store:
    ids = store.chunk_ids()
    uses = {
        "read": lambda: store.read_chunks(ids[-5:]),
        "tokens": lambda: store.read_tokens(ids),
        "scan": lambda: [part.sum() for _, part in store.scan_landmarks()],
        "export": lambda: store.export_archive(path.parent / "out.drtlib"),
        "compact": lambda: store.compact(),
    }
    for name_of_use in ("read", "tokens", "scan", "export"):
        uses[name_of_use]()
    scan = store.scan_landmarks()
    next(scan)
    os.truncate(path / "segments" / name, size)
    for name_of_use, use in {**uses, "scan under way": lambda: list(scan)}.items():
        try:
            use()
            print(name_of_use, "done", flush=True)
        except CorruptStore as error:
            assert "\\n" not in str(error)
            print(name_of_use, "refused", flush=True)
    print("check", sorted({finding.kind for finding in store.check()}), flush=True)
"""


@pytest.fixture
def cut(forks: Forks) -> Cut:
    """What each use of the library says after a file was cut in a process that has it open."""

    def call(path: Path, name: str, size: int) -> dict[str, str]:
        ended = forks.run(USE_AND_CUT, path, name, size)
        assert (ended.returncode, ended.stderr) == (0, "")
        *uses, check = ended.stdout.splitlines()
        return dict(line.rsplit(" ", 1) for line in uses) | {"check": check.removeprefix("check ")}

    return call


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [0, 100, 8_192, -1], ids=str)
def test_a_segment_that_is_cut_short(library: Path, cut: Cut, size: int) -> None:
    with open_store(library) as store:
        add_document(store, 1, [f"piece {i} " for i in range(400)], per_segment=200)
        assert store.check() == []
    segment = segment_files(library)[-1]
    said = cut(library, segment.name, size if size >= 0 else segment.stat().st_size - 1)
    assert (said["read"], said["tokens"], said["export"]) == ("refused",) * 3
    assert said["check"] == "['segment']"


@pytest.mark.thorough
@pytest.mark.few(1)
@pytest.mark.parametrize("size", [0, 100, 4_096, -1], ids=str)
def test_a_shelf_that_is_cut_short(
    library: Path, cut: Cut, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landmark_files, "MIN_LOOSE_SEGMENTS", 2)
    with open_store(library) as store:
        pieces = [f"piece {i} " for i in range(2_000)]
        add_document(store, 1, pieces, per_segment=1_000)
        assert store.check() == []
    [landmark_file] = library.rglob("*.lmk")
    said = cut(library, landmark_file.name, size if size >= 0 else landmark_file.stat().st_size - 1)
    assert (said["read"], said["scan"], said["export"]) == ("done", "refused", "done")
    assert said["check"] == "['shelf']"


def test_a_segment_is_cut_while_it_is_checked(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(library) as store:
        add_document(store, 1, [f"piece {i} " for i in range(400)])
        [segment] = segment_files(library)
        whole = segment.read_bytes()
        read, reads = Disk.read, 0

        def cutting(disk: Disk, descriptor: int, path: Path, *, size: int, offset: int) -> bytes:
            nonlocal reads
            reads += 1
            if reads == 3:
                segment.write_bytes(whole[:9_000])  # the same file, shorter
            return read(disk, descriptor, path, size=size, offset=offset)

        with monkeypatch.context() as patch:
            patch.setattr(Disk, "read", cutting)
            assert [finding.kind for finding in store.check()] == ["segment"]
        segment.write_bytes(whole)
        assert store.check() == []


@pytest.mark.parametrize("use", [Store.check, lambda store: store.repair(store.check())])
def test_an_interruption_of_a_check_is_an_interruption(
    store: Store, monkeypatch: pytest.MonkeyPatch, use: Callable[[Store], object]
) -> None:
    monkeypatch.setattr(landmark_files, "MIN_LOOSE_SEGMENTS", 2)
    add_document(store, 1, [f"piece {i} " for i in range(9)], per_segment=3)
    crc32 = zlib.crc32
    for module in (check, landmark_files):
        for at in range(1, 100):
            left = at

            def interrupted(*arguments: object) -> int:
                nonlocal left
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
                return crc32(*arguments)  # type: ignore[arg-type]

            with monkeypatch.context() as patch:
                patch.setattr(module, "zlib", type("zlib", (), {"crc32": interrupted}))
                try:
                    use(store)
                    break
                except KeyboardInterrupt:
                    continue
        assert at > 2
    assert store.check() == []


INTERRUPTED = """
import sys, time, zlib
from drt_engine.store.segments import format
def chunk_is_intact(data, sections, index):
    print("working", flush=True)
    while True:
        zlib.crc32(data[:8])
        time.sleep(0.01)
from drt_engine.store.upkeep import check
check.chunk_is_intact = chunk_is_intact
from drt_cli.main import main
sys.argv[0] = "drt"
main()
"""


@pytest.mark.parametrize("words", sampled([("check",), ("check", "--repair")], {1}))
def test_control_c_in_a_check_exits_with_130(
    library: Path, words: tuple[str, ...], forks: Forks
) -> None:
    import signal

    with open_store(library) as store:
        add_document(store, 1, ["text "] * 3)
    process = forks.start(INTERRUPTED, "--library", library, "library", *words)
    assert process.stdout.readline() == "working\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, "Error" in err, "mistake" in err) == (130, False, False), err
    with open_store(library) as store:
        assert store.check() == []
