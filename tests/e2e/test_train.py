"""`drt train` in a process of its own: it trains, resumes, and ends without noise."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.conftest import Drt
from tests.fakes import byte_tokenizer
from tests.forks import Forks
from tests.lab.train.corpora import ARTICLE, write_corpus

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


@pytest.mark.slow  # .ci/run trains by commands, too
def test_training_reports_on_stderr_and_refuses_another_run(
    tmp_path: Path, drt: Drt, forks: Forks
) -> None:
    byte_tokenizer().save(tmp_path / "tokenizer.json")
    corpus = write_corpus(tmp_path, ARTICLE)
    stage = tmp_path / "stage.toml"
    stage.write_text(STAGE.format(folder=tmp_path, corpus=corpus), encoding="utf-8")
    main = "from drt_cli.__main__ import main; main()"
    first = forks.run(main, "train", stage, taken_apart=True)
    assert (first.returncode, first.stdout) == (0, f"{tmp_path / 'run'}\n")
    # Progress and nothing else: Triton's objects were once reported as leaked here.
    tokenising, step = first.stderr.splitlines()
    assert tokenising.startswith(f"tokenising {corpus} into ")
    assert re.fullmatch(r"step=1 lm=\S+ norm=\S+ lr=\S+ seconds=\S+", step)
    settings = (tmp_path / "run" / "config.json").read_text()
    refused = drt("train", stage, "optim.lr=0.1", "optim.steps=2")
    assert (refused.code, refused.out) == (1, "")
    assert "optim.lr was 0.0003 and is 0.1" in refused.sentence
    assert (tmp_path / "run" / "config.json").read_text() == settings
    state = json.loads((tmp_path / "run" / "state" / "state.json").read_text())
    assert state["step"] == 1
