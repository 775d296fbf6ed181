"""The stages of a folder, and their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.errors import ConfigError
from drt_engine.train.run import stage_paths


def test_stages_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ["1-a.toml", "2-a.toml", "2-b.toml", "10-a.toml", "last.toml"]
    for name in reversed(names):
        (tmp_path / name).touch()
    (tmp_path / "notes.md").touch()
    assert [path.name for path in stage_paths(tmp_path)] == names


def test_a_file_is_its_only_stage(tmp_path: Path) -> None:
    assert stage_paths(tmp_path / "stage.toml") == [tmp_path / "stage.toml"]


def test_a_folder_without_stages_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no \.toml file"):
        stage_paths(tmp_path)
