"""The helper with the shipped model: started by a command, and equal to the own process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drt_cli._warm.start import current_helper
from tests.cli.warm.conftest import COMMAND, Warm, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.exists("/proc/self/ns"), reason="Linux only"),
]


def test_a_command_starts_it_and_the_next_answers_alike(warm: Warm, tmp_path: Path) -> None:
    code = f"import os; os.chdir({str(tmp_path)!r}){COMMAND}"
    question = ("ask", "How long is the notice period?")
    first = warm.real(*question, "a.txt", code=code)
    assert first.returncode == 0 and "thirty days" in first.stdout
    until(lambda: (info := current_helper()) is not None and info.ready, 120)
    result = warm.real(*question, code=code)
    assert (result.stdout, result.stderr) == (first.stdout, first.stderr)
    # What another process reads meanwhile is there for the next question.
    (tmp_path / "b.txt").write_text("The harbour master is called Ines Falk.\n")
    assert warm.real("--warm", "off", "ingest", "b.txt", code=code).returncode == 0
    result = warm.real("ask", "Who is the harbour master?", code=code)
    assert "Ines Falk" in result.stdout
    # Another type to compute in is another model, and replaces it.
    result = warm.real("--dtype", "bf16", *question, code=code)
    assert result.returncode == 0 and "thirty days" in result.stdout
    until(lambda: (info := current_helper()) is not None and info.dtype == "bf16", 60)
