"""What need not compute does not import torch, and help imports next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
