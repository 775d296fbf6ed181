"""The checks of the archives see what is missing and what is junk; the version has one place.

``.ci/run`` builds the archives with the same script.
"""

from __future__ import annotations

import importlib.util
import io
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import drt
from tests.tables import each_row

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def archives() -> ModuleType:
    """Load the script as a module: ``.ci`` is no package."""
    spec = importlib.util.spec_from_file_location("archives", ROOT / ".ci" / "archives.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TREE = (
    "LICENSE",
    "drt_cli/main.py",
    "engine/drt_engine/weights/m/model.safetensors",
    "sdk/drt/_server/page/page.js",
    "sdk/drt/py.typed",
    "share/man/man1/drt.1",
    "tests/test_x.py",
)
WHEEL = (
    "drt/_server/page/page.js",
    "drt/py.typed",
    "drt_assistant-1.0.data/data/share/man/man1/drt.1",
    "drt_assistant-1.0.dist-info/licenses/LICENSE",
    "drt_cli/main.py",
    "drt_engine/weights/m/model.safetensors",
)
METADATA = "Metadata-Version: 2.4\nVersion: 1.0\nLicense-Expression: Apache-2.0\n\nText.\n"


def wheel(path: Path, names: tuple[str, ...], metadata: str = METADATA) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
        archive.writestr("drt_assistant-1.0.dist-info/METADATA", metadata)
    return path


def test_a_whole_wheel_has_no_problem(archives: ModuleType, tmp_path: Path) -> None:
    assert archives.wheel_problems(wheel(tmp_path / "a.whl", WHEEL), TREE, version="1.0") == []


@each_row("missing", WHEEL)
def test_a_wheel_without_a_file_is_refused(
    archives: ModuleType, tmp_path: Path, missing: str
) -> None:
    names = tuple(name for name in WHEEL if name != missing)
    (problem,) = archives.wheel_problems(wheel(tmp_path / "a.whl", names), TREE, version="1.0")
    assert "lacks" in problem


@each_row("junk", ["tests/test_x.py", "drt_cli/__pycache__/main.pyc", "notes.txt"])
def test_a_wheel_with_more_is_refused(archives: ModuleType, tmp_path: Path, junk: str) -> None:
    path = wheel(tmp_path / "a.whl", (*WHEEL, junk))
    (problem,) = archives.wheel_problems(path, TREE, version="1.0")
    assert problem == f"the wheel should not hold {junk}"


def test_a_wheel_of_another_version_or_licence_is_refused(
    archives: ModuleType, tmp_path: Path
) -> None:
    other = METADATA.replace("1.0", "2.0").replace("Apache-2.0", "MIT")
    problems = archives.wheel_problems(wheel(tmp_path / "a.whl", WHEEL, other), TREE, version="1.0")
    assert len(problems) == 2 and "2.0" in problems[0] and "MIT" in problems[1]


@each_row(
    ("missing", "added", "words"),
    [
        ("", "", None),
        ("LICENSE", "", "lacks LICENSE"),
        ("share/man/man1/drt.1", "", "lacks share"),
        ("", "runs/model.pt", "should not hold runs/model.pt"),
    ],
)
def test_a_source_archive_has_the_tree_and_nothing_else(
    archives: ModuleType, tmp_path: Path, missing: str, added: str, words: str | None
) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name in (*TREE, "PKG-INFO", "drt_assistant.egg-info/SOURCES.txt", added):
            if name not in ("", missing):
                tar.addfile(tarfile.TarInfo(f"drt_assistant-1.0/{name}"), io.BytesIO())
    problems = archives.source_problems(path, TREE)
    assert problems == [] if words is None else words in problems[0]


def test_the_version_has_one_place_and_the_changelog_names_it(archives: ModuleType) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert archives.version(ROOT) == drt.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", drt.__version__), "expected a semantic version"
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert headings[0] == "Unreleased" and drt.__version__ in changelog
    released = [tuple(map(int, heading.split("."))) for heading in headings[1:]]
    assert released == sorted(released, reverse=True)
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", changelog, re.MULTILINE)) <= kinds


def test_a_tree_without_git_keeps_packages_that_have_the_name_of_an_ignored_folder(
    archives: ModuleType, tmp_path: Path
) -> None:
    for name in ("engine/data/schema.py", "tests/data/m/config.json", "data/x.jsonl", "runs/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert archives.tracked_files(tmp_path) == ["engine/data/schema.py", "tests/data/m/config.json"]
