"""Death at every named step of every operation: the library opens, and holds the old or the new.

The process dies as far as files can tell: from a step on, nothing reaches the disk any more. Under
`slow` it really is killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from drt_engine.store import Store, sessions
from drt_engine.store.catalogue import document_rows
from drt_engine.store.segments import landmark_files
from tests.engine.store.disks import CountingDisk, DyingDisk, Killed
from tests.engine.store.helpers import errors
from tests.engine.store.operations import OPERATIONS, export, fresh, held, make_base, open_on

Operation = Callable[[Store], None]


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """One time for all documents, and shelves even in a small library."""
    for module in (document_rows, sessions):
        monkeypatch.setattr(module, "now", lambda: "2000-01-01T00:00:00+00:00")
    monkeypatch.setattr(landmark_files, "MIN_LOOSE_SEGMENTS", 2)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        for module in (document_rows, sessions):
            patch.setattr(module, "now", lambda: "2000-01-01T00:00:00+00:00")
        return make_base(tmp_path_factory.mktemp("base"))


def unbroken(base: Path, folder: Path, operation: Operation) -> tuple[bytes, bytes, list[str]]:
    """What the library holds before and after an operation, and the steps that it takes."""
    path = fresh(base, folder)
    with open_on(path) as store:
        before = held(store)
    disk = CountingDisk()
    with open_on(path, disk) as store:
        operation(store)
    with open_on(path) as store:
        return before, held(store), disk.steps


def assert_old_or_new(path: Path, operation: Operation, states: tuple[bytes, bytes]) -> None:
    """After a crash: nothing lost, and doing it again gives what it would have given."""
    with open_on(path) as store:
        assert errors(store) == []
        assert held(store) in states
        operation(store)
        assert held(store) == states[1]
        if operation is export:
            assert (path.parent / "out.drtlib").read_bytes() == states[1]
            assert not list(path.parent.glob(".out*"))
    with open_on(path) as store:
        for row in store.partial_documents():
            store.remove_document(row.id)
        store.compact()  # whoever writes next clears what the dead process left
        assert store.check() == []


@pytest.mark.few(2)
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.__name__)
def test_death_at_every_step(base: Path, tmp_path: Path, operation: Operation, step: int) -> None:
    before, after, steps = unbroken(base, tmp_path / "whole", operation)
    assert "commit" in steps or operation is export
    for number, at in enumerate(range(len(steps), 0, -step)):  # the last step is the commit's
        # every other time before the step, the others within or after it
        when = ("before", "within" if steps[at - 1] == "write" else "after")[number % 2]
        path = fresh(base, tmp_path / "killed")
        with pytest.raises(Killed), open_on(path, DyingDisk(at, when)) as store:
            operation(store)
        assert_old_or_new(path, operation, (before, after))


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["as it is", "log kept small", "reader holds on"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.__name__)
def test_kill_minus_nine_at_every_step(
    base: Path, tmp_path: Path, operation: Operation, setting: str
) -> None:
    before, after, steps = unbroken(base, tmp_path / "whole", operation)
    for at in range(1, len(steps) + 1):
        for when in ("before", "within", "after"):
            if when == "within" and steps[at - 1] != "write":
                continue
            path = fresh(base, tmp_path / "killed")
            kill_at(path, operation, at=at, when=when, setting=setting)
            assert_old_or_new(path, operation, (before, after))


def kill_at(path: Path, operation: Operation, *, at: int, when: str, setting: str) -> None:
    child = os.fork()
    if child == 0:
        try:
            die = DyingDisk(at, when, lambda: os.kill(os.getpid(), signal.SIGKILL))
            with open_on(path, die) as store:
                if setting == "log kept small":
                    store._database._open().execute("PRAGMA wal_autocheckpoint = 1")
                if setting == "reader holds on" and operation.__name__ != "forget":
                    with open_on(path) as other, other.snapshot() as view:
                        view.documents()
                        operation(store)
                else:
                    operation(store)
        finally:
            os._exit(1)
    os.waitpid(child, 0)
