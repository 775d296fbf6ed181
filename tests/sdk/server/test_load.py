"""The report of the load test."""

from __future__ import annotations

import pytest

import drt
from drt._server.load import LoadOptions, _report, _Tally

MEMORY = {"start": 1e9, "middle": 1.5e9, "end": 1.5e9}


def test_its_report_is_a_bench() -> None:
    alone, load = _Tally([0.5, 0.5]), _Tally([1.0, 2.0, 3.0], elapsed=2.0)
    steps = {2: _Tally([0.75] * 4, elapsed=1.0), 4: _Tally()}
    load.fail("status 503", "full")
    result = _report(LoadOptions(), alone, load, memory=MEMORY, steps=steps)
    table = drt.report_table({"bench": "serve", **result, "seconds": 2.0, "model": "fake"})
    assert "errors, status 503" in table and "64 clients, p50" in table
    rows = {row["name"]: row for row in result["rows"]}
    assert (rows["64 clients, p50"]["median"], rows["64 clients, p50"]["ratio"]) == (2.0, 4.0)
    assert (rows["2 clients, p95"]["ratio"], rows["2 clients, answers"]["ratio"]) == (1.5, 2.0)
    assert not any(name.startswith("4 clients") for name in rows)
    assert LoadOptions(clients=16, steps=True).fewer_clients() == [2, 4, 8]
    assert LoadOptions(clients=16).fewer_clients() == []
    assert rows["answers"]["median"] == 1.5 and rows["errors"]["median"] == 1


def test_a_server_without_answers_is_an_error() -> None:
    alone = _Tally()
    alone.fail("timeout", "no answer within 300 s")
    with pytest.raises(drt.ConfigError, match="no answer within"):
        _report(LoadOptions(), alone, _Tally(), memory=MEMORY)
