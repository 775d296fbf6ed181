"""What may fork: a process without other threads, which is what numpy would begin."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from drt_cli import _forking

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="Linux only")


def test_numpy_is_imported_without_threads() -> None:
    code = (
        "import os; from drt_cli import _forking; _forking.import_numpy()\n"
        "print(_forking.has_other_threads(), os.environ.get('OPENBLAS_NUM_THREADS'))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    for given in ({}, {"OPENBLAS_NUM_THREADS": "3"}):
        command = [sys.executable, "-c", code]
        said = subprocess.check_output(command, env=environment | given, text=True)
        assert said.split() == ["False", given.get("OPENBLAS_NUM_THREADS", "None")]


def test_threads_that_end_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/task"))
    monkeypatch.setattr(_forking, "_MOST", before)
    going = threading.Event()
    thread = threading.Thread(target=going.wait)
    thread.start()
    timer = threading.Timer(0.0, going.set)
    timer.start()
    assert not _forking.has_other_threads()
    monkeypatch.setattr(_forking, "_WAIT", 0.01)
    going.clear()
    thread = threading.Thread(target=going.wait)
    thread.start()
    assert _forking.has_other_threads()
    going.set()
