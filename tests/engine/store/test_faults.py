"""A disk that fails at the n-th call, for every n: one sentence, nothing lost, then it works."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drt_engine.errors import StoreError
from drt_engine.store import Store, sessions
from drt_engine.store.catalogue import document_rows
from drt_engine.store.segments import landmark_files
from tests.engine.store.disks import ERRORS, FailingDisk
from tests.engine.store.failing_calls import FailingCalls
from tests.engine.store.helpers import errors
from tests.engine.store.operations import OPERATIONS, fresh, held, make_base, open_on

Operation = Callable[[Store], None]
# a quick choice: what the others add is done in the same steps
FEW = [one for one in OPERATIONS if one.__name__ not in ("resume", "replace", "save")]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base"))


def ask(store: Store) -> None:
    """What a question reads."""
    with store.snapshot() as view:
        ids = [i for some, _ in view.scan_landmarks() for i in some]
        view.read_chunks(ids)
        view.search_text("heather")
        list(view.iter_text(view.documents()[0].id))


def fail_everywhere(
    base: Path, folder: Path, operation: Operation, errors_: list[int], *, step: int = 1
) -> int:
    """Fail each call in turn, or each ``step``-th, until the operation gets through."""
    for at in range(1, 1_000, step):
        path = fresh(base, folder)
        with open_on(path) as store:
            before = held(store)
        disk = FailingDisk(at, errors_[at % len(errors_)])
        failed = False
        with open_on(path, disk) as store:
            try:
                operation(store)
            except StoreError as error:
                failed = True
                assert str(error).count("\n") == 0
        with open_on(path) as store:
            assert errors(store) == []
            now = held(store)
            operation(store)
            done = held(store)
            assert now in (before, done)
        if disk.left > 0:
            assert not failed and now == done
            return at
    raise AssertionError("the operation never got through")


@pytest.mark.few(1)
@pytest.mark.parametrize("operation", [*FEW, ask], ids=lambda one: one.__name__)
def test_calls_may_fail_once(
    base: Path, tmp_path: Path, operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (document_rows, sessions):
        monkeypatch.setattr(module, "now", lambda: "2000-01-01T00:00:00+00:00")
    monkeypatch.setattr(landmark_files, "MIN_LOOSE_SEGMENTS", 2)
    # every seventeenth call, with another error each time; the test below fails each in every way
    assert fail_everywhere(base, tmp_path / "faults", operation, list(ERRORS), step=17) > 1


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS, ids=lambda code: errno.errorcode[code])
@pytest.mark.parametrize("operation", [*OPERATIONS, ask], ids=lambda one: one.__name__)
def test_every_call_may_fail_once_in_every_way(
    base: Path,
    tmp_path: Path,
    operation: Operation,
    error: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (document_rows, sessions):
        monkeypatch.setattr(module, "now", lambda: "2000-01-01T00:00:00+00:00")
    assert fail_everywhere(base, tmp_path / "faults", operation, [error]) > 1


# below the store's file layer: whatever call to the operating system fails, locks included


def fail_every_call(
    base: Path, folder: Path, operation: Operation, errors_: list[int], *, step: int = 1
) -> int:
    """As `fail_everywhere`, opening the library included; how many calls that took."""
    for at in range(1, 1_000, step):
        path = fresh(base, folder)
        with open_on(path) as store:
            before = held(store)
        calls = FailingCalls(folder, at, errors_[at % len(errors_)])
        failed = False
        try:
            with calls.running(), open_on(path) as store:
                operation(store)
        except StoreError as error:
            failed = True
            assert str(error).count("\n") == 0
        assert_old_or_new(path, operation, before, failed=failed)
        if calls.left > 0:
            assert not failed
            return at
    raise AssertionError("the operation never got through")


def assert_old_or_new(path: Path, operation: Operation, before: bytes, *, failed: bool) -> None:
    with open_on(path) as store:
        assert errors(store) == []
        now = held(store)
        operation(store)
        done = held(store)
    assert now in (before, done) if failed else now == done


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """One time for all documents, and shelves even in a small library."""
    for module in (document_rows, sessions):
        monkeypatch.setattr(module, "now", lambda: "2000-01-01T00:00:00+00:00")
    monkeypatch.setattr(landmark_files, "MIN_LOOSE_SEGMENTS", 2)


SAMPLE = [one for one in OPERATIONS if one.__name__ in ("remove", "save")]


@pytest.mark.few(1)
@pytest.mark.parametrize("operation", [*SAMPLE, ask], ids=lambda one: one.__name__)
def test_any_call_to_the_system_may_fail(
    base: Path, tmp_path: Path, operation: Operation, steady: None
) -> None:
    assert fail_every_call(base, tmp_path / "faults", operation, list(ERRORS), step=7) > 5


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS, ids=lambda code: errno.errorcode[code])
@pytest.mark.parametrize("operation", [*OPERATIONS, ask], ids=lambda one: one.__name__)
def test_any_call_to_the_system_may_fail_in_every_way(
    base: Path, tmp_path: Path, operation: Operation, error: int, steady: None
) -> None:
    calls = fail_every_call(base, tmp_path / "faults", operation, [error])
    print(f"{operation.__name__}, {errno.errorcode[error]}: each of {calls - 1} calls failed once")
    assert calls > 5


@contextlib.contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Files that can be opened, by SQLite too, before the system says EMFILE."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = -1  # the lowest numbers are given first
    for limit in range(1_024):
        try:
            os.fstat(limit)
        except OSError:
            free += 1
        if free == count:
            break
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.thorough
@pytest.mark.few(1)
@pytest.mark.parametrize("operation", SAMPLE, ids=lambda one: one.__name__)
def test_the_last_file_descriptors_may_be_taken(
    base: Path, tmp_path: Path, operation: Operation, steady: None
) -> None:
    run_out_of_descriptors(base, tmp_path / "faults", operation)


@pytest.mark.slow
@pytest.mark.parametrize("operation", [*OPERATIONS, ask], ids=lambda one: one.__name__)
def test_the_last_file_descriptors_may_be_taken_from_any(
    base: Path, tmp_path: Path, operation: Operation, steady: None
) -> None:
    run_out_of_descriptors(base, tmp_path / "faults", operation)


def run_out_of_descriptors(base: Path, folder: Path, operation: Operation) -> None:
    with open_on(fresh(base, folder)) as store:
        operation(store)  # whatever is imported late is, from here on
    for count in range(100):
        path = fresh(base, folder)
        with open_on(path) as store:
            before = held(store)
        failed = False
        try:
            with descriptors_left(count), open_on(path) as store:
                operation(store)
        except StoreError as error:
            failed = True
            assert str(error).count("\n") == 0
        assert_old_or_new(path, operation, before, failed=failed)
        if not failed:
            break
    assert 2 < count < 50


def test_a_failed_fsync_is_neither_retried_nor_reported_as_done(base: Path, tmp_path: Path) -> None:
    class Unsynced(FailingDisk):
        """Every fsync of a file fails; how often it was asked for counts."""

        asked = 0

        def sync(self, descriptor: int, path: Path) -> None:
            self.asked += 1
            raise OSError(errno.EIO, "Input/output error", str(path))

    disk = Unsynced(-1, errno.EIO)
    with open_on(fresh(base, tmp_path / "faults"), disk) as store:
        with pytest.raises(StoreError, match="Input/output error"):
            OPERATIONS[0](store)
        assert disk.asked == 1
        assert [row.chunks for row in store.partial_documents()] == [2, 0]
        assert errors(store) == []


def test_nothing_builds_on_a_commit_in_doubt(base: Path, tmp_path: Path) -> None:
    class Doubtful(FailingDisk):
        """The commit reaches SQLite, and then the disk reports an error."""

        def call(self, step, path, action):  # type: ignore[no-untyped-def]
            result = action()
            if step == "commit":
                raise OSError(errno.EIO, "Input/output error", str(path))
            return result

    path = fresh(base, tmp_path / "faults")
    with open_on(path, Doubtful(-1, errno.EIO)) as store:
        with pytest.raises(StoreError, match="Input/output error"):
            store.set_setting("one", "1")
        with pytest.raises(StoreError, match="an earlier commit .* failed"):
            store.set_setting("two", "2")
    with open_on(path) as store:
        assert (store.get_setting("one"), store.get_setting("two")) == ("1", None)
        assert errors(store) == []
