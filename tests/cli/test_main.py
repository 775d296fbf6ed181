"""The group itself: help in step with its commands, global options, and errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from drt import __version__
from drt_cli.main import COMMANDS, cli, run
from tests.cli.conftest import Drt
from tests.sdk.fakes import FakeEngine
from tests.tables import each_row


def commands(command: click.Command, *names: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below `command`, with its words."""
    yield " ".join(names), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, *names, name)


ALL = dict(commands(cli, "drt"))


@each_row("name", COMMANDS)
def test_the_help_table_is_in_step(name: str) -> None:
    command = ALL[f"drt {name}"]
    assert command.name == name
    assert (command.help or "").split("\n")[0] == COMMANDS[name][1]


def test_every_command_file_is_in_the_table() -> None:
    folder = Path(__file__).parents[2] / "drt_cli" / "commands"
    files = {file.stem for file in folder.glob("*.py")} - {"__init__"}
    assert files == {module for module, _ in COMMANDS.values()}


@each_row("words", ALL)
def test_every_command_and_option_has_help(words: str) -> None:
    command = ALL[words]
    assert command.help
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert [one.name for one in options if not one.help] == []


@each_row("words", [words for words in ALL if words != "drt"])
def test_every_command_takes_the_global_options(words: str) -> None:
    names = {parameter.name for parameter in ALL[words].params}
    assert {"library", "model", "device", "dtype", "threads", "quiet", "debug"} <= names


@pytest.mark.parametrize("before", [True, False])
def test_global_options_stand_before_or_after(
    drt: Drt, engine: FakeEngine, handbook: Path, tmp_path: Path, before: bool
) -> None:
    options = ["--model", "m", "--device", "cpu", "--threads", "2", "--library", tmp_path / "l"]
    options += ["--dtype", "bf16"]
    words = ["ingest", handbook]
    assert drt(*(options + words if before else words + options)).code == 0
    assert engine.loads == [{"model": "m", "device": "cpu", "threads": 2, "dtype": "bf16"}]
    assert (tmp_path / "l").is_dir() and not (tmp_path / "library").exists()


def test_the_later_of_two_global_options_counts(
    drt: Drt, engine: FakeEngine, handbook: Path
) -> None:
    drt("--model", "one", "--threads", "3", "ingest", "--model", "two", handbook)
    assert engine.loads == [{"model": "two", "device": "auto", "threads": 3, "dtype": "auto"}]


@pytest.mark.parametrize("way", ["option", "variable", "setting"])
def test_the_compute_type_can_be_chosen_wherever_the_device_can(
    drt: Drt, engine: FakeEngine, handbook: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    assert drt("ingest", handbook).code == 0
    engine.loads.clear()
    given = ["--dtype", "fp32"] if way == "option" else []
    if way == "variable":
        monkeypatch.setenv("DRT_DTYPE", "fp32")
    if way == "setting":
        assert drt("config", "set", "dtype", "fp32").code == 0
    for words in (
        ["ingest", handbook],
        ["ask", "Which period?"],
        ["summarize", "handbook.txt"],
        ["trace", "Which period?"],
        ["library", "rebuild"],
        ["eval", "ppl", handbook],
        ["bench", "ask"],
    ):
        drt(*words, *given)
        name, *_, options = engine.calls[-1] if words[0] == "bench" else ("", engine.loads[-1])
        assert options["dtype"] == "fp32", words
    assert {load["dtype"] for load in engine.loads} == {"fp32"} and len(engine.loads) == 6


def test_a_commands_own_type_is_not_the_compute_type(
    drt: Drt, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRT_DTYPE", "fp32")
    assert drt("model", "convert", "drt-small-en", tmp_path / "plain").code == 0
    assert engine.calls[-1][-1] == "bf16"


@each_row(
    ("arguments", "words"),
    [
        (["aks"], "did you mean 'ask'?"),
        (["zzz"], "drt --help"),
        (["--threads", "0", "library", "list"], "--threads"),
        (["--device", "tpu", "library", "list"], "--device"),
        (["--dtype", "fp16", "library", "list"], "--dtype"),
        (["ask"], "QUESTION"),
        ([], "Usage"),
    ],
)
def test_wrong_usage_is_2(drt: Drt, arguments: list[str], words: str) -> None:
    result = drt(*arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


def test_version(drt: Drt) -> None:
    result = drt("--version")
    assert (result.code, result.out) == (0, f"drt {__version__}\n")


def test_a_traceback_only_with_debug(drt: Drt, engine: FakeEngine, handbook: Path) -> None:
    engine.raises["ingest"] = ZeroDivisionError("a mistake")
    result = drt("ingest", handbook)
    assert result.code == 1
    assert "ZeroDivisionError" in result.err and "--debug" in result.err
    assert result.err.count("\n") == 1
    with pytest.raises(ZeroDivisionError):
        run(["ingest", str(handbook), "--debug"])


def test_an_operating_systems_refusal_is_a_sentence(
    drt: Drt, engine: FakeEngine, handbook: Path
) -> None:
    engine.raises["load_runtime"] = PermissionError(13, "Permission denied", "/a/place")
    assert drt("ingest", handbook).err == "drt: /a/place: Permission denied.\n"


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="a system without SIGPIPE")
def test_a_closed_pipe_is_quiet() -> None:
    command = [sys.executable, "-m", "drt_cli", "completion", "zsh"]
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end) as closed:
        ended = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGPIPE, b"")
