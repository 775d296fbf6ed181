"""Command lines run in this process against a fake engine, a library of their own, and files."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from drt import _engine
from drt_cli.main import run
from tests.sdk.fakes import FakeEngine

HANDBOOK = "The notice period is thirty days. The keeper signs every log.\nSee the annex.\n"


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Drt = Callable[..., Result]


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
def drt(
    engine: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Drt:
    """Runs `drt ARGUMENTS` with text for its standard input; nothing here is a terminal."""
    monkeypatch.setenv("DRT_LIBRARY", str(tmp_path / "library"))
    monkeypatch.setenv("DRT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("DRT_CONFIG_FILE", str(tmp_path / "config.toml"))

    def call(*arguments: object, stdin: str = "") -> Result:
        with monkeypatch.context() as patch:
            typed = io.BytesIO(stdin.encode(errors="surrogateescape"))
            patch.setattr(sys, "stdin", io.TextIOWrapper(typed))
            code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call
