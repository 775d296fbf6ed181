"""Command lines run in this process, with a real engine and a tiny model."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from drt_cli.main import run
from tests.model_folder import LETTERS, MANUAL, model_folder


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one line of an error, which is all that is said."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("drt: ") and "a mistake of the program" not in lines[0]
        assert "Traceback" not in self.err
        return lines[0]


Drt = Callable[..., Result]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The library's folder."""
    return tmp_path / "library"


@pytest.fixture
def drt(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Drt:
    """Runs `drt ARGUMENTS` on a library of its own, with bytes for its standard input."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setenv("DRT_STATE_DIR", str(place.with_name("state")))
    monkeypatch.setenv("DRT_CONFIG_FILE", str(place.with_name("config.toml")))

    def call(*arguments: object, stdin: bytes = b"", model: Path | None = None) -> Result:
        options = ["--library", place, "--model", model or model_folder(), "--device", "cpu"]
        options += ["--threads", 1, "--quiet", "--lock-timeout", 0.2]
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            code = run([str(word) for word in [*options, *arguments]])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def manual(tmp_path: Path) -> Path:
    return _file(tmp_path / "manual.md", MANUAL)


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    return _file(tmp_path / "letters.txt", LETTERS)


def _file(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
