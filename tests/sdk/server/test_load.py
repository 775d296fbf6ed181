"""The report of the load test."""

from __future__ import annotations

import pytest

import drt
from drt._server.load import LoadOptions, _Load, _report, _Tally

MEMORY = {"start": 1e9, "middle": 1.5e9, "end": 1.5e9}


def load_of(alone: list[float], many: list[float], *, elapsed: float) -> _Load:
    return _Load(_Tally(alone), _Tally(many, elapsed=elapsed), memory=MEMORY)


def test_its_report_is_a_bench() -> None:
    load = load_of([0.5, 0.5], [1.0, 2.0, 3.0], elapsed=2.0)
    load.many.fail("status 503", "full")
    rows = _report(LoadOptions(), load, servers=1, start_up=3.0, single=None)
    result = {"bench": "serve", "rows": rows, "calibration": {}, "seconds": 2.0, "model": "fake"}
    table = drt.report_table(result)
    assert "errors, status 503" in table and "64 clients, p50" in table
    named = {row["name"]: row for row in rows}
    assert (named["64 clients, p50"]["median"], named["64 clients, p50"]["ratio"]) == (2.0, 4.0)
    assert named["answers"]["median"] == 1.5 and named["errors"]["median"] == 1
    assert named["start-up"]["median"] == 3.0


def test_fewer_clients_have_rows_of_their_own() -> None:
    load = load_of([0.5, 0.5], [1.0, 2.0, 3.0], elapsed=2.0)
    load.steps = {2: _Tally([0.75] * 4, elapsed=1.0), 4: _Tally()}
    rows = _report(LoadOptions(), load, servers=1, start_up=3.0, single=None)
    named = {row["name"]: row for row in rows}
    assert named["2 clients, p95"]["ratio"] == 1.5
    assert named["2 clients, answers"]["median"] == 4.0
    assert not any(name.startswith("4 clients") for name in named)
    assert LoadOptions(clients=16, steps=True).fewer_clients() == [2, 4, 8]
    assert LoadOptions(clients=16).fewer_clients() == []


def test_several_servers_stand_beside_one() -> None:
    single = load_of([0.5], [1.0] * 4, elapsed=2.0)
    double = load_of([0.5], [1.0] * 7, elapsed=2.0)
    double.many.refused, double.uploads = 2, _Tally([0.1])
    options = LoadOptions(workers=2, files=1, max_wait=5.0)
    rows = _report(options, double, servers=2, start_up=3.0, single=single)
    named = {row["name"]: row for row in rows}
    answers = named["2 servers: answers"]
    assert (answers["median"], answers["against"], answers["ratio"]) == (3.5, "answers", 1.75)
    assert named["2 servers: refused with a time to ask again"]["median"] == 2
    assert named["2 servers: an upload, p50"]["median"] == 0.1


def test_a_server_without_answers_is_an_error() -> None:
    load = load_of([], [], elapsed=2.0)
    load.alone.fail("timeout", "no answer within 300 s")
    with pytest.raises(drt.ConfigError, match="no answer within"):
        _report(LoadOptions(), load, servers=1, start_up=3.0, single=None)
    with pytest.raises(drt.ConfigError, match="workers is 0"):
        LoadOptions(workers=0)
