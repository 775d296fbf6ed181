"""Tests see the same environment whoever runs them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.environment import make_neutral
from tests.memory_disk import use_memory
from tests.tables import each_row

CALLERS = {
    **{"DRT_LIBRARY": "/nowhere", "DRT_ASK_TOP_K": "1", "DRT_DEBUG": "1"},
    **{"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "KMP_AFFINITY": "compact"},
    **{"LANG": "de_DE.UTF-8", "LC_NUMERIC": "de_DE.UTF-8", "TZ": "Asia/Tokyo", "COLUMNS": "20"},
}


def test_settings_threads_and_locale_are_left_out() -> None:
    environment = {"PATH": "/bin", **CALLERS}
    make_neutral(environment)
    expected = {"PATH": "/bin", "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    assert environment == expected


@each_row("name", sorted({*CALLERS, "NO_COLOR"} - {"OMP_NUM_THREADS", "TZ"}))
def test_nothing_of_it_is_set_here(name: str) -> None:
    assert name not in os.environ


def test_threads_and_time_zone_are_fixed() -> None:
    torch = pytest.importorskip("torch")
    from drt_engine.threads import choose_threads

    assert os.environ["OMP_NUM_THREADS"] == "1" and choose_threads().count == 1
    assert torch.get_num_threads() == 1
    assert time.tzname[0] == "UTC"


def test_temporary_folders_are_in_memory_where_there_is_room(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    use_memory(environment, disk=tmp_path / "none")
    use_memory(environment, disk=tmp_path, room=1 << 60)
    assert environment == {}
    use_memory(environment, disk=tmp_path, room=1)
    assert environment == {"PYTEST_DEBUG_TEMPROOT": str(tmp_path)}
    chosen = {"PYTEST_DEBUG_TEMPROOT": "/elsewhere"}
    use_memory(chosen, disk=tmp_path, room=1)
    assert chosen == {"PYTEST_DEBUG_TEMPROOT": "/elsewhere"}
