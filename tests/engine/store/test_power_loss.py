"""Power cuts: what was not synced may be there, missing or torn; what was committed stays.

A recorded run is replayed up to some step. Names that no fsync of their folder made durable come
and go, files that were not synced end early or hold zeros, and the catalogue's log is torn within
the commit that was under way.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from drt_engine.store import Store, sessions
from drt_engine.store.catalogue import document_rows
from drt_engine.store.segments import landmark_files
from tests.engine.store.disks import RecordingDisk, Step
from tests.engine.store.helpers import errors
from tests.engine.store.operations import OPERATIONS, fresh, held, make_base, open_on
from tests.sampling import sampled

Operation = Callable[[Store], None]
STATES, MANY = 33, 2_000
PAGE = 4096


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (document_rows, sessions):
        monkeypatch.setattr(module, "now", lambda: "2000-01-01T00:00:00+00:00")
    monkeypatch.setattr(landmark_files, "MIN_LOOSE_SEGMENTS", 2)


@dataclass
class File:
    data: bytes = b""
    synced: bytes = b""

    def torn(self, chance: random.Random) -> bytes:
        """What a power cut leaves of it."""
        if self.data == self.synced:
            return self.data
        kept = chance.randrange(len(self.synced), len(self.data) + 1)
        rest = len(self.data) - kept
        return self.data[:kept] + (bytes(rest) if chance.random() < 0.5 else b"")


@dataclass
class Machine:
    """Files and names as they are, and those names that are durable."""

    files: dict[Path, File]
    durable: dict[Path, File] = field(default_factory=dict)
    catalogue: dict[str, bytes] = field(default_factory=dict)

    def run(self, step: Step) -> None:
        if step.name == "create":
            self.files[step.path] = File()
        elif step.name == "write":
            self.files[step.path].data += step.data
        elif step.name == "fsync":
            self.files[step.path].synced = self.files[step.path].data
        elif step.name == "rename" and step.old is not None:
            self.files[step.path] = self.files.pop(step.old)
        elif step.name == "link":  # of a file that was synced under its other name
            self.files[step.path] = File(step.data, step.data)
        elif step.name == "unlink":
            self.files.pop(step.path, None)
        elif step.name == "fsync folder":
            mine = [p for p in {*self.files, *self.durable} if p.parent == step.path]
            for path in mine:
                self.durable.pop(path, None)
                if path in self.files:
                    self.durable[path] = self.files[path]
        elif step.name in ("commit", "maintain"):
            self.catalogue = step.after

    def names(self, chance: random.Random) -> dict[Path, File]:
        """Each name as it is or as it was, since its folder was not synced after the change."""
        left = {}
        for path in {*self.files, *self.durable}:
            source = self.files if chance.random() < 0.5 else self.durable
            if path in source:
                left[path] = source[path]
        return left


def torn_catalogue(step: Step, chance: random.Random) -> dict[str, bytes]:
    """The catalogue's files in the middle of a commit or a checkpoint."""
    name, log = (key for key in sorted(step.before, key=len))
    if step.before[name] == step.after[name]:
        old, new = step.before[log], step.after[log]
        cut = chance.randrange(len(new) + 1)
        return {name: step.before[name], log: new[:cut] + old[cut:]}
    return step.before if chance.random() < 0.5 else step.after


def recorded(base: Path, folder: Path, operation: Operation) -> tuple[Machine, list[Step]]:
    path = fresh(base, folder)
    found = [*path.rglob("*.seg"), *path.rglob("*.lmk"), *path.glob("removed/*")]
    machine = Machine({p: File(p.read_bytes(), p.read_bytes()) for p in found})
    machine.durable = dict(machine.files)
    machine.catalogue = {f.name: f.read_bytes() for f in path.glob("catalog.db*")}
    disk = RecordingDisk()
    with open_on(path, disk) as store:
        store._database._open().execute("PRAGMA wal_autocheckpoint = 20")
        operation(store)
    return machine, disk.log


def boot(
    machine: Machine, path: Path, chance: random.Random, torn: dict[str, bytes] | None
) -> None:
    """Write what the power cut left."""
    kinds = (path.rglob("*.seg"), path.rglob("*.lmk"), path.rglob("*.tmp"), path.glob("removed/*"))
    for file in [file for kind in kinds for file in kind]:
        file.unlink()
    for file in path.glob("catalog.db*"):
        file.unlink()
    for name, data in (torn or machine.catalogue).items():
        if data or name == "catalog.db":
            (path / name).write_bytes(data)
    for place, kept in machine.names(chance).items():
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(kept.torn(chance))


def cut_power(base: Path, folder: Path, operation: Operation, *, states: int) -> None:
    with open_on(fresh(base, folder)) as store:
        before = held(store)
        operation(store)
        after = held(store)
    machine, log = recorded(base, folder, operation)
    chance, start = random.Random(operation.__name__), machine
    path = folder / "test.library"
    for _ in range(states):
        at = chance.randrange(len(log) + 1)
        machine = Machine(
            {p: File(f.data, f.synced) for p, f in start.files.items()}, {}, start.catalogue
        )
        machine.durable = dict(machine.files)
        for step in log[:at]:
            machine.run(step)
        within = log[at] if at < len(log) and log[at].before else None
        boot(machine, path, chance, torn_catalogue(within, chance) if within else None)
        done = not any(step.name == "commit" for step in log[at:])
        with open_on(path) as store:
            assert errors(store) == [], (at, len(log))
            state = held(store)
            assert state in ((after,) if done else (before, after))
            operation(store)
            assert held(store) == after
            store.compact()
            assert errors(store) == []


# By default a third: test_kill_points.py has each of them.
@pytest.mark.few(1)
@pytest.mark.parametrize(
    "operation",
    sampled(OPERATIONS, range(0, 99, 3), thorough=range(99)),
    ids=lambda one: one.__name__,
)
def test_power_cuts(tmp_path: Path, operation: Operation) -> None:
    cut_power(make_base(tmp_path), tmp_path / "cut", operation, states=STATES // len(OPERATIONS))


@pytest.mark.stress
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.__name__)
def test_many_power_cuts(tmp_path: Path, operation: Operation) -> None:
    cut_power(make_base(tmp_path), tmp_path / "cut", operation, states=MANY // len(OPERATIONS))
