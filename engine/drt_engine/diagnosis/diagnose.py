"""Puts the report together: the checks of this process, and those of a child that computes.

What may crash, as PyTorch does on a processor that lacks an instruction, happens in the child
(``self_test``); its death is a line here. Knows nothing of how the report is printed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drt_engine.diagnosis.checks import extra_checks, library_checks, machine_checks, reader_check
from drt_engine.results import DoctorCheck

SECONDS = 300.0  # of the self-test; a slow machine needs 20
REINSTALL = "pip install --force-reinstall drt-assistant"
REPORT = "send this report to the project"
_SIGNALS = {
    "SIGILL": "PyTorch uses an instruction that this processor lacks; set"
    " ATEN_CPU_CAPABILITY=default, or install another build of PyTorch",
    "SIGKILL": "there may be too little memory; close other programs and run it again",
    "SIGBUS": "a file may have been truncated; " + REINSTALL,
}
_MISSING = "something that PyTorch needs is missing; pip install --force-reinstall torch"


def diagnose(
    library: Path,
    *,
    version: str,
    model: str | Path,
    device: str = "auto",
    threads: int | None = None,
    dtype: str = "auto",
    seconds: float = SECONDS,
) -> Iterator[DoctorCheck]:
    """Yield the checks as they are made; the last is the self-test.

    ``version`` is drt's own; ``seconds`` is how long the self-test may take.
    """
    yield from machine_checks(version)
    yield from extra_checks()
    yield from library_checks(library)
    yield reader_check()
    request = {
        "model": os.fspath(model),
        "model_is_path": isinstance(model, Path),
        "device": device,
        "threads": threads,
        "dtype": dtype,
    }
    yield from run_self_test(request, seconds=seconds)


def run_self_test(request: dict[str, Any], *, seconds: float) -> Iterator[DoctorCheck]:
    """Yield what the child says, and a problem for the step in which it fails or dies."""
    try:
        ended = subprocess.run(
            # -P keeps the current folder, which may hold a json.py, off the child's path.
            [sys.executable, "-P", "-m", "drt_engine.diagnosis.self_test", json.dumps(request)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
        output, errors, code = ended.stdout, ended.stderr, ended.returncode
    except subprocess.TimeoutExpired as error:
        output, errors, code = error.stdout or b"", error.stderr or b"", None
    except OSError as error:
        yield _failed(f"no process can be started ({error.strerror})", "close other programs")
        return
    step, complete = "starting Python", False
    for line in output.decode(errors="replace").splitlines():
        frame = _frame(line)
        step = frame.get("step", step)
        complete = complete or frame.get("done") is True
        if "check" in frame:
            yield _check(frame)
        elif "error" in frame:
            yield _failure(step, frame)
            return
    if code is None:
        yield _failed(f"{step} took more than {seconds:.0f} s", REPORT)
    elif not complete:
        yield _failed(f"{step} failed: {_last_words(code, errors)}", _remedy(code))


def _frame(line: str) -> dict[str, Any]:
    """Return a line of the child as its object; an empty one for what a library printed."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _check(frame: dict[str, Any]) -> DoctorCheck:
    name = str(frame["check"])
    if "problem" in frame:
        return DoctorCheck(name, str(frame["problem"]), "problem", REPORT)
    return DoctorCheck(name, str(frame["value"]))


def _failure(step: str, frame: dict[str, Any]) -> DoctorCheck:
    """Return the line for an error that a step ended with."""
    error = str(frame["error"])
    if frame.get("known"):  # its sentence says what to do
        return _failed(f"{step} failed: {error.partition(': ')[2]}", "")
    importing = error.startswith(("ImportError", "ModuleNotFoundError", "OSError"))
    return _failed(f"{step} failed: {error}", _MISSING if importing else REPORT)


def _failed(value: str, remedy: str) -> DoctorCheck:
    return DoctorCheck("self-test", value, "problem", remedy)


def _last_words(code: int, errors: bytes) -> str:
    if code < 0:
        return f"the process was ended by {_signal(code)}"
    lines = errors.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"the process ended with exit code {code}"


def _remedy(code: int) -> str:
    return _SIGNALS.get(_signal(code), REPORT) if code < 0 else REINSTALL


def _signal(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
