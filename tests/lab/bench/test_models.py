"""`drt bench models`: every model of the paper beside the base LM."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from drt_engine.config.model import EncoderConfig, preset
from drt_lab.bench import models
from drt_lab.bench.parts import BenchOptions, Machine
from drt_lab.bench.run import bench
from tests.log_records import Records

TINY = {
    "width": 16,
    "heads": 2,
    "kv_heads": 2,
    "mlp": 24,
    "lower_layers": 1,
    "upper_layers": 2,
    "chunk": 8,
    "retrieved": 4,
    "window": 16,
    "state_tokens": 4,
    "vocab": 64,
    "encoder": EncoderConfig(layers=1, heads=2, mlp=24, positions=16),
}


pytestmark = pytest.mark.slow  # sixteen models; .ci/exercise.py runs them, too


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, object]]:
    """The rows of two lengths at a tiny shape, by name."""
    options = {"tokens": 256, "repetitions": 1, "device": "cpu", "threads": 1}
    with mock.patch.object(models, "_SMALL", TINY), mock.patch.object(models, "SHORTEST", 64):
        return {row["name"]: row for row in bench("models", options)["rows"]}


def test_every_model_has_its_rows(rows: dict[str, dict[str, object]]) -> None:
    for name in models.MODELS:
        for length in ("64", "256"):
            token, kept = (
                rows[f"{name}, a token after {length}"],
                rows[f"{name}, kept after {length}"],
            )
            assert (token["unit"], kept["unit"]) == ("ms", "MiB")
            if name != models.BASE:
                base, base_kept = (
                    rows[f"base LM, a token after {length}"],
                    rows[f"base LM, kept after {length}"],
                )
                assert (token["against"], kept["against"]) == (base["name"], base_kept["name"])
                assert kept["ratio"] == pytest.approx(kept["median"] / base_kept["median"])  # type: ignore[operator]
    assert rows["DRT x2, memory of training on 256"]["ratio"] > 1  # type: ignore[operator]
    assert "DRT x1, memory on disk, training on 64" not in rows


def measure(**options: object) -> list[dict[str, Any]]:
    """The rows of one short length, timed as by a clock that never differs."""

    def in_turns(works: dict[str, object], *_: object, **__: object) -> dict[str, list[float]]:
        return {name: [2.0 if name == models.BASE else 5.0] for name in works}

    given = {"tokens": 64, "repetitions": 1, "device": "cpu", "threads": 1, **options}
    with (
        mock.patch.object(models, "_SMALL", TINY),
        mock.patch.object(models, "SHORTEST", 64),
        mock.patch.object(models, "in_turns", in_turns),
    ):
        rows: list[dict[str, Any]] = bench("models", given)["rows"]
    return rows


def test_a_time_is_a_ratio_to_the_base_lm_in_the_same_turns_and_is_kept(tmp_path: Path) -> None:
    results = tmp_path / "rows.json"
    rows = measure(results=results, minutes=5)
    by_name = {row["name"]: row for row in rows}
    assert by_name["RPT, a token after 64"]["ratio"] == 2.5
    assert by_name["RPT, training on 64"]["ratio"] == pytest.approx(0.4)
    with mock.patch.object(models, "_model", side_effect=AssertionError("made again")):
        assert measure(results=results) == rows


def test_what_the_minutes_do_not_allow_is_left_out(records: Records) -> None:
    assert measure(minutes=1e-9) == []
    assert "left out: base LM at 64" in records.text


def test_what_is_kept_grows_with_the_prompt_where_nothing_is_offloaded(
    rows: dict[str, dict[str, object]],
) -> None:
    def growth(name: str) -> float:
        after = [float(str(rows[f"{name}, kept after {n}"]["median"])) for n in ("64", "256")]
        return after[1] - after[0]

    assert growth("base LM") == 0 == growth("Block-Recurrent")
    # Chunk memory is 2 * 8 rows of 16 numbers, a landmark one row; Landmark keeps all in 3 layers.
    assert 0 < 9 * growth("DRT x1, memory on disk") < growth("DRT x1")
    assert growth("DRT x1, memory on disk") == growth("DRT x1, memory on the CPU")
    assert growth("Landmark Attention") > 2 * growth("DRT x1")


def test_a_long_prompt_is_expected_to_take_longer_and_a_token_after_it_not() -> None:
    shape = preset("paper-128m", **TINY)
    machine = Machine(torch.device("cpu"), torch.float32)
    comparison = models._Comparison(shape, machine, BenchOptions(minutes=5))
    comparison._seconds = {
        (unit, name): (64, 2.0, 3.0) for unit in models._Unit for name in models.MODELS
    }
    token, training = models._Unit.TOKEN, models._Unit.TRAINING
    assert comparison._expected(token, "DRT x1", 256) == 4 * 2.0 + 3.0
    assert comparison._expected(token, models.LANDMARK, 256) == 16 * 2.0 + 3.0
    assert comparison._expected(training, models.LANDMARK, 256) == 4 * 5.0
    comparison._seconds[token, "RPT"] = (64, 1e3, 3.0)
    with mock.patch.object(models, "_model", side_effect=AssertionError("made")):
        assert comparison.rows(token, "RPT", 256) == []


def test_a_first_length_is_expected_to_take_as_long_as_the_longest_so_far() -> None:
    machine = Machine(torch.device("cpu"), torch.float32)
    comparison = models._Comparison(
        preset("paper-128m", **TINY), machine, BenchOptions(minutes=0.1)
    )
    token, training = models._Unit.TOKEN, models._Unit.TRAINING
    assert comparison._expected(training, "DRT x1", 64) == 0
    comparison._seconds = {(token, "DRT x1"): (64, 2.0, 3.0), (token, "RPT"): (64, 1.0, 9.0)}
    assert comparison._expected(training, "DRT x1", 64) == 10
    with mock.patch.object(models, "_model", side_effect=AssertionError("made")):
        assert comparison.rows(training, "DRT x1", 64) == []
