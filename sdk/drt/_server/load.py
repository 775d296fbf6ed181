"""The load test of ``drt bench serve``: many clients, one server in a process of its own.

Every client asks its next question as soon as it has the answer to the last. Latencies stand beside
those of one client alone, timed in the same run.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import multiprocessing
import os
import re
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import h11

from .._assistant import Assistant
from .._errors import ConfigError
from .app import make_app
from .options import ServeOptions
from .process import run

_log = logging.getLogger("drt")
START_SECONDS = 300.0
REQUEST_SECONDS = 300.0  # longer than the server's own limit, which it keeps
ALONE = 8  # questions of one client
STATIONS = 200
MIB = 1 << 20


@dataclass(frozen=True)
class LoadOptions:
    """How many ``clients`` ask for how many ``seconds``; ``file`` and ``question`` replace ours.

    With ``steps`` 2, 4, 8 and so on ask as well, each for as long.
    """

    clients: int = 64
    seconds: float = 60.0
    file: str | None = None
    question: str | None = None
    steps: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.clients <= 512 or not self.seconds > 0:
            raise ConfigError(
                f"clients is {self.clients} and seconds is {self.seconds}; expected 1 to 512, and"
                " more than 0."
            )
        if (self.file is None) != (self.question is None):
            raise ConfigError("serve takes a file and a question to ask it, or neither.")

    def fewer_clients(self) -> list[int]:
        """Return the numbers of clients that ask before all do, with ``steps``."""
        if not self.steps:
            return []
        return list(itertools.takewhile(lambda n: n < self.clients, (2**n for n in range(1, 9))))

    def questions(self) -> Iterator[str]:
        """Yield questions without end."""
        if self.question is not None:
            return itertools.repeat(self.question)
        numbers = itertools.cycle(range(STATIONS))
        return (f"How many crates are kept at station {number}?" for number in numbers)


@dataclass
class _Tally:
    """Seconds of the answers that came, and what else came."""

    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)  # by kind, such as "status 503"
    example: str = ""  # the first error in full
    elapsed: float = 1.0  # seconds from the first question to the last answer

    @property
    def rate(self) -> float:
        """The answers a second."""
        return len(self.seconds) / self.elapsed

    def fail(self, kind: str, example: str) -> None:
        """Count an error."""
        self.errors[kind] += 1
        self.example = self.example or example


def bench_serve(options: LoadOptions, **runtime: Any) -> dict[str, Any]:
    """Return the JSON of ``drt bench serve``; ``runtime`` says how the model is loaded."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="drt-bench-") as folder:
        file = Path(options.file) if options.file else Path(folder) / "stations.txt"
        if options.file is None:
            file.write_text(_stations(), encoding="utf-8")
        library = Path(folder) / "library"
        with Assistant(library, **runtime) as assistant:
            assistant.ingest(file)
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(library, runtime, theirs), daemon=True)
        started = time.perf_counter()
        process.start()
        try:
            address = _address(ours, process)
            start_up = time.perf_counter() - started
            result = asyncio.run(_measure(address, options))
        finally:
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, signal.SIGTERM)
            process.join(60)
            process.kill()
    result["rows"].insert(0, _row("start-up", start_up, "s"))
    return {
        "bench": "serve",
        **result,
        "seconds": time.perf_counter() - began,
        "model": str(runtime.get("model", "drt-small-en")),
    }


def _address(pipe: Any, process: BaseProcess) -> str:
    """Return the address of a server that has just been started, once it listens.

    pipe: a connection, which is of another class on Windows.
    """
    end = time.monotonic() + START_SECONDS
    while not pipe.poll(0.1):
        if not process.is_alive():
            raise ConfigError(f"the server ended with {process.exitcode} before it listened.")
        if time.monotonic() > end:
            raise ConfigError(f"the server did not start within {START_SECONDS:g} s.")
    return str(pipe.recv())


def _serve(library: Path, runtime: dict[str, Any], pipe: Connection) -> None:
    """Serve in the child, and send the address to the parent."""
    with Assistant(library, **runtime) as assistant:
        options = ServeOptions(port=0, queue=1024, max_wait=REQUEST_SECONDS)
        run(make_app(assistant, options), options, pipe.send)


async def _measure(address: str, options: LoadOptions) -> dict[str, Any]:
    questions = options.questions()
    alone, load = _Tally(), _Tally()
    memory = {"start": await _memory(address)}
    await _client(address, itertools.islice(questions, 2), _Tally())  # the first pays for loading
    await _client(address, itertools.islice(questions, ALONE), alone)
    steps = {}
    for count in options.fewer_clients():
        steps[count] = _Tally()
        await _ask_at_once(address, count, options, questions, steps[count])
    load_task = asyncio.create_task(
        _ask_at_once(address, options.clients, options, questions, load)
    )
    await asyncio.sleep(options.seconds / 2)
    memory["middle"] = await _memory(address)
    await load_task
    memory["end"] = await _memory(address)
    if load.example:
        _log.warning("the first error under load: %s", load.example)
    return _report(options, alone, load, memory=memory, steps=steps)


async def _ask_at_once(
    address: str, clients: int, options: LoadOptions, questions: Iterator[str], tally: _Tally
) -> None:
    """Let clients ask until the time is over, and wait for their last answers."""
    began = time.perf_counter()
    end = began + options.seconds
    until = itertools.takewhile(lambda _: time.perf_counter() < end, questions)
    await asyncio.gather(*(_client(address, until, tally) for _ in range(clients)))
    tally.elapsed = time.perf_counter() - began


def _report(
    options: LoadOptions,
    alone: _Tally,
    load: _Tally,
    *,
    memory: dict[str, float],
    steps: Mapping[int, _Tally] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the rows of the measurement; raises ConfigError where no question was answered."""
    if not alone.seconds or not load.seconds:
        raise ConfigError(f"no question was answered: {alone.example or load.example}")
    single = statistics.median(alone.seconds)
    rows = [_row("one client, p50", single, "s")]
    for count, tally in steps.items():
        rows += _step_rows(count, tally, single)
    for share in (50, 95, 99):
        name = f"{options.clients} clients, p{share}"
        rows.append(_row(name, _quantile(load.seconds, share), "s", "one client, p50", single))
    rows.append(_row("answers", load.rate, "/s", "one client", 1 / single))
    rows.append(_row("errors", load.errors.total(), "requests"))
    rows += [_row(f"errors, {kind}", count, "requests") for kind, count in load.errors.items()]
    middle = memory["middle"] / MIB
    rows += [_row(f"memory, {name}", memory[name] / MIB, "MiB") for name in ("start", "middle")]
    rows.append(_row("memory, end", memory["end"] / MIB, "MiB", "memory, middle", middle))
    return {"rows": rows, "calibration": {"answers": len(load.seconds)}}


def _step_rows(count: int, tally: _Tally, single: float) -> list[dict[str, Any]]:
    """Return rows of so many clients; none where no question of theirs was answered."""
    if not tally.seconds:
        return []
    rows = [
        _row(
            f"{count} clients, p{share}",
            _quantile(tally.seconds, share),
            "s",
            "one client, p50",
            single,
        )
        for share in (50, 95)
    ]
    return [*rows, _row(f"{count} clients, answers", tally.rate, "/s", "one client", 1 / single)]


async def _client(address: str, questions: Iterator[str], tally: _Tally) -> None:
    """Ask over one connection, which is opened again where the server closes it."""
    connection = _Connection(address)
    for question in questions:
        began = time.perf_counter()
        body = json.dumps({"question": question}).encode()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                status, content = await connection.request("POST", "/v1/ask", body)
        except (OSError, h11.RemoteProtocolError, asyncio.IncompleteReadError) as error:
            tally.fail(type(error).__name__, repr(error))
            await connection.close()
            connection = _Connection(address)
            continue
        if status == 200:
            tally.seconds.append(time.perf_counter() - began)
        else:
            tally.fail(f"status {status}", f"{status} {content[:200]!r}")
    await connection.close()


async def _memory(address: str) -> float:
    """Return the server's resident bytes, as its metrics say them; 0 where they do not."""
    connection = _Connection(address)
    _, content = await connection.request("GET", "/metrics", b"")
    await connection.close()
    match = re.search(r"^process_resident_memory_bytes (\S+)$", content.decode(), flags=re.M)
    return float(match[1]) if match else 0.0


class _Connection:
    """One connection of HTTP/1.1, kept open."""

    def __init__(self, address: str) -> None:
        self._place = urlsplit(address)
        self._state = h11.Connection(h11.CLIENT)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request; return the status and the body of its response."""
        if self._streams is None:
            assert self._place.hostname is not None
            self._streams = await asyncio.open_connection(self._place.hostname, self._place.port)
        reader, writer = self._streams
        headers = [("Host", self._place.netloc), ("Content-Length", str(len(body)))]
        for part in (
            h11.Request(method=method, target=path, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            writer.write(self._state.send(part) or b"")
        await writer.drain()
        status, content = 0, b""
        while True:
            event = self._state.next_event()
            if event is h11.NEED_DATA:
                self._state.receive_data(await reader.read(1 << 16))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                content += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                break
        self._state.start_next_cycle()
        return status, content

    async def close(self) -> None:
        """Close the connection, where it was opened."""
        if self._streams is not None:
            self._streams[1].close()


def _stations() -> str:
    lines = (
        f"At station {number}, {number * 7 % 97 + 3} crates are kept in the store. The keeper of"
        f" station {number} writes the log every evening and counts the coal on Mondays."
        for number in range(STATIONS)
    )
    return "\n\n".join(lines)


def _quantile(values: list[float], share: int) -> float:
    """Return a percentile by the nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)]


def _row(
    name: str, value: float, unit: str, against: str | None = None, other: float = 0.0
) -> dict[str, Any]:
    ratio = value / other if against is not None and other else None
    against = against if ratio is not None else None
    return {
        "name": name,
        "median": value,
        "iqr": 0.0,
        "unit": unit,
        "against": against,
        "ratio": ratio,
    }
