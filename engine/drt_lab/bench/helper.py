"""The helper process of the command line, started for a benchmark in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from drt_engine.errors import ConfigError
from drt_engine.runtime import Runtime
from drt_lab.bench.parts import BenchOptions, ProcessTimes, environment, run_process

_PATIENCE = 120.0  # seconds to load a model


@dataclass(frozen=True)
class Helper:
    """A helper with the model in memory, and the command line that uses it."""

    command: list[str]
    variables: dict[str, str]

    @classmethod
    @contextlib.contextmanager
    def started(
        cls, options: BenchOptions, runtime: Runtime, library: Path
    ) -> Iterator[Helper | None]:
        """Start a helper for the block; None where the system or the device has none."""
        if sys.platform != "linux" or runtime.device.type != "cpu":
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="drt-state-") as state:
            command = options.command(runtime, library, "--warm", "on")
            helper = cls(command, {"DRT_STATE_DIR": state, "DRT_CONFIG_FILE": f"{state}/none"})
            helper._start()
            try:
                yield helper
            finally:
                helper._run("stop")

    def ask(self, question: str) -> ProcessTimes:
        """Ask in the helper."""
        return run_process([*self.command, "ask", question], self.variables)

    def _start(self) -> None:
        self._run("start")
        deadline = time.monotonic() + _PATIENCE
        while not (json.loads(self._run("status", "--json"))["helper"] or {}).get("ready"):
            if time.monotonic() > deadline:
                raise ConfigError(f"no helper process is ready after {_PATIENCE:.0f} seconds")
            time.sleep(0.2)

    def _run(self, *words: str) -> str:
        return subprocess.run(
            [*self.command, "warm", *words],
            env={**environment(), **self.variables},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
