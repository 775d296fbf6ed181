"""Reports give the documented JSON and readable tables."""

from __future__ import annotations

import json
import math

import pytest

from drt_engine.errors import WeightsError
from drt_lab.evaluate.report import BenchReport, BenchRow, EvalReport, bench_row, median_iqr
from tests.tables import each_row

_EVAL = EvalReport(
    task="qa",
    data="valid-qa.jsonl.xz",
    n=300,
    metrics={
        "SQuAD": {"f1": 0.48251, "n_answerable": 200, "found_auroc": None},
        "all": {"f1": 0.4, "hybrid": {"hit@1": 0.66, "hit@8": 0.93}},
    },
    baselines={"bm25-sentence": {"SQuAD": {"f1": 0.16}}},
    seconds=12.34,
    model="drt-small-en",
)
_BENCH = BenchReport(
    bench="ingest",
    rows=[BenchRow("read", 1.5, 0.1, "s", "matmul", 2.5), BenchRow("matmul", 0.6, 0.0, "s")],
    calibration={"matmul_gflops": 81.5, "threads": 2},
    seconds=3.0,
    model="drt-small-en",
)


def test_eval_json_is_the_documented_object() -> None:
    found = json.loads(json.dumps(_EVAL.to_dict(), allow_nan=False))
    assert list(found) == ["task", "data", "n", "metrics", "baselines", "seconds", "model"]
    assert found["metrics"]["all"]["hybrid"]["hit@8"] == 0.93
    assert found["metrics"]["SQuAD"]["found_auroc"] is None
    assert found["baselines"] == {"bm25-sentence": {"SQuAD": {"f1": 0.16}}}


def test_eval_table_has_a_row_for_each_group_and_system() -> None:
    lines = _EVAL.as_table().splitlines()
    assert lines[0] == "qa on valid-qa.jsonl.xz: 300 cases, 12.3 s"
    header = "group system f1 n_answerable found_auroc hybrid hit@1 hybrid hit@8"
    assert lines[1].split() == header.split()
    assert [line.split() for line in lines[2:]] == [
        ["SQuAD", "drt-small-en", "0.483", "200", "-", "-", "-"],
        ["SQuAD", "bm25-sentence", "0.160", "-", "-", "-", "-"],
        ["all", "drt-small-en", "0.400", "-", "-", "0.660", "0.930"],
    ]
    # Aligned: every "f1" value ends in the same column as its heading.
    assert {line.index("0.") + 5 for line in lines[2:]} == {lines[1].index("f1") + 2}


def test_bench_json_is_the_documented_object() -> None:
    found = json.loads(json.dumps(_BENCH.to_dict(), allow_nan=False))
    assert list(found) == ["bench", "rows", "calibration", "seconds", "model"]
    assert list(found["rows"][0]) == ["name", "median", "iqr", "unit", "against", "ratio"]
    assert found["rows"][1]["ratio"] is None
    assert found["calibration"] == {"matmul_gflops": 81.5, "threads": 2}


def test_bench_table() -> None:
    lines = [line.split() for line in _BENCH.as_table().splitlines()]
    assert lines[2] == ["read", "1.5", "0.1", "s", "2.500", "matmul"]
    assert lines[3] == ["matmul", "0.6", "0", "s", "-", "-"]
    assert lines[4:] == [
        ["calibration", "matmul_gflops:", "81.500"],
        ["calibration", "threads:", "2"],
    ]


@each_row(
    ("values", "expected"),
    [([3.0], (3.0, 0.0)), ([1.0, 2.0, 3.0, 4.0, 5.0], (3.0, 2.0)), ([4.0, 1.0], (2.5, 1.5))],
)
def test_median_and_interquartile_range(values: list[float], expected: tuple[float, float]) -> None:
    assert median_iqr(values) == expected


def test_bench_row_divides_the_medians() -> None:
    row = bench_row("a", [1, 2, 3], unit="s", against="b", against_values=[4.0, 4.0])
    assert (row.median, row.against, row.ratio) == (2, "b", 0.5)
    assert bench_row("a", [1.0], unit="s").ratio is None
    with pytest.raises(ValueError, match="median of b is 0"):
        bench_row("a", [1.0], unit="s", against="b", against_values=[0.0])


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(WeightsError, match="f1 is nan, .* diverged"):
        EvalReport("qa", "x", 1, {"all": {"f1": math.nan}}, 1.0, "m")
    with pytest.raises(WeightsError, match="none hit@1 is inf"):
        EvalReport("qa", "x", 1, {"all": {"none": {"hit@1": math.inf}}}, 1.0, "m")
    with pytest.raises(ValueError, match="both or neither"):
        BenchRow("a", 1.0, 0.0, "s", "b")
    with pytest.raises(ValueError, match="at least one"):
        median_iqr([])
