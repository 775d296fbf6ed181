"""The model that a helper has in memory: only as long as its files are as they were."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drt_engine import preloaded
from drt_engine.model.folder import model_folder

OPTIONS = {"device": "cpu", "dtype": "fp32"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model folder that is in memory, in name."""
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    monkeypatch.setattr(preloaded, "_preloaded", None)
    monkeypatch.setattr(preloaded, "_missed", False)
    loaded = SimpleNamespace(load=lambda *_, **__: "the runtime")
    monkeypatch.setattr(preloaded, "Runtime", loaded)
    preloaded.preload(tmp_path, **OPTIONS)
    return tmp_path


def take(folder: Path, **changes: Any) -> Any:
    return preloaded.take(folder, **{**OPTIONS, **changes})


def test_the_same_model_is_taken_as_often_as_one_likes(folder: Path) -> None:
    assert [take(folder), take(folder)] == ["the runtime"] * 2
    assert not preloaded.was_missed()


def _replaced(folder: Path) -> None:
    (folder / "new").write_text("{}")
    status = (folder / "config.json").stat()
    os.utime(folder / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
    (folder / "new").rename(folder / "config.json")


CHANGES: list[Callable[[Path], object]] = [
    lambda folder: (folder / "config.json").write_text("{} "),
    lambda folder: os.utime(folder / "model.safetensors", (1, 1)),
    lambda folder: (folder / "packed.safetensors").touch(),
    lambda folder: (folder / "model.safetensors").unlink(),
    _replaced,  # with the time and the size of the file before
]


@pytest.mark.parametrize("change", CHANGES, ids=["longer", "older", "one more", "gone", "replaced"])
def test_a_changed_model_is_loaded_anew(folder: Path, change: Callable[[Path], object]) -> None:
    change(folder)
    assert take(folder) is None and preloaded.was_missed()


@pytest.mark.parametrize("changes", [{"device": "cuda"}, {"dtype": "bf16"}], ids=str)
def test_another_device_or_type_is_another_model(folder: Path, changes: dict[str, str]) -> None:
    assert take(folder, **changes) is None and preloaded.was_missed()
    assert preloaded.take(model_folder("drt-small-en"), **OPTIONS) is None
