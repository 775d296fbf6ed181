"""Several processes on one library: what each was told is kept, is kept for all."""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from drt_engine.errors import StoreError
from drt_engine.store import Store
from tests.catalogue_opens import CatalogueOpens
from tests.engine.store.actors import ACTS, text
from tests.engine.store.helpers import (
    add_document,
    document_id,
    errors,
    open_durable,
    open_store,
    text_id,
)
from tests.forks import Fork, Forks

ROOT = Path(__file__).parents[3]

WRITE = """
import sys
from pathlib import Path
from tests.engine.store.helpers import add_document, open_durable
with open_durable(Path(sys.argv[1])) as store:
    add_document(store, int(sys.argv[2]), [f"text {sys.argv[2]} "] * 3)
"""


def others_write(forks: Forks, library: Path, number: int) -> None:
    """Let another process open the library, read a document into it, and close it."""
    done = forks.run(WRITE, library, number, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def deleted_files(library: Path) -> list[str]:
    """The files of a library that this process has open and nobody else can find."""
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            continue
    return [link for link in links if str(library) in link and link.endswith("(deleted)")]


def test_a_process_that_comes_and_goes_leaves_the_log_of_another(
    library: Path, forks: Forks
) -> None:
    """As an open assistant that asks, beside `drt ingest`."""
    with open_durable(library) as store:
        add_document(store, 1, ["text 1 "] * 3)
        for number in (2, 4):
            with store.snapshot() as view:
                assert view.count_documents() == number - 1
            others_write(forks, library, number)
            if Path("/proc/self/fd").exists():
                assert deleted_files(library) == []
            add_document(store, number + 1, [f"text {number + 1} "] * 3)
        sources = {row.source for row in store.documents()}
        assert sources == {f"/docs/{number}.txt" for number in (1, 2, 3, 4, 5)}
    with Store.open(library) as store:
        assert {row.source for row in store.documents()} == sources
        assert store.check() == []


def test_opening_the_catalogue_beside_sqlite_would_lose_it(library: Path, forks: Forks) -> None:
    """The test above sees what POSIX does to locks: this is what it must never meet."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("open files are seen in /proc")
    with open_durable(library) as store:
        add_document(store, 1, ["text 1 "] * 3)
        (library / "catalog.db").read_bytes()
        others_write(forks, library, 2)
        assert any("catalog.db-" in name for name in deleted_files(library))


def test_only_sqlite_opens_a_catalogue(library: Path, catalogue_opens: CatalogueOpens) -> None:
    code = compile("open(path, 'rb').close()", str(ROOT / "engine/drt_engine/some.py"), "exec")
    with open_store(library) as store:
        for name in ("catalog.db", "catalog.db-wal", "catalog.db-shm"):
            exec(code, {"path": library / name})
        assert store.check() == []
    assert [place.split()[0] for place in catalogue_opens.places] == [
        "engine/drt_engine/some.py:1"
    ] * 3
    catalogue_opens.places.clear()


def test_a_new_catalogue_is_private_from_the_beginning(library: Path) -> None:
    old = os.umask(0)
    try:
        with open_store(library) as store:
            add_document(store, 1, ["text "])
            modes = {path.name: path.stat().st_mode & 0o777 for path in library.iterdir()}
    finally:
        os.umask(old)
    assert modes["catalog.db"] == modes["catalog.db-wal"] == modes["catalog.db-shm"] == 0o600


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_opens_the_library_again(library: Path) -> None:
    with open_store(library) as store:
        add_document(store, 1, ["text 1 "] * 3)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with pytest.raises(StoreError, match="opened by process"):
                    store.documents()
                store.close()
                with Store.open(library) as own:
                    code = 0 if len(own.documents()) == 1 else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        add_document(store, 2, ["text 2 "] * 3)
        assert store.document_by_id(document_id(1)) is not None
    with sqlite3.connect(library / "catalog.db") as connection:
        assert connection.execute("SELECT count(*) FROM documents").fetchone() == (2,)
    connection.close()


# many at once: readers, writers and all that rewrites a library whole

ACT = "from tests.engine.store.actors import main; main()"
WRITERS = 3
# in one sentence, what somebody else's work may refuse: nothing was changed, or it is said what was
REFUSED = re.compile(
    r"did not finish within|others read in the library|files .* cannot be deleted yet"
    r"|is being rebuilt|was removed while it was read|removed meanwhile|was rebuilt for"
)


@dataclass
class Actor:
    """A process, and what it was told: by key, the version kept (-1: gone), None if unsure."""

    name: str
    role: str
    process: Fork
    kept: dict[int, int | None] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    stderr: str = ""

    def end(self, seconds: float = 120.0) -> None:
        out, self.stderr = self.process.communicate(seconds)
        begun: tuple[int, int] | None = None
        for line in out.splitlines():
            kind, *words = line.split()
            if kind == "begin":
                begun = int(words[0]), int(words[1])
                self.kept[begun[0]] = None
            elif kind == "kept":
                self.kept[int(words[0])] = int(words[1])
            elif kind == "refused":
                self.refused.append(line)


class Troupe:
    """Actors on one library: kills them where asked, and adds up what they were told."""

    def __init__(self, forks: Forks, library: Path, seed: int) -> None:
        self._forks, self.library, self._chance = forks, library, random.Random(seed)
        self.kept: dict[str, dict[int, int | None]] = {}
        self.counts: Counter[str] = Counter()
        self.odd: list[str] = []

    def start(self, name: str, role: str, seconds: float) -> Actor:
        seed = self._chance.randrange(1 << 30)
        process = self._forks.start(ACT, self.library, name, role, seed, seconds, cwd=ROOT)
        return Actor(name, role, process)

    def end(self, actor: Actor, *, was_killed: bool = False, seconds: float = 120.0) -> None:
        actor.end(seconds)
        self.kept.setdefault(actor.name, {}).update(actor.kept)
        self.counts[actor.role] += 1
        self.counts["refused"] += len(actor.refused)
        self.counts["documents"] += len(actor.kept)
        self.odd += [line for line in actor.refused if not REFUSED.search(line)]
        killed = was_killed and actor.process.returncode == -signal.SIGKILL
        self.counts["killed"] += killed
        if actor.stderr or not (killed or actor.process.returncode == 0):
            self.odd.append(f"{actor.role} {actor.process.returncode}: {actor.stderr[-1500:]}")

    def assert_nothing_lost(self) -> None:
        with open_durable(self.library, lock_timeout=20.0) as store:
            store.clear_leftovers()
            assert errors(store) == []
            for name, documents in self.kept.items():
                for key, version in documents.items():
                    row = store.document_at(f"/{name}/{key}")
                    if version == -1:
                        assert row is None, f"{name} {key} came back"
                    elif version is not None:
                        assert row is not None, f"{name} {key} is lost"
                        assert row.id == text_id(text(name, key, version))
                    if row is not None:
                        assert text_id(list(store.iter_text(row.id))) == row.id
        assert self.odd == [], self.odd[:3]


def play(forks: Forks, library: Path, roles: list[str], *, seconds: float) -> Counter[str]:
    """Let processes of all roles run side by side; nobody is killed."""
    troupe = Troupe(forks, library, 0)
    actors = [troupe.start(f"{role}{i}", role, seconds) for i, role in enumerate(roles)]
    for actor in actors:
        troupe.end(actor, seconds=seconds + 120.0)
    troupe.assert_nothing_lost()
    return troupe.counts


def kill(forks: Forks, library: Path, *, kills: int, seed: int, side_by_side: int) -> Counter[str]:
    """Kill processes of random roles at random moments, ``side_by_side`` of them at a time."""
    troupe, chance = Troupe(forks, library, seed), random.Random(seed)
    roles = ["write"] * WRITERS + [role for role in ACTS if role != "write"]
    running: dict[str, Actor] = {}
    while troupe.counts["killed"] < kills:
        while len(running) < side_by_side:
            number = chance.randrange(len(roles))
            name = f"{roles[number]}{number}"
            if name not in running:
                running[name] = troupe.start(name, roles[number], 600.0)
        time.sleep(chance.uniform(0.0, 0.5))
        actor = running.pop(chance.choice(sorted(running)))
        actor.process.send_signal(signal.SIGKILL)
        troupe.end(actor, was_killed=True)
    for actor in running.values():
        actor.process.send_signal(signal.SIGKILL)
        troupe.end(actor, was_killed=True)
    troupe.assert_nothing_lost()
    return troupe.counts


@pytest.mark.thorough
def test_processes_of_all_kinds_lose_nothing(library: Path, forks: Forks) -> None:
    roles = ["write", "write", *(role for role in ACTS if role != "write")]
    assert play(forks, library, roles, seconds=2.0)["write"] == 2


@pytest.mark.thorough
def test_whoever_is_killed_nothing_is_lost(library: Path, forks: Forks) -> None:
    assert kill(forks, library, kills=10, seed=0, side_by_side=3)["killed"] >= 10


@pytest.mark.stress
def test_eight_processes_lose_nothing(library: Path, forks: Forks) -> None:
    roles = ["write"] * WRITERS + [role for role in ACTS if role != "write"]
    counts = play(forks, library, roles, seconds=120.0)
    print(counts)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_kills_lose_nothing(library: Path, forks: Forks, seed: int) -> None:
    counts = kill(forks, library, kills=100, seed=seed, side_by_side=4)
    print(counts)
