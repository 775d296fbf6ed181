"""The script that measures the code counts what it says it counts."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "measure_code.py"
CODE = '''"""A module."""

from dataclasses import dataclass


@dataclass
class Place:
    """A place."""

    page: int
    line: int
    found: bool


def search(id: int, wanted: str) -> int:
    """Search."""
    # A reason.
    for one in wanted:
        if one:
            return id
        elif id:
            return 0
    try:
        return 1
    except Exception:
        return [many for many in wanted].index("")
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Write a tree with the same module in the engine and in the SDK."""
    engine = ("engine/drt_engine", "engine/drt_lab")
    for folder in ("kernels/drt_kernels", *engine, "sdk/drt", "drt_cli", "tests"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "engine/drt_engine/errors.py").write_text(CODE)
    (tmp_path / "sdk/drt/_types.py").write_text(CODE)
    return tmp_path


def measured(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    runpy.run_path(str(SCRIPT), run_name="__main__")


def row(text: str, title: str) -> list[str]:
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    (cells,) = [cells for cells in table if cells[0] == title]
    return cells[1:]


def test_figures_of_a_small_tree(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(monkeypatch, "--root", str(tree))
    text = capsys.readouterr().out
    engine = 1  # the second column
    assert row(text, "files")[engine] == "2"
    assert row(text, "function, median / p90 / max")[engine] == "12 / 12 / 12"
    assert row(text, "nesting, median / p90 / max")[engine] == "2 / 2 / 2"
    assert row(text, "bare / broad excepts")[engine] == "0 / 1"
    assert row(text, "vague locals per 1,000")[engine] == "750.0 (3 of 4)"
    assert row(text, "vague functions and fields")[engine] == "1"
    assert row(text, "parameters over a builtin")[engine] == "1"
    assert "mirrors 1: Place = Place" in text
    assert "arrows upwards 0" in text and "circles 0" in text


def test_names_are_listed_with_their_lines(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tree / "engine" / "drt_engine" / "errors.py"
    measured(monkeypatch, "--root", str(tree), "--names", str(path))
    text = capsys.readouterr().out
    assert "_types.py" not in text
    for name in ("wanted:15 (parameter)", "one:18 (local)", "found:12 (field)", "id:15 (builtin)"):
        assert name in text
