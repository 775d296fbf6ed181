"""The same random numbers for every test, and what is read once for all of them."""

from __future__ import annotations

import fcntl
import gc
import os
import random
import sys
from pathlib import Path

# Bytecode is kept even where the environment forbids it. Without it each worker, and each of many
# processes that tests start, compiles every module again: more than half of the time to collect.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import hypothesis  # noqa: E402  its bytecode is kept, too
import pytest  # noqa: E402

HANDBOOK = Path(__file__).parents[1] / "examples" / "handbook.md"

# Slow machines are no failure.
hypothesis.settings.register_profile("drt", deadline=None)
hypothesis.settings.load_profile("drt")

# Processes that run tests side by side would wait for each other's threads.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_finish() -> None:
    """Leave the modules out of each search for garbage: torch alone makes 250,000 objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


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
def handbook_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with the handbook, read by the shipped model: once for all processes of a run.

    Tests may ask it; one that writes takes a copy.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    library = folder / "handbook.library"
    with (folder / "handbook.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the first reads, the others wait for it
        if not library.exists():
            from drt import Assistant

            unfinished = folder / "handbook.unfinished"
            with Assistant(unfinished) as assistant:
                assistant.ingest(HANDBOOK)
            unfinished.rename(library)
    return library
