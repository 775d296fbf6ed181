"""`drt doctor` prints a report on one screen, as JSON, and where things are broken."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import drt as sdk
from drt import DoctorCheck, _engine
from tests.cli.conftest import Drt
from tests.cli.test_layout import Terminal
from tests.schemas import validate

SOUND = [
    DoctorCheck("drt", "0.1"),
    DoctorCheck("extras", "none present", "note", "pip install more"),
]
BROKEN = DoctorCheck(
    "self-test", "loading the model failed: it is \x1b[2Jdamaged", "problem", "get it"
)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[DoctorCheck]:
    """What the engine finds; a test may add to it."""
    made = list(SOUND)

    def diagnose(library: Path, **options: Any) -> Iterator[DoctorCheck]:
        yield DoctorCheck("library", str(library))
        yield DoctorCheck("options", repr(options))
        yield from made

    monkeypatch.setattr(_engine, "diagnose", diagnose)
    return made


def test_a_sound_machine(drt: Drt, checks: list[DoctorCheck], tmp_path: Path) -> None:
    result = drt("doctor", "--threads", 3)
    assert result.code == 0
    assert str(tmp_path / "library") in result.out.replace("\n" + " " * 16, "")
    assert "'threads': 3" in " ".join(result.out.split())
    assert "- extras        none present; pip install more\n" in result.out
    assert result.out.endswith("OK\n")


def test_a_broken_machine(drt: Drt, checks: list[DoctorCheck]) -> None:
    checks.append(BROKEN)
    result = drt("doctor")
    assert result.code == 1 and result.out.endswith("Not OK: see the lines marked with !\n")
    assert "! self-test     loading the model failed: it is \\x1b[2Jdamaged; get it" in result.out


def test_the_json_keeps_to_its_schema(drt: Drt, checks: list[DoctorCheck]) -> None:
    for expected in (True, False):
        result = drt("doctor", "--json")
        validate(result.json, sdk.schema("doctor"))
        assert result.json["ok"] is expected and result.code == (0 if expected else 1)
        checks.append(BROKEN)


def test_broken_settings_are_a_line(drt: Drt, checks: list[DoctorCheck], tmp_path: Path) -> None:
    result = drt("doctor", "--json")
    assert "config.toml is not there" in result.json["checks"][-1]["value"]
    (tmp_path / "config.toml").write_text("threads = [")
    result = drt("doctor", "--json")
    check = result.json["checks"][-1]
    assert result.code == 1 and check["status"] == "problem" and "is not TOML" in check["value"]
    (tmp_path / "config.toml").write_text("no-such-setting = 1")
    result = drt("doctor")
    assert result.code == 1 and "! settings" in result.out and "no-such-setting" in result.out


def test_lines_are_wrapped_on_a_terminal_and_whole_in_a_pipe(
    drt: Drt, checks: list[DoctorCheck], monkeypatch: pytest.MonkeyPatch
) -> None:
    checks.append(DoctorCheck("packages", "torch 2.13.0, " * 20))
    monkeypatch.setenv("COLUMNS", "50")
    screen = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", screen)
        drt("doctor")
    lines = screen.getvalue().splitlines()
    first, *further = [line for line in lines if "torch" in line]
    assert further and all(len(line) <= 50 for line in [first, *further])
    assert first.startswith("  packages      torch")
    assert all(line.startswith(" " * 16) for line in further)
    whole = [line for line in drt("doctor").out.splitlines() if "packages" in line]
    assert len(whole) == 1 and whole[0].count("torch") == 20
