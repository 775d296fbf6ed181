"""Ctrl-C and a closed pipe, in processes of their own: quiet, and over within two seconds."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Drt
from tests.forks import Forks

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="POSIX signals")

# Stands for any work that takes long: a question over a library whose engine never answers.
SLOW = """
import sys, time
from drt import _engine
def slow(*arguments, **options):
    print("working", flush=True)
    while True:
        time.sleep(0.05)
_engine.load_runtime = slow
from drt_cli.main import main
sys.argv[0] = "drt"
main()
"""


# Some libraries swallow what a signal handler raises. It says that it works where it would catch.
SWALLOWING = (
    SLOW.replace('    print("working", flush=True)\n', "")
    .replace("time.sleep(0.05)", "swallow()")
    .replace(
        "def slow",
        """
def swallow():
    try:
        print("working", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        pass

def slow""",
    )
)


# The fake engine of the SDK's tests: questions are answered at once.
FAKE = """
import sys
from drt import _engine
from tests.sdk.fakes import FakeEngine
FakeEngine().install(vars(_engine).__setitem__)
from drt_cli.main import main
sys.argv[0] = "drt"
main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words", [("ingest", "FILE"), ("ingest", "--watch", "FOLDER"), ("ask", "Q", "FILE")]
)
def test_an_interruption_is_quiet_and_quick(
    tmp_path: Path, words: tuple[str, ...], forks: Forks
) -> None:
    file = tmp_path / "folder" / "a.txt"
    file.parent.mkdir()
    file.write_text("The keeper signs the log.")
    os.utime(file, (1e9, 1e9))
    named = {"FILE": file, "FOLDER": file.parent}
    variables = {"DRT_LIBRARY": str(tmp_path / "library")}
    process = forks.start(SLOW, *(named.get(word, word) for word in words), variables=variables)
    assert process.stdout.readline() == "working\n"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130 and time.monotonic() - began < 2
    assert "Traceback" not in err and "KeyboardInterrupt" not in err


@pytest.mark.thorough
def test_an_interruption_that_is_swallowed_ends_the_process_too(
    tmp_path: Path, forks: Forks
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("The keeper signs the log.")
    variables = {"DRT_LIBRARY": str(tmp_path / "library")}
    process = forks.start(SWALLOWING, "ingest", file, variables=variables)
    assert process.stdout.readline() == "working\n"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (130, "") and time.monotonic() - began < 2


@pytest.mark.thorough
@pytest.mark.parametrize("options", [(), ("--json",)], ids=str)
def test_an_answer_is_printed_before_its_conversation_waits_to_be_saved(
    drt: Drt, handbook: Path, tmp_path: Path, options: tuple[str, ...], forks: Forks
) -> None:
    assert drt("ingest", handbook).code == 0
    library = tmp_path / "library"
    writer = sqlite3.connect(library / "catalog.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    words = ("ask", "--session", "review", *options, "Which period?")
    process = forks.start(FAKE, *words, variables={"DRT_LIBRARY": str(library)})
    printed = iter(process.stdout.readline, "")
    out = "".join(_until(printed, "}" if options else "probability"))
    time.sleep(0.2)  # it waits for the writer now
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    writer.close()
    assert "period" in out and "thirty days" in out
    assert process.returncode == 130 and time.monotonic() - began < 2.5
    assert err == "drt: interrupted; the conversation was not saved.\n"
    assert drt("session", "list", "--json").json == {"sessions": []}


def _until(lines: Iterator[str], beginning: str) -> Iterator[str]:
    for line in lines:
        yield line
        if line.startswith(beginning):
            return


def test_a_reader_that_leaves_ends_a_stream_of_lines(tmp_path: Path, forks: Forks) -> None:
    process = forks.start(
        "import sys; from drt_cli.main import main; sys.argv[0] = 'drt'; main()",
        *("ingest", "--jsonl", *(f"missing-{number}.txt" for number in range(5000))),
        variables={"DRT_LIBRARY": str(tmp_path / "library")},
    )
    assert process.stdout.readline().startswith("{")
    process.stdout.close()
    assert process.wait(timeout=10) == -signal.SIGPIPE
    assert process.stderr.read() == ""
    process.stdin.close()
    process.stderr.close()
