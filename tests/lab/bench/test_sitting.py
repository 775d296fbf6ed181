"""Rows of a long benchmark are kept as they are done, and are not measured again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drt_engine.errors import ConfigError
from drt_lab.bench.sitting import Sitting
from drt_lab.evaluate.report import bench_row
from tests.forks import Forks
from tests.tables import each_row

BASE = bench_row("base, a token", [2.0], unit="ms")
DRT = bench_row("DRT, a token", [3.0], unit="ms", against="base, a token", against_values=[2.0])

ADDING = """
import sys
from pathlib import Path
from drt_lab.bench.sitting import Sitting
from tests.lab.bench.test_sitting import BASE
sitting = Sitting(Path(sys.argv[1]), {}, minutes=None)
print("ready", flush=True)
sys.stdin.readline()
for number in range(10):
    sitting.add(f"{sys.argv[2]}{number}", [BASE])
"""


def test_what_is_measured_is_there_in_the_next_sitting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.json"
    first = Sitting(file, {"threads": 1}, minutes=None)
    assert first.measured("token") is None and first.seconds_left == float("inf")
    first.add("token", [BASE, DRT])
    assert capsys.readouterr().err.splitlines()[1] == "DRT, a token: 3 ms, 1.500 of base, a token"
    assert Sitting(file, {"threads": 1}, minutes=1).measured("token") == [BASE, DRT]
    assert f"(from {file})" in capsys.readouterr().err
    other = Sitting(file, {"threads": 2}, minutes=1)  # another setting
    assert other.measured("token") is None
    other.add("token", [BASE])
    assert Sitting(file, {"threads": 1}, minutes=1).measured("token") == [BASE, DRT]
    assert 0 < other.seconds_left <= 60


@pytest.mark.thorough
def test_two_sittings_at_the_same_time_lose_no_rows(tmp_path: Path, forks: Forks) -> None:
    file = tmp_path / "rows.json"
    sittings = [forks.start(ADDING, file, name) for name in "ab"]
    for sitting in sittings:
        assert sitting.stdout.readline() == "ready\n"
    for sitting in sittings:
        sitting.stdin.write("go\n")
        sitting.stdin.flush()
    for sitting in sittings:
        _, err = sitting.communicate()
        assert sitting.returncode == 0, err
    units = [entry["unit"] for entry in json.loads(file.read_text())["units"]]
    assert sorted(units) == sorted(f"{name}{number}" for name in "ab" for number in range(10))
    # One that began before the others sees what they measured.
    assert Sitting(file, {}, minutes=None).measured("b9") == [BASE]


@each_row("text", ["", "[]", '{"units": [{"unit": "x"}]}', '{"units": 3}'])
def test_a_file_of_something_else_is_left_alone(text: str, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"notes.txt holds no rows of a benchmark .*another file"):
        Sitting(file, {}, minutes=None)
    assert file.read_text() == text


def test_a_row_with_unknown_keys_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    Sitting(file, {}, minutes=None).add("token", [BASE])
    data = json.loads(file.read_text())
    data["units"][0]["rows"][0]["mean"] = 1.0
    file.write_text(json.dumps(data))
    with pytest.raises(ConfigError, match="mean"):
        Sitting(file, {}, minutes=None)
