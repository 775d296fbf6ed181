"""Runs command lines of ``drt``, each in a fork of this process, which has imported torch once.

A fork is a process of its own that begins two seconds of imports later. Standard input holds one
request a line, a JSON object: ``words``, ``variables`` of the environment, and the files ``stdin``,
``stdout`` and ``stderr``. Each is answered by a line with its exit code.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import sys
from typing import Any, NoReturn

LIMIT = 300  # seconds of a command
# What commands import on demand.
MODULES = (
    "drt_engine.answer.ask",
    "drt_lab.bench.run",
    "drt_lab.evaluate.run",
    "drt_engine.ingest.pipeline",
    "drt_engine.summary.summarize",
    "drt_engine.trace.page",
    "drt_lab.train.run",
)


def main() -> None:
    """Answer requests until standard input ends."""
    for name in MODULES:
        importlib.import_module(name)
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            run(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def run(request: dict[str, Any]) -> NoReturn:
    """Run a command line with files for its input and outputs, and end this process."""
    signal.alarm(LIMIT)
    os.environ.update(request["variables"])
    sys.stdin = open_as(0, request["stdin"], "r")
    sys.stdout = open_as(1, request["stdout"], "w")
    sys.stderr = open_as(2, request["stderr"], "w")
    sys.argv = ["drt", *request["words"]]
    from drt_cli.__main__ import main as drt

    code: Any = 0
    try:
        drt()
    except SystemExit as ended:
        code = ended.code or 0
    atexit._run_exitfuncs()  # noqa: SLF001  as at the end of any process
    for output in (sys.stdout, sys.stderr):
        output.flush()
    os._exit(code)  # taking torch apart takes longer than most commands


def open_as(number: int, path: str, mode: str) -> Any:
    """Open a file under the number of a descriptor, as Python does for a new process."""
    with open(path, mode) as file:
        os.dup2(file.fileno(), number)
    return open(number, mode, encoding="utf-8", closefd=False)


if __name__ == "__main__":
    main()
