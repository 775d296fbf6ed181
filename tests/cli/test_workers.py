"""`drt serve --workers`: several processes on one address, which are replaced and end together."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests import model_folder
from tests.cli.conftest import Drt

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="Linux only")
TEXT = "The notice period is three months. The keeper signs the log every day.\n"


def until(condition: Callable[[], Any]) -> Any:
    for _ in range(1200):
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def workers_of(pid: int) -> set[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return {int(number) for number in path.read_text().split()} if path.exists() else set()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Served:
    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.log = folder / "log.txt"
        command = [sys.executable, "-m", "drt_cli", "--library", str(folder / "library")]
        model = ["--model", str(model_folder.model_folder()), "--threads", "2"]
        # As most users have it: numpy begins a thread for each core then, unless it is told not to.
        environment = {
            name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *model, "serve", "--port", "0", "--workers", "2", *words],
                env=environment | {"TMPDIR": str(folder), "DRT_WARM": "off"},
                stdout=log,
                stderr=log,
            )

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def address(self) -> str:
        pattern = r"Serving (\S+) with 2 workers"
        until(lambda: re.search(pattern, self.said()) or self.process.poll() is not None)
        found = re.search(pattern, self.said())
        assert found is not None, self.said()
        return found[1]

    def call(self, path: str, body: object = None, **headers: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Connection": "close"} | headers
        request = urllib.request.Request(f"{self.address()}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.read().decode()

    def upload(self) -> None:
        part = 'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n' + TEXT
        body = f"--B\r\n{part}\r\n--B--\r\n".encode()
        headers = {"Content-Type": "multipart/form-data; boundary=B"}
        request = urllib.request.Request(f"{self.address()}/v1/documents", body, headers)
        urllib.request.urlopen(request, timeout=60).close()

    def counted(self, name: str) -> float:
        lines = re.findall(rf"(?m)^{name}\S* (\S+)$", self.call("/metrics"))
        return sum(map(float, lines))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    server = Served(tmp_path)
    yield server
    server.process.kill()
    server.process.wait()


@pytest.mark.thorough
def test_workers_share_a_library_and_a_killed_one_is_replaced(served: Served) -> None:
    served.address()
    before = workers_of(served.process.pid)
    assert len(before) == 2
    served.upload()  # by one of them; both answer from it
    with ThreadPoolExecutor(4) as pool:
        question = {"question": "Which notice period?"}
        bodies = list(pool.map(lambda _: served.call("/v1/ask", question), range(8)))
    assert all("three months" in json.dumps(json.loads(body)["citations"]) for body in bodies)
    assert served.counted("drt_requests_total.*v1/ask") == 8  # whichever of them is asked
    with ThreadPoolExecutor(4) as pool:  # questions of a conversation take turns
        question["session"] = "desk"
        bodies = list(pool.map(lambda _: served.call("/v1/ask", question), range(8)))
    assert len(json.loads(served.call("/v1/sessions/desk"))["turns"]) == 8
    (killed, *_) = before
    os.kill(killed, signal.SIGKILL)
    after = until(lambda: len(now := workers_of(served.process.pid) - {killed}) == 2 and now)
    until(lambda: f"Worker {killed} was ended by signal 9; another one begins." in served.said())
    assert served.call("/healthz") and served.counted("drt_requests_total.*v1/ask") == 16
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(30) == 0
    until(lambda: not any(map(is_running, after)))
    assert not list(served.folder.glob("drt-metrics-*"))


@pytest.mark.thorough
def test_workers_end_with_the_process_that_made_them(served: Served) -> None:
    served.address()
    workers = workers_of(served.process.pid)
    served.process.kill()
    served.process.wait()
    until(lambda: not any(map(is_running, workers)))


@pytest.mark.thorough
def test_what_the_first_worker_refuses_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "library").write_text("a file")
    server = Served(tmp_path)
    assert server.process.wait(60) == 1
    (line,) = server.said().splitlines()
    assert line.startswith("drt: ") and "library" in line


def test_what_workers_cannot_do_is_refused(drt: Drt) -> None:
    ended = drt("serve", "--workers", 2, "--ray", "local")
    assert ended.code == 1 and "leave out --workers" in ended.err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = drt("serve", "--workers", 2, "--port", port)
    assert ended.code == 1 and f"127.0.0.1:{port} cannot be listened on" in ended.err
