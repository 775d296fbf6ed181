"""A library that the questions of ``asking.py`` are asked of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drt_engine.store import Store
from tests.engine.answer.asking import PAGE
from tests.model_folder import LETTERS, MANUAL, library, read_text


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("ask")
    with library(folder / "library") as opened:
        read_text(opened, folder, name="manual.md", text=MANUAL)
        read_text(opened, folder, name="letters.txt", text=LETTERS)
        read_text(opened, folder, name="page.html", text=PAGE)
        yield opened
