"""A reader of the output that leaves ends the process; a client or child that leaves does not."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="POSIX signals")

# A command whose work writes to a connection that the other side has closed.
LEFT = """
import socket, sys
import drt_cli.main as main
ours, other = socket.socketpair()
other.close()
def run(arguments):
    try:
        ours.send(b"an answer")
    except BrokenPipeError:
        print("the client left")
    if "print" in arguments:
        for _ in range(100_000):
            print("a line")
    if "buffer" in arguments:
        sys.stdout.write("a line")
    return 0
main.run = run
main.main()
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", LEFT, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_client_that_leaves_ends_no_process() -> None:
    process = start()
    output, errors = process.communicate(timeout=30)
    assert (output, errors, process.returncode) == ("the client left\n", "", 0)


@pytest.mark.parametrize("how", ["print", "buffer"])
def test_a_reader_of_the_output_that_leaves_ends_it_quietly(how: str) -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        ended = subprocess.run(
            [sys.executable, "-c", LEFT, how],
            stdout=theirs.fileno(),
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (-signal.SIGPIPE, b"")
