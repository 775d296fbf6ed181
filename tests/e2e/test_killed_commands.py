"""Commands that are killed at random moments lose nothing, beside a process that reads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.killed_commands import READ, SECONDS, Process, Start, Trial
from tests.forks import ROOT, Forks
from tests.model_folder import model_folder, runtime

COMMAND = """
import faulthandler
import sys
faulthandler.enable(sys.stderr)
from drt_cli.main import main
sys.argv[0] = "drt"
main()
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="moments are in /proc")


def forked(forks: Forks, words: Sequence[str], **variables: str) -> Process:
    return forks.start(COMMAND, *words, variables=variables)


def executed(words: Sequence[str], **variables: str) -> Process:
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", "drt_cli", *words],
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed(forks: Forks, folder: Path, start: Start, *, kills: int, seed: int) -> Counter[str]:
    """Kill commands beside a process that reads; return the counts of both."""
    folder.mkdir()
    models = {runtime(seed=i).fingerprint: model_folder(seed=i) for i in range(2)}
    trial = Trial(folder, start, models, seed=seed)
    stop = folder / "stop"
    reader = forks.start(READ, stop, trial.path, trial.list, cwd=ROOT)
    try:
        counts = trial.run(kills=kills)
    finally:
        print(trial.counts)
        stop.touch()
        out, err = reader.communicate(SECONDS)
    assert err == "" and reader.returncode == 0, err
    refused, *odd = out.splitlines()
    assert odd == []
    return counts + Counter({"the reader was refused": int(refused)})


@pytest.mark.thorough
def test_commands_are_killed(forks: Forks, tmp_path: Path) -> None:
    start = partial(forked, forks, DRT_STATE_DIR=str(tmp_path / "state"))
    assert killed(forks, tmp_path / "trial", start, kills=20, seed=2)["killed"] == 20


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(3))
def test_processes_of_commands_are_killed(forks: Forks, tmp_path: Path, seed: int) -> None:
    start = partial(executed, DRT_STATE_DIR=str(tmp_path / "state"))
    assert killed(forks, tmp_path / "trial", start, kills=60, seed=seed)["killed"] == 60
