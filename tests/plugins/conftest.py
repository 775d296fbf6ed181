"""Packages of examples/plugins and broken ones, as if they were installed."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib import invalidate_caches
from pathlib import Path

import pytest

from drt_engine.documents import plugins
from tests.cli.conftest import drt, engine, handbook  # noqa: F401  fixtures

PACKAGES = Path(__file__).parents[2] / "examples" / "plugins"


def distribution(folder: Path, name: str, version: str, points: dict[str, dict[str, str]]) -> None:
    """Write the metadata of an installed distribution."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Installs a package of examples/plugins by its metadata alone."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    before = set(sys.modules)

    def add(name: str) -> None:
        project = tomllib.loads((PACKAGES / name / "pyproject.toml").read_text())["project"]
        distribution(site, name, project["version"], project["entry-points"])
        monkeypatch.syspath_prepend(str(PACKAGES / name))
        invalidate_caches()
        plugins.cache_clear()

    yield add
    plugins.cache_clear()
    for module in set(sys.modules) - before:
        if module.startswith(
            ("drt_reader_", "drt_writer_", "drt_eval_", "drt_command_", "llm_drt")
        ):
            del sys.modules[module]
