"""The server as a process runs it: sockets, signals, the documentation's commands."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drt import (
    Assistant,
    ConfigError,
    Library,
    ServeOptions,
    WriterOptions,
    bench,
    serve,
    write,
)
from tests.log_records import Records
from tests.sdk.fakes import FakeEngine

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
uvicorn = pytest.importorskip("uvicorn")
httpx2 = pytest.importorskip("httpx2")


@contextmanager
def running(assistant: Assistant, **options: Any) -> Iterator[tuple[str, Any]]:
    """Serves in a thread; yields the address and the server."""
    from drt import asgi_app
    from drt._server.process import make_server

    addresses: list[str] = []
    chosen = ServeOptions(port=0, **options)
    server = make_server(asgi_app(assistant, chosen), chosen, addresses.append)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: bool(addresses))
        yield addresses[0], server
    finally:
        server.should_exit = True
        thread.join(30)
    assert not thread.is_alive()


def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def test_stopping_finishes_what_runs(
    engine: FakeEngine, assistant: Assistant, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import drt._engine as seam

    asked, go, plain = threading.Event(), threading.Event(), engine.ask
    assistant.ingest(handbook)

    def slow(*arguments: Any, **options: Any) -> Any:
        asked.set()
        go.wait(10)
        return plain(*arguments, **options)

    monkeypatch.setitem(vars(seam), "ask", slow)
    answers: list[Any] = []
    with running(assistant) as (address, server):

        def ask() -> None:
            body = {"question": "Which period?"}
            answers.append(httpx2.post(f"{address}/v1/ask", json=body, timeout=20).json())

        client = threading.Thread(target=ask)
        client.start()
        assert asked.wait(10)
        server.should_exit = True
        time.sleep(0.1)
        go.set()
        client.join(20)
    assert answers[0]["answer"] == "period"


@pytest.mark.thorough
def test_a_second_signal_ends_the_server_without_waiting_and_without_a_traceback(
    engine: FakeEngine,
    assistant: Assistant,
    handbook: Path,
    monkeypatch: pytest.MonkeyPatch,
    records: Records,
) -> None:
    import drt._engine as seam
    from drt._server import process

    asked, go, plain = threading.Event(), threading.Event(), engine.ask
    assistant.ingest(handbook)

    def slow(*arguments: Any, **options: Any) -> Any:
        asked.set()
        go.wait(10)
        return plain(*arguments, **options)

    monkeypatch.setitem(vars(seam), "ask", slow)
    servers: list[Any] = []
    make_server = process.make_server
    monkeypatch.setattr(
        process,
        "make_server",
        lambda *arguments: servers.append(make_server(*arguments)) or servers[0],
    )
    addresses: list[str] = []
    ends: list[BaseException] = []

    def run() -> None:
        try:
            serve(assistant, ServeOptions(port=0), ready=addresses.append)
        except BaseException as error:
            ends.append(error)

    def ask() -> None:
        with contextlib.suppress(httpx2.HTTPError):
            httpx2.post(f"{addresses[0]}/v1/ask", json={"question": "Which period?"}, timeout=20)

    threads = [threading.Thread(target=run), threading.Thread(target=ask)]
    threads[0].start()
    until(lambda: bool(addresses))
    threads[1].start()
    assert asked.wait(10)
    for _ in range(2):
        servers[0].handle_exit(signal.SIGTERM, None)
    threads[0].join(5)  # less than the question takes
    assert [type(error) for error in ends] == [KeyboardInterrupt]
    go.set()
    threads[1].join(20)
    assert "Traceback" not in records.text and "CancelledError" not in records.text
    logging.getLogger("uvicorn.error").error("is heard again")
    assert "is heard again" in records.text


@pytest.mark.thorough
def test_connections_without_a_request_are_closed(
    assistant: Assistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drt._server import process

    monkeypatch.setattr(process, "HEADER_SECONDS", 0.1)
    with running(assistant) as (address, _):
        port = int(address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as slow:
            slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127")
            assert slow.recv(100) == b""
        with socket.create_connection(("127.0.0.1", port), timeout=10) as hostile:
            hostile.sendall(b"\x16\x03\x01 no http at all\r\n\r\n")
            assert hostile.recv(100).startswith(b"HTTP/1.1 400")
        assert httpx2.get(f"{address}/healthz").status_code == 200


@pytest.mark.thorough
def test_a_refusal_arrives_while_the_body_is_still_sent(assistant: Assistant) -> None:
    """A connection that is closed with bytes unread would be reset, and the response be lost."""
    field = b'--B\r\nContent-Disposition: form-data; name="tag"\r\n\r\nx\r\n'
    form = field * 500_000 + b"--B--\r\n"
    with running(assistant) as (address, _):
        for path, host, status in (("/v1/documents", "localhost", 400), ("/", "evil", 421)):
            head = (
                f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(form)}\r\n"
                "Content-Type: multipart/form-data; boundary=B\r\nConnection: close\r\n\r\n"
            )
            port = int(address.rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                client.sendall(head.encode() + form)
                assert client.recv(100).startswith(f"HTTP/1.1 {status}".encode())


@pytest.mark.thorough
def test_a_second_request_must_come_in_time_too(
    assistant: Assistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a body that is sent on, behind its refusal, keep a connection."""
    from drt._server import process

    monkeypatch.setattr(process, "HEADER_SECONDS", 0.2)
    monkeypatch.setattr(process, "IDLE_SECONDS", 600)
    complete = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    endless = b"POST /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n"
    with running(assistant) as (address, _):
        port = int(address.rpartition(":")[2])
        for first in (complete, endless):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as slow:
                slow.sendall(first)
                assert slow.recv(10_000).startswith(b"HTTP/1.1 ")
                with pytest.raises(OSError):  # noqa: PT012  the server ends it at some byte
                    for _ in range(1000):
                        slow.sendall(b"X")
                        time.sleep(0.01)
        assert httpx2.get(f"{address}/healthz").status_code == 200


@pytest.mark.thorough
def test_a_client_that_reads_nothing_is_cut_off(
    assistant: Assistant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drt._server import process

    monkeypatch.setattr(process, "READ_SECONDS", 0.1)
    file = tmp_path / "long.txt"
    file.write_text("The keeper counts the coal. " * 12_000, encoding="utf-8")
    assistant.ingest(file)
    request = b"GET /v1/documents/long.txt/text HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with running(assistant) as (address, server):
        port = int(address.rpartition(":")[2])
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.settimeout(10)
            deaf.connect(("127.0.0.1", port))
            deaf.sendall(request * 20)
            until(lambda: len(server.server_state.connections) == 1)
            until(lambda: not server.server_state.connections)
        whole = httpx2.get(f"{address}/v1/documents/long.txt/text", timeout=20)
        assert len(whole.json()["text"]) == 336_000


@pytest.mark.thorough
def test_a_client_that_leaves_in_the_middle_keeps_nobody_waiting(
    assistant: Assistant, handbook: Path, records: Records
) -> None:
    assistant.ingest(handbook)
    body = b'{"question": "Which period?", "stream": true}'
    head = b"POST /v1/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    with running(assistant) as (address, _):
        port = int(address.rpartition(":")[2])
        for sent, awaited in ((head + body, 1), (head + body, 0), (head + body[:9], 0), (head, 0)):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                client.sendall(sent)
                if awaited:
                    assert client.recv(20).startswith(b"HTTP/1.1 200")
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        answer = httpx2.post(f"{address}/v1/ask", json={"question": "Which keeper?"}, timeout=20)
        assert answer.json()["answer"] == "keeper"
        assert "Traceback" not in records.text and "unexpected" not in records.text
        waiting = httpx2.get(f"{address}/metrics").text
    assert "drt_questions_waiting 0.0" in waiting


def test_an_address_in_use_is_one_sentence(assistant: Assistant, records: Records) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = ServeOptions(port=taken.getsockname()[1])
        with pytest.raises(ConfigError, match=r"\(Address already in use\)"):
            serve(assistant, options)
    assert not records.text  # which would be printed beside it


@pytest.mark.thorough
def test_the_commands_of_the_page_run(
    assistant: Assistant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openai")
    if subprocess.run(["which", "curl"], capture_output=True, check=False).returncode:
        pytest.skip("there is no curl")
    monkeypatch.chdir(ROOT)
    with running(assistant) as (address, _):
        page = PAGE.replace("http://127.0.0.1:8080", address).replace("drt-small-en", "fake")
        commands = [
            line
            for block in re.findall(r"```sh\n(.*?)```", page, flags=re.S)
            for line in block.splitlines()
        ]
        assert len(commands) >= 8
        for command in commands:
            command = command.replace("curl ", "curl --fail-with-body --silent --show-error ")
            ended = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
            assert ended.returncode == 0, (command, ended.stdout, ended.stderr)
        for block in re.findall(r"```python\n(.*?)```", page, flags=re.S):
            names: dict[str, Any] = {}
            exec(compile(block, "serve.md", "exec"), names)
            names["client"].close()


@pytest.mark.thorough
def test_the_server_can_be_a_writer(assistant: Assistant, handbook: Path) -> None:
    pytest.importorskip("openai")
    assistant.ingest(handbook)
    with running(assistant) as (address, _):
        answer = assistant.ask("Which period?")
        writing = write(assistant, answer, WriterOptions(f"{address}/v1", "fake", timeout=20))
        assert list(writing)
    assert writing.result is not None and writing.result.state != "failed"


def test_options_of_the_load_test_are_checked() -> None:
    with pytest.raises(ConfigError, match="clients"):
        bench("serve", clients=0)
    with pytest.raises(ConfigError, match="no option 'pages'"):
        bench("serve", pages=3)


@pytest.mark.slow
def test_the_load_test_starts_a_server_and_counts(tmp_path: Path) -> None:
    from tests.model_folder import model_folder

    runtime = {"model": model_folder(), "device": "cpu", "threads": 1}
    result = bench("serve", clients=3, seconds=1, **runtime)
    rows = {row["name"]: row["median"] for row in result["rows"]}
    assert rows["errors"] == 0 and rows["start-up"] > 0 and result["calibration"]["answers"] >= 3
    assert {"3 clients, p50", "3 clients, p95", "3 clients, p99"} <= rows.keys()
    for moment in ("start", "middle", "end"):
        assert rows[f"memory, {moment}"] > 50
    with pytest.raises(ConfigError, match="no question was answered: 400"):
        bench("serve", clients=1, seconds=0.1, file=__file__, question="x" * 30_000, **runtime)


@pytest.mark.slow
def test_several_servers_of_one_library_answer_and_take_uploads(tmp_path: Path) -> None:
    from tests.model_folder import model_folder

    runtime = {"model": model_folder(), "device": "cpu", "threads": 1}
    sizes = {"clients": 6, "seconds": 3, "workers": 2, "files": 3, "max_wait": 0.05}
    result = bench("serve", **sizes, **runtime)
    rows = {row["name"]: row for row in result["rows"]}
    assert rows["errors"]["median"] == rows["2 servers: errors"]["median"] == 0
    assert rows["2 servers: answers"]["ratio"] > 0
    assert rows["2 servers: an upload, p50"]["median"] > 0
    assert rows["refused with a time to ask again"]["median"] > 0
    assert rows["2 servers: 6 clients, p99"]["median"] < 2


KILLED = """
import sys
from drt import Assistant, ServeOptions, serve
from tests.model_folder import model_folder
with Assistant(sys.argv[1], model=model_folder(), device="cpu", threads=1) as assistant:
    serve(assistant, ServeOptions(port=0), ready=lambda address: print(address, flush=True))
"""


@pytest.mark.slow
def test_killing_the_server_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Clients upload until it is killed: what was answered is in the library, whole."""
    library = tmp_path / "library"
    acknowledged: set[str] = set()
    for round_ in range(3):
        command = [sys.executable, "-c", KILLED, str(library)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        with process.stdout:
            address = process.stdout.readline().strip()

        def send(client: int, address: str = address, round_: int = round_) -> None:
            for number in range(1000):
                name = f"{round_}-{client}-{number}.txt"
                text = f"Keeper {name} counts the coal. " * 200
                try:
                    files = {"file": (name, text.encode())}
                    sent = httpx2.post(f"{address}/v1/documents", files=files, timeout=60)
                except httpx2.HTTPError:
                    return
                if sent.status_code == 201:
                    acknowledged.add(name)

        clients = [threading.Thread(target=send, args=(client,)) for client in range(3)]
        for client in clients:
            client.start()
        goal = len(acknowledged) + 5
        until(lambda goal=goal: len(acknowledged) >= goal)  # type: ignore[misc]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        for client in clients:
            client.join()
        kept = Library(library)
        names = {Path(document.source).name for document in kept.documents()}
        assert acknowledged <= names
        assert [one for one in kept.check() if one.severity == "error"] == []
    assert len(acknowledged) >= 15


def test_a_process_that_works_leaves_connections_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from drt._server import process

    with socket.create_server(("127.0.0.1", 0)) as made, contextlib.ExitStack() as stack:
        made.setblocking(False)
        idle = stack.enter_context(process.SharedListener(made, lambda: False))
        busy = stack.enter_context(process.SharedListener(made, lambda: True))
        others: list[process.SharedListener] = [idle]
        taken: list[socket.socket] = []

        def take(seconds: float) -> None:  # while the one that works waits
            assert seconds == process.YIELD_SECONDS
            taken.extend(stack.enter_context(other.accept()[0]) for other in others)

        monkeypatch.setattr(process, "time", SimpleNamespace(sleep=take))
        stack.enter_context(socket.create_connection(made.getsockname()))
        with pytest.raises(BlockingIOError):
            busy.accept()
        assert len(taken) == 1
        others.clear()
        stack.enter_context(socket.create_connection(made.getsockname()))
        stack.enter_context(busy.accept()[0])  # nobody else took it
