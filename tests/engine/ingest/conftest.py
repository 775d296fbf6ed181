"""An empty library, a manual to read, and a count of what is computed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drt_engine.store import Store
from tests.engine.ingest.counted import Counted
from tests.model_folder import MANUAL, library


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with library(tmp_path / "library") as opened:
        yield opened


@pytest.fixture
def manual(tmp_path: Path) -> Path:
    file = tmp_path / "manual.md"
    file.write_text(MANUAL, encoding="utf-8")
    return file


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)
