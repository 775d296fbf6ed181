"""Several processes on one library: what each was told is kept, is kept for all."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from drt_engine.errors import StoreError
from drt_engine.store import Store
from tests.catalogue_opens import CatalogueOpens
from tests.engine.store.helpers import add_document, document_id, open_durable, open_store
from tests.forks import Forks

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
