"""The same random numbers for every test, and what is read once for all of them."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

# Bytecode is kept even where the environment forbids it. Without it each worker, and each of many
# processes that tests start, compiles every module again: more than half of the time to collect.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from tests.environment import make_neutral  # noqa: E402  its bytecode is kept, too

make_neutral()  # no fixture could: torch, which tests import, reads the number of threads once

# No test leaves a helper process behind; those of the helper ask for one.
os.environ["DRT_WARM"] = "off"

import hypothesis  # noqa: E402
import pytest  # noqa: E402

from tests.catalogue_opens import CatalogueOpens  # noqa: E402
from tests.forks import Forks  # noqa: E402
from tests.log_records import Records  # noqa: E402
from tests.memory_disk import use_memory  # noqa: E402
from tests.quick_disks import make_quick  # noqa: E402
from tests.sampling import mark_beyond_few  # noqa: E402
from tests.seeds import seed  # noqa: E402

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
ASKED = ("## Part 3.", "## Part 10.", "## Part 15.")

# Slow machines are no failure. --hypothesis-profile thorough tries ten times as many examples.
hypothesis.settings.register_profile("drt", deadline=None, max_examples=50)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=500)
hypothesis.settings.load_profile("drt")

# Importing torch makes 250,000 objects that stay; pytest_collection_finish lets garbage be sought.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    """Show warnings of tests for a GPU: compilers and drivers give some that nobody can help.

    Temporary folders are in memory where no test writes large files.
    """
    wanted = config.getoption("markexpr")
    if "not stress" in wanted:
        use_memory()
    if "gpu" in wanted and "not gpu" not in wanted:
        config.addinivalue_line("filterwarnings", "default")


_LABORATORY = Path(__file__).parent / "lab"


def _is_laboratory_asked(config: pytest.Config) -> bool:
    """Return whether the laboratory's tests are asked for by their path."""
    asked = (Path(name.partition("::")[0]).absolute() for name in config.args)
    return any(path.is_relative_to(_LABORATORY) for path in asked)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the laboratory's modules unread where none of their tests would be run."""
    if collection_path != _LABORATORY or _is_laboratory_asked(config):
        return None
    return "not lab" in config.option.markexpr or None


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark cases beyond ``few``, and the laboratory's where it is not asked for by its path.

    Begin with the tests of this folder, which are long.
    """
    mark_beyond_few(items)
    if not _is_laboratory_asked(config):
        for item in items:
            if item.path.is_relative_to(_LABORATORY):
                item.add_marker("lab")
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)


def pytest_collection_finish() -> None:
    """Leave the modules out of each search for garbage."""
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


def end() -> None:
    """End a worker at once; let another process collect what is frozen.

    To take apart what was imported takes seconds. Triton reports its objects that are not collected
    as leaked. Not before the end, since pytest looks for garbage ten times when it ends.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        sys.stderr.flush()
        os._exit(0)  # what the worker found, pytest knows
    gc.unfreeze()


atexit.register(end)  # first, so that it comes last


@pytest.fixture(autouse=True)
def seeds() -> None:
    seed()


@pytest.fixture(scope="session")
def _catalogue_opens() -> CatalogueOpens:
    return CatalogueOpens()


@pytest.fixture(autouse=True)
def catalogue_opens(_catalogue_opens: CatalogueOpens) -> Iterator[CatalogueOpens]:
    """Fail a test in which anything but SQLite opens a library's catalogue."""
    yield _catalogue_opens
    places, _catalogue_opens.places = _catalogue_opens.places, []
    assert not places, places


@pytest.fixture
def records() -> Iterator[Records]:
    """Log records that reach the root."""
    handler = Records()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


@pytest.fixture(scope="session", autouse=True)
def quick_disks() -> Iterator[None]:
    """Wait for no disk, and migrate a new library's catalogue once."""
    with pytest.MonkeyPatch.context() as patch:
        make_quick(patch)
        yield


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """What forks processes that have imported torch."""
    if not hasattr(os, "fork"):
        pytest.skip("nothing forks here")
    made = Forks()
    yield made
    made.close()


def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all processes of a run."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


def read_once(file: Path, folder: Path) -> Path:
    """A library with a file, read by the shipped model: once for all processes of a run."""
    library = folder / f"{file.stem}.library"
    with (folder / f"{file.stem}.lock").open("w") as lock:
        if fcntl is not None:  # without it (Windows) the tests run in one process
            fcntl.flock(lock, fcntl.LOCK_EX)  # the first reads, the others wait for it
        if not library.exists():
            from drt import Assistant

            unfinished = folder / f"{file.stem}.unfinished"
            with Assistant(unfinished) as assistant:
                assistant.ingest(file)
            shutil.copytree(unfinished, folder / f"{file.stem}.untouched")
            unfinished.rename(library)
    return library


@pytest.fixture(scope="session")
def handbook_parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parts of the handbook that are asked about: all of it is five times as long.

    Slow tests and ``.ci/run`` read it whole.
    """
    parts = re.split(r"(?m)^(?=## )", HANDBOOK.read_text(encoding="utf-8"))
    chosen = [part for part in parts if part.startswith(ASKED)]
    assert len(chosen) == len(ASKED)
    # Each process writes the same bytes, and none sees half of them.
    file = shared_folder(tmp_path_factory) / "handbook-parts.md"
    new = file.with_name(f"{file.name}.{os.getpid()}")
    new.write_text("".join([parts[0], *chosen]), encoding="utf-8")
    new.rename(file)
    return file


@pytest.fixture(scope="session")
def handbook_library(handbook_parts: Path) -> Path:
    """A library with these parts.

    Tests may ask it; one that writes copies ``untouched_handbook_library``.
    """
    return read_once(handbook_parts, handbook_parts.parent)


@pytest.fixture(scope="session")
def untouched_handbook_library(handbook_library: Path) -> Path:
    """The same library, opened by nobody: SQLite may remove files of an open one meanwhile."""
    return handbook_library.with_suffix(".untouched")


@pytest.fixture(scope="session")
def whole_handbook_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with the whole handbook, for slow tests."""
    return read_once(HANDBOOK, shared_folder(tmp_path_factory))
