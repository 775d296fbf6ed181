"""The load test of ``drt bench serve``: many clients of one server, or of several on one library.

Every client asks its next question as soon as it has the answer to the last, and one that is
refused asks again when it is told to. Latencies stand beside those of one client alone, and several
servers beside one, timed in the same run.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
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
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class LoadOptions:
    """How many ``clients`` ask for how many ``seconds``; ``file`` and ``question`` replace ours.

    ``workers`` servers share the library, as behind a proxy that sends each client to one of them.
    ``files`` are uploaded meanwhile, evenly. ``max_wait`` is that of the servers, which refuse what
    would wait longer; without it nothing is refused. With ``steps``
    2, 4, 8 and so on ask as well, each for as long.
    """

    clients: int = 64
    seconds: float = 60.0
    file: str | None = None
    question: str | None = None
    workers: int | None = None
    files: int | None = None
    max_wait: float | None = None
    steps: bool = False

    def __post_init__(self) -> None:
        for name in ("workers", "files", "max_wait"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name} is {value}, expected more than 0.")
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
    refused: int = 0
    elapsed: float = 1.0  # seconds from the first question to the last answer

    @property
    def rate(self) -> float:
        """The answers a second."""
        return len(self.seconds) / self.elapsed

    def fail(self, kind: str, example: str) -> None:
        """Count an error."""
        self.errors[kind] += 1
        self.example = self.example or example


@dataclass
class _Load:
    """What one client, many clients and uploads beside them got from the servers."""

    alone: _Tally = field(default_factory=_Tally)
    many: _Tally = field(default_factory=_Tally)
    uploads: _Tally = field(default_factory=_Tally)
    steps: dict[int, _Tally] = field(default_factory=dict)  # by the number of clients
    memory: dict[str, float] = field(default_factory=dict)  # bytes of all servers


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
        counts = [1] if options.workers in (None, 1) else [1, options.workers]
        rows: Rows = []
        answers, single = 0, None
        for count in counts:
            started = time.perf_counter()
            with _servers(count, library, runtime, options) as addresses:
                start_up = time.perf_counter() - started
                load = asyncio.run(_measure(addresses, options))
            answers += len(load.many.seconds)
            rows += _report(options, load, servers=count, start_up=start_up, single=single)
            single = load
    return {
        "bench": "serve",
        "rows": rows,
        "calibration": {"answers": answers, "processors": os.cpu_count()},
        "seconds": time.perf_counter() - began,
        "model": str(runtime.get("model", "drt-small-en")),
    }


@contextlib.contextmanager
def _servers(
    count: int, library: Path, runtime: dict[str, Any], options: LoadOptions
) -> Iterator[list[str]]:
    """Yield the addresses of so many servers of one library, each a process."""
    context = multiprocessing.get_context("spawn")
    started: list[tuple[Connection, BaseProcess]] = []
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            arguments = (library, runtime, options.max_wait, theirs)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            started.append((ours, process))
        yield [_address(pipe, process) for pipe, process in started]
    finally:
        for _, server in started:
            if server.pid is not None and server.is_alive():
                os.kill(server.pid, signal.SIGTERM)
        for _, server in started:
            server.join(60)
            server.kill()


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


def _serve(
    library: Path, runtime: dict[str, Any], max_wait: float | None, pipe: Connection
) -> None:
    """Serve in the child, and send the address to the parent."""
    with Assistant(library, **runtime) as assistant:
        options = ServeOptions(port=0, queue=1024, max_wait=max_wait or REQUEST_SECONDS)
        run(make_app(assistant, options), options, pipe.send)


async def _measure(addresses: list[str], options: LoadOptions) -> _Load:
    load = _Load()
    questions = options.questions()
    load.memory["start"] = await _memory(addresses)
    for address in addresses:
        await _client(address, itertools.islice(questions, 2), _Tally())  # the first loads
    await _client(addresses[0], itertools.islice(questions, ALONE), load.alone)
    for count in options.fewer_clients():
        load.steps[count] = _Tally()
        await _ask_at_once(addresses, count, options, questions, load.steps[count])
    asked = _ask_at_once(addresses, options.clients, options, questions, load.many)
    tasks = [asyncio.create_task(asked)]
    if options.files:
        tasks.append(asyncio.create_task(_uploads(addresses, options, load.uploads)))
    await asyncio.sleep(options.seconds / 2)
    load.memory["middle"] = await _memory(addresses)
    await asyncio.gather(*tasks)
    load.memory["end"] = await _memory(addresses)
    for tally in (load.many, load.uploads):
        if tally.example:
            _log.warning("the first error under load: %s", tally.example)
    return load


async def _ask_at_once(
    addresses: list[str],
    clients: int,
    options: LoadOptions,
    questions: Iterator[str],
    tally: _Tally,
) -> None:
    """Let clients ask until the time is over, and wait for their last answers."""
    began = time.perf_counter()
    end = began + options.seconds
    until = itertools.takewhile(lambda _: time.perf_counter() < end, questions)
    places = itertools.islice(itertools.cycle(addresses), clients)
    await asyncio.gather(*(_client(address, until, tally) for address in places))
    tally.elapsed = time.perf_counter() - began


async def _uploads(addresses: list[str], options: LoadOptions, tally: _Tally) -> None:
    """Upload files to one server after the other, evenly over the time of the questions."""
    assert options.files is not None
    began = time.perf_counter()
    for number, address in zip(range(options.files), itertools.cycle(addresses), strict=False):
        await asyncio.sleep(
            max(0.0, began + number * options.seconds / options.files - time.perf_counter())
        )
        name = f"upload-{time.time_ns()}.txt"
        text = f"Delivery {number}, {name}. {_stations()[: 200 * (1 + number % 20)]}"
        await _post(address, "/v1/documents", _form(name, text), tally, media_type=_FORM_TYPE)


_BOUNDARY = "drt-bench"
_FORM_TYPE = f"multipart/form-data; boundary={_BOUNDARY}"


def _form(name: str, text: str) -> bytes:
    """Return a form with a file, as a page sends it."""
    head = f'Content-Disposition: form-data; name="file"; filename="{name}"'
    return f"--{_BOUNDARY}\r\n{head}\r\n\r\n{text}\r\n--{_BOUNDARY}--\r\n".encode()


def _report(
    options: LoadOptions, load: _Load, *, servers: int, start_up: float, single: _Load | None
) -> Rows:
    """Return the rows of a measurement, beside those of a ``single`` server where it was measured.

    Raises ConfigError where no question was answered.
    """
    if not load.alone.seconds or not load.many.seconds:
        raise ConfigError(f"no question was answered: {load.alone.example or load.many.example}")
    before = "" if single is None else f"{servers} servers: "
    alone = statistics.median(load.alone.seconds)
    one_client = f"{before}one client, p50"
    rows = [_row(f"{before}start-up", start_up, "s"), _row(one_client, alone, "s")]
    for count, tally in load.steps.items():
        rows += _step_rows(count, tally, alone, before=before)
    for share in (50, 95, 99):
        name = f"{before}{options.clients} clients, p{share}"
        rows.append(_row(name, _quantile(load.many.seconds, share), "s", one_client, alone))
    if single is None:
        rows.append(_row("answers", load.many.rate, "/s", "one client", 1 / alone))
    else:
        rows.append(_row(f"{before}answers", load.many.rate, "/s", "answers", single.many.rate))
    if options.max_wait is not None:
        rows.append(_row(f"{before}refused with a time to ask again", load.many.refused, "times"))
    if load.uploads.seconds:
        for share in (50, 95):
            seconds = _quantile(load.uploads.seconds, share)
            rows.append(_row(f"{before}an upload, p{share}", seconds, "s"))
    errors = load.many.errors + load.uploads.errors
    rows.append(_row(f"{before}errors", errors.total(), "requests"))
    rows += [_row(f"{before}errors, {kind}", n, "requests") for kind, n in errors.items()]
    memory = {name: size / MIB for name, size in load.memory.items()}
    middle = f"{before}memory, middle"
    rows += [_row(f"{before}memory, {name}", memory[name], "MiB") for name in ("start", "middle")]
    return [*rows, _row(f"{before}memory, end", memory["end"], "MiB", middle, memory["middle"])]


def _step_rows(count: int, tally: _Tally, alone: float, *, before: str) -> Rows:
    """Return rows of so many clients; none where no question of theirs was answered."""
    if not tally.seconds:
        return []
    rows = [
        _row(
            f"{before}{count} clients, p{share}",
            _quantile(tally.seconds, share),
            "s",
            f"{before}one client, p50",
            alone,
        )
        for share in (50, 95)
    ]
    return [*rows, _row(f"{before}{count} clients, answers", tally.rate, "/s")]


async def _client(address: str, questions: Iterator[str], tally: _Tally) -> None:
    """Ask over one connection, which is opened again where the server closes it."""
    connection = _Connection(address)
    for question in questions:
        body = json.dumps({"question": question}).encode()
        while (seconds := await _send(connection, "/v1/ask", body, tally)) is not None:
            await asyncio.sleep(seconds)  # it was refused
        if not connection.is_sound:
            await connection.close()
            connection = _Connection(address)
    await connection.close()


async def _post(address: str, path: str, body: bytes, tally: _Tally, *, media_type: str) -> None:
    """Send one body over a connection of its own, again as long as it is refused."""
    connection = _Connection(address)
    while (seconds := await _send(connection, path, body, tally, media_type)) is not None:
        await asyncio.sleep(seconds)
    await connection.close()


async def _send(
    connection: _Connection,
    path: str,
    body: bytes,
    tally: _Tally,
    media_type: str = "application/json",
) -> float | None:
    """Send a request and count what came; return the seconds after which to send it again."""
    began = time.perf_counter()
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            response = await connection.request("POST", path, body, media_type)
    except (OSError, h11.RemoteProtocolError, asyncio.IncompleteReadError) as error:
        connection.is_sound = False
        tally.fail(type(error).__name__, repr(error))
        return None
    if response.status in (200, 201):
        tally.seconds.append(time.perf_counter() - began)
    elif response.status == 429:
        tally.refused += 1
        return response.retry_after
    else:
        tally.fail(f"status {response.status}", f"{response.status} {response.content[:200]!r}")
    return None


async def _memory(addresses: list[str]) -> float:
    """Return the servers' resident bytes, as their metrics say them; 0 where they do not."""
    total = 0.0
    for address in addresses:
        connection = _Connection(address)
        response = await connection.request("GET", "/metrics", b"")
        await connection.close()
        text = response.content.decode()
        match = re.search(r"^process_resident_memory_bytes (\S+)$", text, flags=re.M)
        total += float(match[1]) if match else 0.0
    return total


@dataclass
class _Response:
    status: int = 0
    content: bytes = b""
    retry_after: float = 1.0


class _Connection:
    """One connection of HTTP/1.1, kept open."""

    def __init__(self, address: str) -> None:
        self._place = urlsplit(address)
        self._state = h11.Connection(h11.CLIENT)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.is_sound = True

    async def request(
        self, method: str, path: str, body: bytes, media_type: str = "application/json"
    ) -> _Response:
        """Send a request; return its response."""
        if self._streams is None:
            assert self._place.hostname is not None
            self._streams = await asyncio.open_connection(self._place.hostname, self._place.port)
        reader, writer = self._streams
        headers = [
            ("Host", self._place.netloc),
            ("Content-Length", str(len(body))),
            ("Content-Type", media_type),
        ]
        for part in (
            h11.Request(method=method, target=path, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            writer.write(self._state.send(part) or b"")
        await writer.drain()
        response = _Response()
        while True:
            event = self._state.next_event()
            if event is h11.NEED_DATA:
                self._state.receive_data(await reader.read(1 << 16))
            elif isinstance(event, h11.Response):
                response.status = event.status_code
                waits = [value for name, value in event.headers if name == b"retry-after"]
                response.retry_after = float(waits[0]) if waits else 1.0
            elif isinstance(event, h11.Data):
                response.content += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                break
        self._state.start_next_cycle()
        return response

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
