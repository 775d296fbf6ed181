"""``examples/gpu.sh`` rehearsed on a CPU with tiny configurations, its weights and its pieces."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lab.study.tiny_study import write_study

ROOT = Path(__file__).parents[2]
SCRIPT = "examples/gpu.sh"

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("sh", "git", "timeout", "xz"))), reason="needs sh, git, timeout, xz"
)

STAGE = """
[model]
preset = "drt-tiny"
{start}
[optim]
steps = {steps}
[passkey]
share = 1.0
symbols = 48
chunks = [5]
batch = 2
[run]
out = "{out}"
bf16 = false
log_every = 2
"""


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
    """Write two stages, the second from the first one's model."""
    stages = folder / "decoder-stages"
    stages.mkdir()
    start = f'[start]\nmodel = "{folder}/runs/1/model"\n'
    first = STAGE.format(start="", steps=4, out=folder / "runs" / "1")
    (stages / "1-read.toml").write_text(first)
    second = STAGE.format(start=start, steps=12, out=folder / "runs" / "2")
    (stages / "2-choose.toml").write_text(second)
    return stages


def test_a_plan_that_there_is_not(tmp_path: Path) -> None:
    code, said = script("everything", tmp_path)
    assert code == 2 and "PLAN is 'everything', expected decoder, table1, speed" in said


def test_a_decoder_without_configuration(tmp_path: Path) -> None:
    code, said = script("decoder", tmp_path, DEVICE="cpu", DECODER=tmp_path / "none")
    assert code == 1 and "none does not exist, expected its stages" in said


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
    settings = {
        "DEVICE": "cpu",
        "DECODER": write_decoder(tmp_path),
        "TABLE1": write_study(tmp_path),
        "SECONDS_LIMIT": 3000,  # of a busy machine; it takes one to two minutes
        "MOST_STEPS": 6,
        "WORKERS": 0,
        "STEPS": "train",
        "SHAPE": "small",
        "TOKENS": 256,
    }
    code, said = script("all", folder, **settings)
    steps = (folder / "steps.txt").read_text()
    assert code == 0, said
    for name in ("decoder-1-read", "decoder-2-choose", "table1", "speed"):
        assert f"{name}: code 0" in steps, said
    assert (folder / "table1.json").exists() and "| DRT |" in (folder / "table1.md").read_text()
    assert (folder / "decoder-2-choose.jsonl").read_text().count("\n") > 0
    assert "train, " in (folder / "speed" / "page.txt").read_text()
    # The pieces are the model that the last stage has written.
    assert script("join", folder)[0] == 0
    name = "model.safetensors"
    written = (tmp_path / "runs" / "2" / "model" / name).read_bytes()
    assert (folder / "decoder" / name).read_bytes() == written
    # Again: stages that are done are not trained again.
    again = script("decoder", folder, **settings)[1]
    assert again.count("decoder-1-read: code 0") == 1
