"""A library that must still be whole when its test ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from drt_engine.store import Store
from tests.engine.store.helpers import errors, open_store


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a power cut would tell the difference; killed writers run in their own process."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return tmp_path / "test.library"


@pytest.fixture
def store(library: Path) -> Iterator[Store]:
    with open_store(library) as opened:
        yield opened
        assert errors(opened) == []
