"""The number of threads: asked for, named by the environment, or what the machine has."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import torch

from drt_engine import threads
from drt_engine.threads import choose_threads, physical_cores, quota, set_threads, worker
from tests.log_records import Records
from tests.tables import each_row


@pytest.fixture
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may use eight hyper-threads on four cores."""
    monkeypatch.setattr(threads, "allowed_processors", lambda: set(range(8)))
    monkeypatch.setattr(threads, "physical_cores", lambda processors: len(processors) // 2)
    monkeypatch.setattr(threads, "quota", lambda: None)


@pytest.mark.parametrize(
    ("asked", "environment", "count", "reason"),
    [
        (None, {}, 4, "physical cores"),
        (6, {}, 6, "asked for"),
        (6, {"OMP_NUM_THREADS": "2"}, 6, "asked for"),
        (None, {"OMP_NUM_THREADS": "2"}, 2, "OMP_NUM_THREADS"),
        (None, {"OMP_NUM_THREADS": "3,2"}, 3, "OMP_NUM_THREADS"),
        (None, {"OMP_NUM_THREADS": ""}, 4, "physical cores"),
        (None, {"OMP_NUM_THREADS": "many"}, 4, "physical cores"),
        (None, {"OMP_NUM_THREADS": "64"}, 8, "OMP_NUM_THREADS 64, but this process may use no"),
        (100, {}, 8, "asked for 100, but this process may use no more"),
    ],
)
def test_the_choice(
    eight: None, asked: int | None, environment: dict[str, str], count: int, reason: str
) -> None:
    chosen = choose_threads(asked, environment=environment)
    assert chosen.count == count and chosen.reason.startswith(reason)


def test_a_quota_counts_where_it_is_smaller(eight: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for granted, count in ((1, 1), (3, 3), (16, 4)):
        monkeypatch.setattr(threads, "quota", lambda granted=granted: granted)
        assert choose_threads(environment={}).count == count


@each_row(
    ("name", "text", "processors"),
    [
        ("cpu.max", "max 100000\n", None),
        ("cpu.max", "250000 100000\n", 2),
        ("cpu.max", "50000 100000\n", 1),
        ("cpu.max", "broken\n", None),
        ("cpu/cpu.cfs_quota_us", "-1\n", None),
        ("cpu/cpu.cfs_quota_us", "400000\n", 4),
    ],
)
def test_quotas_of_both_kinds(tmp_path: Path, name: str, text: str, processors: int | None) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / name).write_text(text)
    assert quota(tmp_path) == processors
    assert quota(tmp_path / "nowhere") is None


def test_hyper_threads_share_a_core(tmp_path: Path) -> None:
    for number in range(4):
        folder = tmp_path / f"cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{number % 2},{number % 2 + 2}\n")
    assert physical_cores({0, 1, 2, 3}, tmp_path) == 2
    assert physical_cores({1, 3}, tmp_path) == 1
    assert physical_cores({0, 1, 2}, tmp_path / "nowhere") == 3


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_never_more_than_the_affinity_allows() -> None:
    one = {min(threads.allowed_processors())}
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, one)
    try:
        assert choose_threads(64).count == 1 == choose_threads(environment={}).count
    finally:
        os.sched_setaffinity(0, before)


def test_the_choice_is_made_known(
    eight: None, monkeypatch: pytest.MonkeyPatch, records: Records
) -> None:
    told: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    with records.at_level(logging.DEBUG, "drt"):
        set_threads(3)
    assert told == [3] and records.messages == ["computing on 3 threads (asked for)"]


def test_a_worker_leaves_the_others_their_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with worker("alone") as thread:
            assert thread.submit(torch.get_num_threads).result() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
