"""A helper process with the fake engine, and commands that it runs."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from drt_cli._warm.start import current_helper
from tests.forks import ROOT, Fork, Forks

# A question "wait" is never answered; "die" kills the process that should answer it.
FAKES = """
import os, signal, sys, time
from drt import _engine
from drt_cli._warm import helper
from tests.sdk.fakes import FakeEngine
fake = FakeEngine()
fake.install(vars(_engine).__setitem__)
_engine.preload, helper._rehearse = (lambda *_, **__: None), (lambda _: None)
def ask(runtime, store, question, **rest):
    if "wait" in question:
        print("working", flush=True)
        time.sleep(60)
    if "die" in question:
        print("so far", flush=True)
    if "die" in question or "gone" in question:
        os.kill(os.getpid(), signal.SIGKILL if "killed" in question else signal.SIGSEGV)
    return answer(runtime, store, question, **rest)
answer, _engine.ask = _engine.ask, ask
"""
HELPER = f"{FAKES}\nfrom drt_cli._warm.helper import main\nmain()\n"
COMMAND = """
import sys
from drt_cli.main import main
sys.argv[0] = "drt"
main()
"""
IN_PROCESS = f"{FAKES.replace('SIGSEGV', 'SIGCONT')}\n{COMMAND}"
SETTINGS = {"model": "m", "device": "auto", "dtype": "auto", "idle_minutes": 10.0}


@dataclass
class Warm:
    """Processes that share a state folder and a library."""

    forks: Forks
    variables: dict[str, str]
    folder: Path
    started: list[Fork] = field(default_factory=list)

    def helper(self, **settings: Any) -> Fork:
        """Start a helper, and return it when it accepts commands."""
        process = self.started_helper(HELPER, **settings)
        until(lambda: (info := current_helper()) is not None and info.ready)
        return process

    def started_helper(self, code: str, **settings: Any) -> Fork:
        """Start a helper by ``code``, and return it at once."""
        options = json.dumps(SETTINGS | settings)
        process = self.forks.start(code, options, variables=self.variables)
        self.started.append(process)
        return process

    def start(self, *arguments: object, code: str = COMMAND, **options: Any) -> Fork:
        """Start a command that may use the helper."""
        cwd = options.pop("cwd", self.folder)
        words = map(str, arguments)
        process = self.forks.start(code, *words, variables=self.variables | options, cwd=cwd)
        self.started.append(process)
        return process

    def run(
        self, *arguments: object, code: str = COMMAND, stdin: str = "", **options: Any
    ) -> tuple[int, str, str]:
        """Run a command to its end; return its exit code and both outputs."""
        process = self.start(*arguments, code=code, **options)
        process.stdin.write(stdin)
        process.stdin.close()
        out, err = process.communicate()
        assert process.returncode is not None
        return process.returncode, out, err

    def real(self, *arguments: object, code: str) -> subprocess.CompletedProcess[str]:
        """Run code in a process that has imported nothing."""
        environment = {**os.environ, **self.variables}
        return subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of this process and of those that it starts."""
    folder = tmp_path / "state"
    monkeypatch.setenv("DRT_STATE_DIR", str(folder))
    return folder


@pytest.fixture
def warm(state: Path, tmp_path: Path, forks: Forks) -> Iterator[Warm]:
    variables = {
        "DRT_STATE_DIR": str(state),
        "DRT_LIBRARY": str(tmp_path / "library"),
        "DRT_CONFIG_FILE": str(tmp_path / "config.toml"),
        "DRT_WARM": "on",
    }
    (tmp_path / "a.txt").write_text("The notice period is thirty days. The keeper signs it.\n")
    warm = Warm(forks, variables, tmp_path)
    yield warm
    helper = current_helper()
    if helper is not None:
        os.kill(helper.pid, 15)
        until(lambda: current_helper() is None)
    for process in warm.started:
        with contextlib.suppress(ValueError), process:  # its streams may be closed
            pass
