"""Builds the source archive and the wheel, and checks what is in them.

Run it with a Python that has the package ``build``, as ``python .ci/archives.py FOLDER``: the two
archives are in FOLDER afterwards. It fails where the wheel lacks a file or has one that does not
belong there, where the source archive is not enough to build the same wheel, and where a second
build, from another folder, gives other bytes.
"""

from __future__ import annotations

import email
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Package: its folder in the source tree.
PACKAGES = {
    "drt_kernels": "kernels/drt_kernels",
    "drt_engine": "engine/drt_engine",
    "drt_lab": "engine/drt_lab",
    "drt": "sdk/drt",
    "drt_cli": "drt_cli",
}
SHARED = "share"  # installed below the environment's own share/
# What a program without its source tree cannot do without, besides modules.
NEEDED = (
    "drt/py.typed",
    "drt/_server/page/*",
    "drt_engine/store/FORMAT.md",
    "drt_engine/trace/page.*",
    "drt_engine/weights/*/*",
    "drt_engine/weights/*/decoder/*",
    "drt_kernels/*/README.md",
)
# What the source archive has besides the packages.
SOURCES = ("CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", "docs", "examples", "tests")
LARGEST = 180_000_000  # bytes of a wheel: PyPI takes more than 100 MB where it is asked to
JUNK = re.compile(
    r"(^|/)(__pycache__|\.git|\.venv)/|^(runs|data|build|dist)/|\.py[cod]$|\.(tmp|part)$"
)


def version(tree: Path) -> str:
    """Return the version of a source tree, from the one place that has it."""
    text = (tree / "sdk/drt/_version.py").read_text(encoding="utf-8")
    return re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]


def tracked_files(tree: Path) -> list[str]:
    """Return the files of a tree that are the project's: all that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=tree, capture_output=True, check=False)
    if listed.returncode == 0:
        names = listed.stdout.decode().split("\0")
        return sorted(name for name in names if name and (tree / name).is_file())
    every = (path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file())
    return sorted(name for name in every if not JUNK.search(name))


def copy_tree(tree: Path, target: Path, names: Iterable[str]) -> Path:
    """Copy files, with the modes of a fresh clone, so that nothing built before can help."""
    for name in names:
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tree / name, place)
        place.chmod(0o755 if os.access(tree / name, os.X_OK) else 0o644)
    return target


def build(tree: Path, target: Path, *options: str) -> None:
    """Run ``python -m build`` on a tree."""
    command = [sys.executable, "-m", "build", "--outdir", str(target), *options, str(tree)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"archives: {' '.join(command)} failed:\n{ended.stdout}{ended.stderr}")


def wheel_names(names: Iterable[str]) -> set[str]:
    """Return what a wheel of these files of the tree should hold, its own records excepted."""
    expected = {name for name in names if name.startswith(f"{SHARED}/")}
    for package, folder in PACKAGES.items():
        inside = [name for name in names if name.startswith(f"{folder}/")]
        expected |= {
            package + name.removeprefix(folder)
            for name in inside
            if name.endswith(".py") or _is_needed(package + name.removeprefix(folder))
        }
    return expected


def _is_needed(name: str) -> bool:
    return any(Path(name).match(pattern) for pattern in NEEDED)


def wheel_problems(wheel: Path, names: Iterable[str], *, version: str) -> list[str]:
    """Return what is wrong with a wheel made of these files of the tree."""
    with zipfile.ZipFile(wheel) as archive:
        present = {name for name in archive.namelist() if not name.endswith("/")}
        records = {name for name in present if ".dist-info/" in name}
        metadata = [name for name in records if name.endswith(".dist-info/METADATA")]
        about = email.message_from_bytes(archive.read(metadata[0]) if metadata else b"")
    content = {_installed_name(name) for name in present - records}
    expected = wheel_names(names)
    problems = [f"the wheel lacks {name}" for name in sorted(expected - content)]
    problems += [f"the wheel should not hold {name}" for name in sorted(content - expected)]
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in records):
        problems.append("the wheel lacks the licence")
    size = wheel.stat().st_size
    if size > LARGEST:
        problems.append(f"the wheel has {size:,} bytes, expected at most {LARGEST:,}")
    for key, value in (("Version", version), ("License-Expression", "Apache-2.0")):
        if about[key] != value:
            problems.append(f"the wheel's {key} is {about[key]}, expected {value}")
    return problems


def _installed_name(name: str) -> str:
    """Return a name below ``*.data/data/``, where wheels keep what goes to share/, without it."""
    return re.sub(r"^[^/]+\.data/data/", "", name)


def source_problems(archive: Path, names: Iterable[str]) -> list[str]:
    """Return what is wrong with a source archive made of these files of the tree."""
    with tarfile.open(archive) as tar:
        present = {member.name.partition("/")[2] for member in tar if member.isfile()}
    wanted = (*SOURCES, SHARED, *PACKAGES.values())
    expected = {
        name for name in names if any(name == one or name.startswith(f"{one}/") for one in wanted)
    }
    problems = [f"the source archive lacks {name}" for name in sorted(expected - present)]
    made = re.compile(r"(^|/)[\w-]+\.egg-info/|^(PKG-INFO|setup\.cfg)$")  # by setuptools
    unknown = sorted(name for name in present - set(names) if not made.search(name))
    return problems + [f"the source archive should not hold {name}" for name in unknown]


def only(folder: Path, pattern: str) -> Path:
    """Return the one file of a folder that fits a pattern."""
    (path,) = folder.glob(pattern)
    return path


def main() -> None:
    """Build, check, and leave the two archives in a folder."""
    target = Path(sys.argv[1]).resolve()
    names = tracked_files(ROOT)
    os.umask(0o022)
    # The time stamp of all files in the wheel; any fixed one gives the same bytes again.
    os.environ.setdefault("SOURCE_DATE_EPOCH", "1735689600")
    with tempfile.TemporaryDirectory() as folder:
        first = copy_tree(ROOT, Path(folder) / "first", names)
        second = copy_tree(ROOT, Path(folder) / "a longer name for the second", names)
        with ThreadPoolExecutor(2) as pool:
            builds = [
                pool.submit(build, first, target),  # the source archive, and the wheel from it
                pool.submit(build, second, Path(folder) / "again", "--wheel"),  # from the tree
            ]
        for each in builds:
            each.result()
        wheel, again = only(target, "*.whl"), only(Path(folder) / "again", "*.whl")
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (wheel, again)]
    problems = wheel_problems(wheel, names, version=version(ROOT))
    problems += source_problems(only(target, "*.tar.gz"), names)
    if digests[0] != digests[1]:
        problems.append("the wheel of the source archive and that of the tree are not the same")
    if problems:
        sys.exit("\n".join(f"archives: {problem}" for problem in problems))
    size = wheel.stat().st_size / 1e6
    print(f"archives: {wheel.name}, {size:.1f} MB, sha256 {digests[0]}, the same bytes twice")


if __name__ == "__main__":
    main()
