"""Damaged documents: every reader answers with text or a sentence, quickly, and never crashes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drt_engine.documents import Source, open_document
from drt_engine.documents.formats import BUILT_IN, PICTURE
from drt_engine.errors import DocumentError
from tests.engine.documents import fuzz
from tests.sampling import sampled

NAMES = [one.name for one in BUILT_IN if one.name != PICTURE]  # which another library reads
ROOT = Path(__file__).parents[3]


def run(count: int, seed: int, *names: str) -> None:
    """Fuzz in a process of its own, since a crash is what is looked for."""
    if importlib.util.find_spec("pypdfium2") is None:
        names = tuple(name for name in names if name != "pdf")
    path = os.pathsep.join([str(ROOT), *(entry for entry in sys.path if entry)])
    ended = subprocess.run(
        [sys.executable, "-m", "tests.engine.documents.fuzz", str(count), str(seed), *names],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
        check=False,
    )
    last = ended.stdout.splitlines()[-1:]
    assert (ended.returncode, last) == (0, ["done"]), (last, ended.stderr[-2000:])


@pytest.mark.thorough
def test_no_reader_breaks() -> None:
    run(15, 1, *NAMES)


@pytest.mark.stress
@pytest.mark.parametrize("name", NAMES)
def test_no_reader_breaks_on_twenty_thousand(name: str) -> None:
    run(20_000, 2, name)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sampled(["pdf", "docx", "epub", "html", "email"], {0, 1}))
def test_the_parent_survives_what_the_child_reads(name: str, tmp_path: Path) -> None:
    if name == "pdf":
        pytest.importorskip("pypdfium2")
    file, data = fuzz.originals(name)[0]
    for cut in (len(data) // 3, len(data) // 2):
        (tmp_path / file).write_bytes(data[:cut] + b"\xff\0<&" + data[cut + 40 :])
        try:
            document = open_document(Source.from_path(tmp_path / file))
            assert all(block.text for block in document.blocks)
        except DocumentError as error:
            assert str(error).startswith(str(tmp_path / file))
