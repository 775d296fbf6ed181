"""A fake engine under the SDK, a handbook to read, and an empty library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drt import Assistant, _engine
from tests.sdk.fakes import FakeEngine

HANDBOOK = "The notice period is thirty days. The keeper signs every log.\nSee the annex.\n"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    fake = FakeEngine()
    # setattr would first look the name up, and so import what is replaced
    fake.install(lambda name, value: monkeypatch.setitem(vars(_engine), name, value))
    return fake


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    file = tmp_path / "handbook.txt"
    file.write_text(HANDBOOK, encoding="utf-8")
    return file


@pytest.fixture
def assistant(engine: FakeEngine, tmp_path: Path) -> Iterator[Assistant]:
    with Assistant(tmp_path / "notes.library") as opened:
        yield opened
        if opened.library.exists():
            assert [one for one in opened.library.check() if one.severity == "error"] == []
