"""`drt train` in a process of its own: it trains, resumes, and ends without noise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.engine.train.corpora import ARTICLE, write_corpus
from tests.fakes import byte_tokenizer

STAGE = """
[model]
preset = "drt-tiny"
[start]
tokenizer = "{folder}/tokenizer.json"
[optim]
steps = 1
[stream]
share = 1.0
corpus = ["{corpus}"]
chunks = 2
[run]
out = "{folder}/run"
device = "cpu"
log_every = 1
"""


def train(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "drt_cli", "train", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_training_ends_quietly_and_refuses_another_run(tmp_path: Path) -> None:
    byte_tokenizer().save(tmp_path / "tokenizer.json")
    corpus = write_corpus(tmp_path, ARTICLE)
    stage = tmp_path / "stage.toml"
    stage.write_text(STAGE.format(folder=tmp_path, corpus=corpus), encoding="utf-8")
    first = train(str(stage))
    assert (first.returncode, first.stderr) == (0, "")  # Triton's objects were "leaked" here
    assert first.stdout.splitlines()[-1] == str(tmp_path / "run")
    settings = (tmp_path / "run" / "config.json").read_text()
    other = train(str(stage), "optim.lr=0.1", "optim.steps=2")
    assert other.returncode == 1
    assert other.stderr.count("\n") == 1 and "optim.lr was 0.0003 and is 0.1" in other.stderr
    assert (tmp_path / "run" / "config.json").read_text() == settings
    state = json.loads((tmp_path / "run" / "state" / "state.json").read_text())
    assert state["step"] == 1
