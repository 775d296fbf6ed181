"""The same random numbers for every test, and what is read once for all of them."""

from __future__ import annotations

import gc
import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

# Bytecode is kept even where the environment forbids it. Without it each worker, and each of many
# processes that tests start, compiles every module again: more than half of the time to collect.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import hypothesis  # noqa: E402  its bytecode is kept, too
import pytest  # noqa: E402

from tests.forks import Forks  # noqa: E402

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
    # They limit processes, break calls of the system or kill, as only the others can be.
    collect_ignore = [
        "engine/documents/test_confinement.py",
        "engine/documents/test_fuzz.py",
        "engine/store/test_crash.py",
        "engine/store/test_faults.py",
        "engine/test_asking_faults.py",
    ]

HANDBOOK = Path(__file__).parents[1] / "examples" / "handbook.md"
UNTOUCHED = "handbook.untouched"  # the folder of a library

# Slow machines are no failure.
hypothesis.settings.register_profile("drt", deadline=None)
hypothesis.settings.load_profile("drt")

# Importing torch makes 250,000 objects that stay; pytest_collection_finish lets garbage be sought.
gc.disable()

# Processes that run tests side by side would wait for each other's threads.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_finish() -> None:
    """Leave the modules out of each search for garbage."""
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


def pytest_unconfigure() -> None:
    """Let them be collected at the end: Triton reports its objects that are not as leaked."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def seeds() -> None:
    random.seed(0)
    torch = sys.modules.get("torch")  # tests that need no torch do not pay for it
    if torch is not None:
        # torch.manual_seed keeps a stack of frames for each device, which takes longer than most.
        torch.default_generator.manual_seed(0)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(0)


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """What forks processes that have imported torch."""
    if not hasattr(os, "fork"):
        pytest.skip("nothing forks here")
    made = Forks()
    yield made
    made.close()


@pytest.fixture(scope="session")
def handbook_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with the handbook, read by the shipped model: once for all processes of a run.

    Tests may ask it; one that writes copies ``untouched_handbook_library``.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    library = folder / "handbook.library"
    with (folder / "handbook.lock").open("w") as lock:
        if fcntl is not None:  # without it (Windows) the tests run in one process
            fcntl.flock(lock, fcntl.LOCK_EX)  # the first reads, the others wait for it
        if not library.exists():
            from drt import Assistant

            unfinished = folder / "handbook.unfinished"
            with Assistant(unfinished) as assistant:
                assistant.ingest(HANDBOOK)
            shutil.copytree(unfinished, folder / UNTOUCHED)
            unfinished.rename(library)
    return library


@pytest.fixture(scope="session")
def untouched_handbook_library(handbook_library: Path) -> Path:
    """The same library, opened by nobody: SQLite may remove files of an open one meanwhile."""
    return handbook_library.parent / UNTOUCHED
