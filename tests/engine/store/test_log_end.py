"""A commit that is in the log and was never told to others: the next recovery brings it back.

SQLite writes a commit to the log, then to the memory that its connections share. Who is killed
between the two leaves rows that nobody sees until the log is read again.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from drt_engine.store import Store
from tests.engine.store.helpers import add_document, errors, open_durable
from tests.forks import Fork, Forks

ROOT = Path(__file__).parents[3]

BEGIN = """
import os, sys, time
from pathlib import Path
from tests.engine.store.helpers import INT8, make_batch, make_texts, open_durable, text_id
library = Path(sys.argv[1])
shared = library / "catalog.db-shm"
"""
# Sees the library as it is, until it is killed.
STAYS = f"""{BEGIN}
store = open_durable(library)
store.documents()
print("ready", flush=True)
time.sleep(60)
"""
# Commits a segment, and takes what it told the others back.
DIES = f"""{BEGIN}
store = open_durable(library)
writer = store.begin_document(
    document_id=text_id(["a ", "b "]), title="T", source="/new", media_type="text/plain"
)
writer.__enter__()
memory = os.open(shared, os.O_RDWR)  # stays open: closing it would free SQLite's locks
before = os.pread(memory, 1 << 20, 0)
writer.append(make_batch(INT8, [4, 4]), make_texts(["a ", "b "]))
os.pwrite(memory, before, 0)
os._exit(0)
"""
TIDIES = f"""{BEGIN}
store = open_durable(library)
store.clear_leftovers()
print("ready", flush=True)
time.sleep(60)
"""


def started(forks: Forks, code: str, library: Path) -> Fork:
    process = forks.start(code, library, cwd=ROOT)
    assert process.stdout.readline() == "ready\n", process.communicate()[1]
    return process


@pytest.mark.parametrize("tidies", [False, True], ids=["kept", "tidied"])
def test_a_segment_that_may_come_back_is_not_deleted(
    library: Path, forks: Forks, tidies: bool
) -> None:
    with open_durable(library) as store:
        add_document(store, 1, ["text 1 "] * 3)
    others = [started(forks, STAYS, library)]
    died = forks.run(DIES, library, cwd=ROOT)
    assert died.returncode == 0, died.stderr
    files = set(library.glob("segments/*.seg"))
    assert len(files) == 2  # that of the commit that nobody saw, too
    if tidies:
        others.append(started(forks, TIDIES, library))
        assert len(set(library.glob("segments/*.seg"))) == 1
    for process in others:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with Store.open(library) as store:  # reads the log again
        rows = store.partial_documents()
        assert [row.chunks for row in rows] == ([0] if tidies else [2])
        assert errors(store) == []
