"""`drt formats`: what can be read, as a table and as JSON, without loading anything heavy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from drt import FormatInfo, formats
from drt_cli.commands.formats import command
from drt_engine.documents import formats as engine


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_the_table_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pypdfium2", "rapidocr"):
        monkeypatch.setitem(sys.modules, module, None)
    lines = shown().splitlines()
    assert lines[0].split() == ["PDF", ".pdf", "extra", "pdf", "(missing)"]
    assert any(line.startswith("Word ") and line.endswith("built in") for line in lines)
    assert lines[-1] == 'Missing: pip install "drt-assistant[ocr,pdf]"'


def test_every_suffix_is_shown_on_demand() -> None:
    assert ".groovy" in shown("--all") and ".groovy" not in shown()


def test_json_twins_the_python_function() -> None:
    found = json.loads(shown("--json"))["formats"]
    assert found == [one.to_dict() for one in formats()]
    names = [one["name"] for one in found]
    assert names[0] == "pdf" and names[-1] == "text" and len(names) >= 14
    assert ".docx" in found[1]["suffixes"]


def test_plug_ins_and_broken_ones_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    good = engine.Format("score", "music", (".score",), "m:R", distribution="score-reader")
    bad = engine.BrokenPlugin("bad", "bad-\x1b[31mreader", "ImportError: no")
    found = engine.Plugins((good,), (bad,))
    monkeypatch.setattr(engine, "plugins", lambda: found)
    monkeypatch.setattr("drt_engine.documents.plugins", lambda: found)
    lines = shown().splitlines()
    assert lines[0].endswith("broken plug-in of bad-\\x1b[31mreader: ImportError: no")
    assert lines[1].split() == ["music", ".score", "plug-in", "of", "score-reader"]
    assert formats()[1] == FormatInfo("score", "music", (".score",), True, plugin="score-reader")


@pytest.mark.thorough
def test_nothing_heavy_is_imported() -> None:
    code = "import sys; from drt_cli.main import run; run(['formats']); print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ended.stdout.split())
    assert "drt_cli.commands.formats" in loaded
    assert not loaded & {
        "torch",
        "tokenizers",
        "numpy",
        "pypdfium2",
        "drt_engine.documents.pdf.reader",
    }
