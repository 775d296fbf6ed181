"""What need not compute does not import torch, and help imports next to nothing."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forks import Forks

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "tokenizers", "safetensors", "numpy")
REPORT = """
import sys
from drt_cli.main import run
for line in sys.argv[1:]:
    code = run(line.split())
    if code:
        sys.exit(f"{line} ended with {code}")
print("modules:", *sorted(sys.modules), file=sys.stderr)
"""

ANSWERING = """
import sys
from pathlib import Path

from drt_cli.main import run
from tests.model_folder import MANUAL, model_folder

folder = Path(sys.argv[1])
(folder / "manual.md").write_text(MANUAL, encoding="utf-8")
question = "Who keeps the key of the store?"
shared = ["--library", str(folder / "library"), "--model", str(model_folder()), "--quiet"]
for words in (
    ["ingest", str(folder / "manual.md")],
    ["ask", question],
    ["ask", "--mode", "free", "--max-tokens", "3", question],
    ["search", "fog"],
    ["summarize", "manual.md"],
    ["trace", question],
    ["library", "check"],
):
    assert run([*words, *shared]) == 0, words

import drt

with drt.Assistant(folder / "library", model=model_folder()) as assistant:
    if sys.argv[2] == "serving":
        drt.asgi_app(assistant)
assert [name for name in sys.modules if name.startswith("drt_lab")] == []
"""


def modules(library: Path, *lines: str) -> set[str]:
    """The modules that command lines import in a process of their own."""
    ended = subprocess.run(
        [sys.executable, "-c", REPORT, *lines],
        env={**os.environ, "DRT_LIBRARY": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return set(ended.stderr.rpartition("modules: ")[2].split())


def test_no_torch_without_computing(tmp_path: Path) -> None:
    lines = ("--help", "--version", "library list", "session list", "model list", "ask --help")
    assert not set(HEAVY) & modules(tmp_path / "none", *lines)


def test_a_library_with_documents_is_listed_without_torch(tmp_path: Path) -> None:
    from drt_engine.store import Store

    Store.open(tmp_path / "library", create=True).close()
    loaded = modules(tmp_path / "library", "library list")
    assert "drt_engine.store.store" in loaded
    assert not set(HEAVY) & loaded


@pytest.mark.thorough
def test_nothing_that_answers_imports_the_laboratory(tmp_path: Path, forks: Forks) -> None:
    has_server = importlib.util.find_spec("starlette") is not None
    done = forks.run(ANSWERING, tmp_path, "serving" if has_server else "", cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_imports_no_command_and_no_sdk(tmp_path: Path) -> None:
    loaded = modules(tmp_path, "--help")
    ours = {name for name in loaded if name.split(".")[0].startswith("drt")}
    assert ours == {
        "drt_cli",
        "drt_cli._environment",
        "drt_cli._errors",
        "drt_cli._layout",
        "drt_cli._options",
        "drt_cli._text",
        "drt_cli.main",
    }
