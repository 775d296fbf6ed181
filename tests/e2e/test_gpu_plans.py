"""``examples/gpu.sh`` rehearsed on a CPU with tiny configurations, its weights and its pieces."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from drt_engine.decoder.saved import save_decoder
from tests.engine.decoder.tiny import tiny_decoder, tiny_tokenizer
from tests.lab.study.tiny_study import write_study
from tests.lab.train.decoder.test_decoder_training import write_data

ROOT = Path(__file__).parents[2]
SCRIPT = "examples/gpu.sh"

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("sh", "git", "timeout", "xz"))), reason="needs sh, git, timeout, xz"
)


def script(plan: str, folder: Path, root: Path = ROOT, **settings: object) -> tuple[int, str]:
    """Run the script; return its exit code and all that it printed."""
    environment = {**os.environ, **{name: str(value) for name, value in settings.items()}}
    done = subprocess.run(
        ["sh", SCRIPT, plan, str(folder)],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    return done.returncode, done.stdout + done.stderr


def write_decoder(folder: Path) -> Path:
    """Write the configuration of a tiny decoder, its start and its data."""
    write_data(folder)
    save_decoder(tiny_decoder(), tiny_tokenizer(), folder / "start", dtype=torch.float32)
    values = {
        "run": str(folder / "runs" / "decoder"),
        "start": str(folder / "start"),
        "questions": [str(folder / "qa.jsonl")],
        "documents": [str(folder / "docs.jsonl")],
        "steps": 9,
        "reading_steps": 0,
        "batch": 4,
        "held_out": 1,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    file = folder / "decoder.toml"
    file.write_text("[decoder]\n" + "\n".join(lines) + "\n")
    return file


def test_a_plan_that_there_is_not(tmp_path: Path) -> None:
    code, said = script("everything", tmp_path)
    assert code == 2 and "PLAN is 'everything', expected decoder, table1, speed" in said


def test_a_decoder_without_configuration(tmp_path: Path) -> None:
    code, said = script("decoder", tmp_path, DEVICE="cpu", DECODER=tmp_path / "none")
    assert code == 1 and "none does not exist, expected its configuration" in said


@pytest.mark.thorough
def test_light_takes_out_what_git_has_and_no_changes(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / SCRIPT, tmp_path / SCRIPT)
    for name in ("weights.bin", "changed.bin"):
        (tmp_path / name).write_bytes(os.urandom(6 << 20))
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "changed.bin").write_bytes(os.urandom(6 << 20))
    code, said = script("light", tmp_path / "gpu", root=tmp_path)
    assert code == 0 and "took out weights.bin (6 MiB)" in said and "left changed.bin" in said
    assert not (tmp_path / "weights.bin").exists() and (tmp_path / "changed.bin").exists()
    subprocess.run([*git, "checkout", "--", "weights.bin"], cwd=tmp_path, check=True)
    assert (tmp_path / "weights.bin").stat().st_size == 6 << 20


@pytest.mark.slow
def test_all_plans_in_little_time(tmp_path: Path) -> None:
    folder = tmp_path / "gpu"
    settings: dict[str, Any] = {
        "DEVICE": "cpu",
        "DECODER": write_decoder(tmp_path),
        "TABLE1": write_study(tmp_path),
        "SECONDS_LIMIT": 3000,  # of a busy machine; it takes one to two minutes
        "MOST_STEPS": 6,
        "STEPS": "train",
        "SHAPE": "small",
        "TOKENS": 256,
    }
    code, said = script("all", folder, **settings)
    steps = (folder / "steps.txt").read_text()
    assert code == 0, said
    for name in ("decoder", "table1", "speed"):
        assert f"{name}: code 0" in steps, said
    assert (folder / "table1.json").exists() and "| DRT |" in (folder / "table1.md").read_text()
    assert (folder / "decoder.jsonl").read_text().count("\n") > 0
    assert "train, " in (folder / "speed" / "page.txt").read_text()
    # The pieces are the model that the training has written.
    assert script("join", folder)[0] == 0
    name = "model.safetensors"
    written = (tmp_path / "runs" / "decoder" / "model" / name).read_bytes()
    assert (folder / "decoder" / name).read_bytes() == written
    # Again: what is done is not trained again.
    assert script("decoder", folder, **settings)[0] == 0
    rows = (folder / "decoder.jsonl").read_text().splitlines()
    assert max(json.loads(row)["step"] for row in rows) == 6
