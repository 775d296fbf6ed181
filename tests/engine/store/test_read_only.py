"""Libraries that cannot be written to, and disks without room: reading and removing go on."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from drt_engine.errors import StorageFull, StoreError
from drt_engine.store import Store
from drt_engine.store.filesystem.disk import Disk
from tests.engine.store.helpers import (
    FINGERPRINT,
    INT8,
    add_document,
    document_id,
    open_store,
    segment_files,
)
from tests.engine.store.operations import TURN
from tests.forks import Forks

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def namespace(forks: Forks) -> Forks:
    """What forks processes that may have file systems of their own; skips where none may."""
    unshare = shutil.which("unshare")
    if unshare is None or sys.platform != "linux":
        pytest.skip("mounting needs Linux and unshare")
    prefix = [unshare, "-m"] if os.getuid() == 0 else [unshare, "-rm"]
    if subprocess.run([*prefix, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=False).returncode:
        pytest.skip("this system does not let tests mount file systems")
    return forks


# As `unshare -m`, or `unshare -rm` where this is not root.
UNSHARE = """
import ctypes, os, subprocess, sys
from pathlib import Path
user, group = os.getuid(), os.getgid()
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x20000 | (0x10000000 if user else 0)) == 0, os.strerror(ctypes.get_errno())
if user:
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
"""


def in_namespace(namespace: Forks, mount: str, code: str, *arguments: object) -> str:
    """What a script prints after a mount."""
    words = ["sh", "-c", mount, "sh"]
    mounting = f"{UNSHARE}subprocess.run([*{words}, *sys.argv[1:]], check=True)"
    done = namespace.run(f"{mounting}\n{code}", *arguments, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


READ_ONLY = (
    'for folder; do mount --bind "$folder" "$folder"'
    ' && mount -o remount,bind,ro "$folder" || exit 1; done'
)
USE = """
import sys
from pathlib import Path
from drt_engine.errors import StoreError
from drt_engine.store import Store
from tests.engine.store.helpers import FINGERPRINT, INT8, add_document
# Asking opens it with what a new library would need.
for path, create in ((Path(name), create) for name in sys.argv[1:] for create in (False, True)):
    with Store.open(path, fingerprint=FINGERPRINT, layout=INT8, create=create) as store:
        print(len(store.documents()), len(store.sessions()), store.stats()["chunks"])
        with store.snapshot() as view:
            ids = [i for some, _ in view.scan_landmarks() for i in some]
            view.read_chunks(ids)
            print(len(ids), len(view.search_text("heather")), len(view.chunk_rows(ids)))
        store.export_archive(path.parent / "out.drtlib")
        assert store.check() == [], store.check()
        for change in (
            lambda: add_document(store, 9, ["new "]),
            lambda: store.remove_document(store.documents()[0].id),
            lambda: store.save_session("new", transcript=[], meta={}, state=b""),
            lambda: store.compact(),
        ):
            try:
                change()
            except StoreError as error:
                assert "ead-only" in str(error) and "\\n" not in str(error), error
            else:
                raise AssertionError("it was changed")
"""


@pytest.fixture
def made(library: Path) -> Path:
    with open_store(library) as store:
        add_document(store, 1, ["heather and gorse "] * 3)
        store.save_session("talk", transcript=[{**TURN, "citations": []}], meta={}, state=b"")
    return library


def test_a_read_only_file_system(made: Path, tmp_path: Path, namespace: Forks) -> None:
    paths = []
    for missing in ("nothing", "readers", "lock"):
        paths.append(tmp_path / missing / "library")
        shutil.copytree(made, paths[-1])
        (paths[-1] / missing).unlink(missing_ok=True)
    assert (
        in_namespace(namespace, READ_ONLY, USE, *paths).splitlines() == ["1 1 3", "3 3 3"] * 2 * 3
    )
    for path in paths:
        with Store.open(path) as store, Store.open(path.parent / "copy", create=True) as copy:
            assert len(copy.import_archive(path.parent / "out.drtlib")) == 1
            assert store.check() == [] == copy.check()


def test_a_library_that_was_in_use_says_what_to_do(
    made: Path, tmp_path: Path, namespace: Forks
) -> None:
    with open_store(made) as store:
        store.save_session("newer", transcript=[], meta={}, state=b"")
        shutil.copytree(made, tmp_path / "copy")
        assert store.check() == []
    (tmp_path / "copy" / "catalog.db-shm").unlink()
    code = """
import sys
from pathlib import Path
from drt_engine.errors import StoreError
from drt_engine.store import Store
try:
    Store.open(Path(sys.argv[1]))
except StoreError as error:
    print(error)
"""
    assert "copy it to a place" in in_namespace(namespace, READ_ONLY, code, tmp_path / "copy")
    with Store.open(tmp_path / "copy") as copy:
        assert len(copy.sessions()) == 2 and copy.check() == []


def test_a_folder_without_permission_to_write(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user that may only read, by refusing what the system would refuse."""
    real = os.open

    def refusing(path: object, flags: int, *rest: object, **named: object) -> int:
        if str(path).startswith(str(made)) and flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, flags, *rest, **named)  # type: ignore[arg-type]

    def access(path: object, mode: int, **named: object) -> bool:
        return not (str(path).startswith(str(made)) and mode & os.W_OK)

    before = {path.name: path.stat().st_mtime_ns for path in made.rglob("*")}
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refusing)
        patch.setattr(os, "access", access)
        with Store.open(made, fingerprint=FINGERPRINT, layout=INT8, create=True) as store:
            with store.snapshot() as view:
                assert len(view.read_chunks(view.chunk_ids()).ids) == 3
            assert store.check() == []
            store.export_archive(made.parent / "out.drtlib")
            with pytest.raises(StoreError, match="cannot use .*lock"):
                store.remove_document(document_id(1))
            with pytest.raises(StoreError, match="is read-only"):
                store.set_setting("k", "v")
    assert {path.name: path.stat().st_mtime_ns for path in made.rglob("*")} == before


def test_an_older_library_that_is_read_only_says_so(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(made / "catalog.db") as connection:
        connection.execute("PRAGMA user_version = 4")
    connection.close()
    monkeypatch.setattr("drt_engine.store.catalogue.database.is_writable", lambda path: False)
    with pytest.raises(StoreError, match="of an older version"):
        Store.open(made)
    monkeypatch.undo()
    with sqlite3.connect(made / "catalog.db") as connection:
        connection.execute("PRAGMA user_version = 8")
    connection.close()
    with Store.open(made) as store:
        assert store.check() == []


def test_a_damaged_search_index_is_found_in_a_read_only_library(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(made) as store:
        store._database._open().execute("INSERT INTO chunk_text (chunk_text) VALUES ('delete-all')")
    with monkeypatch.context() as patch:
        patch.setattr("drt_engine.store.catalogue.database.is_writable", lambda path: False)
        with Store.open(made) as store:
            assert [finding.kind for finding in store.check()] == ["search"]
    with open_store(made) as store:
        store.repair(store.check())
        assert store.check() == []


def full(connection: sqlite3.Connection) -> None:
    connection.execute("ROLLBACK")
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise error


@pytest.mark.thorough
def test_removing_makes_the_room_it_needs(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullDisk(Disk):
        """No commit as long as the segments are there."""

        def commit(self, connection: sqlite3.Connection, path: Path) -> None:
            if segment_files(made):
                full(connection)
            super().commit(connection, path)

    disk = FullDisk()
    with Store.open(made, lock_timeout=0.1, disk=disk) as store:
        with store.snapshot(), pytest.raises(StorageFull):
            store.remove_document(document_id(1))  # its files are being read
        assert len(store.documents()) == 1 and store.check() == []
        store.remove_document(document_id(1))
        assert store.documents() == [] and store.check() == []


FILL = """
import os, sys
from pathlib import Path
from drt_engine.errors import StorageFull
from drt_engine.store import Store
from tests.engine.store.helpers import add_document, open_durable
path = Path(sys.argv[1]) / "library"
with open_durable(path) as store:
    pieces = [f"heather and gorse {i} " * 20 for i in range(900)]
    row = add_document(store, 1, pieces)
    kept = add_document(store, 2, ["kept "])
    assert store.check() == []
spare = (Path(sys.argv[1]) / "spare").open("wb", buffering=0)
try:
    while True:
        spare.write(bytes(4096))
except OSError:
    spare.close()
assert os.statvfs(path).f_bavail == 0
with Store.open(path) as store:
    assert len(store.documents()) == 2 and store.search_text("heather") and store.check() == []
    try:
        store.save_session("s", transcript=[], meta={}, state=bytes(9000))
    except StorageFull as error:
        print("full", "\\n" in str(error))
    store.remove_document(row.id)
    assert [one.id for one in store.documents()] == [kept.id]
with open_durable(path) as store:
    store.save_session("s", transcript=[], meta={}, state=bytes(9000))
    assert store.check() == [], store.check()
print("removed")
"""


@pytest.mark.thorough
def test_a_document_is_removed_from_a_disk_without_a_free_byte(
    tmp_path: Path, namespace: Forks
) -> None:
    mount = 'mount -t tmpfs -o size=8m,mode=700 tmpfs "$1"'
    assert in_namespace(namespace, mount, FILL, tmp_path).split() == ["full", "False", "removed"]


NO_INODES = """
import os, sys
from pathlib import Path
from drt_engine.errors import StorageFull
from drt_engine.store import Store
from tests.engine.store.helpers import add_document, open_durable
path = Path(sys.argv[1]) / "library"
with open_durable(path) as store:
    row = add_document(store, 1, ["heather and gorse "] * 3)
    kept = add_document(store, 2, ["kept "])
    with store.snapshot():
        pass
try:
    for number in range(10_000):
        (Path(sys.argv[1]) / f"spare-{number}").touch()
except OSError:
    pass
assert os.statvfs(path).f_favail == 0
with Store.open(path) as store:
    assert len(store.documents()) == 2 and store.search_text("heather") and store.check() == []
    with store.snapshot() as view:
        assert len(view.read_chunks(view.chunk_ids()).ids) == 4
    try:
        store.save_session("s", transcript=[], meta={}, state=bytes(9000))
    except StorageFull as error:
        print("full", "\\n" in str(error))
    store.remove_document(row.id)
    assert [one.id for one in store.documents()] == [kept.id] and store.check() == []
(Path(sys.argv[1]) / "spare-0").unlink()
with open_durable(path) as store:
    store.save_session("s", transcript=[], meta={}, state=bytes(9000))
    assert store.check() == [], store.check()
print("removed")
"""


def test_a_document_is_removed_where_no_file_can_be_made(tmp_path: Path, namespace: Forks) -> None:
    mount = 'mount -t tmpfs -o size=8m,nr_inodes=60,mode=700 tmpfs "$1"'
    done = in_namespace(namespace, mount, NO_INODES, tmp_path).split()
    assert done == ["full", "False", "removed"]
