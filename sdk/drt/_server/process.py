"""Running the application: one process of uvicorn that ends when what runs is finished."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from .. import _engine
from .._errors import ConfigError
from .access_log import logging_to_stderr

if TYPE_CHECKING:
    from .options import ServeOptions

HEADER_SECONDS = 10.0  # from a request's first byte, or that of the connection, to its last
READ_SECONDS = 20.0  # after which a client must have read
READ_RATE = 1024  # bytes a second of a response, or all of it
HEADER_BYTES = 64 * 1024
CONNECTIONS = 1024
IDLE_SECONDS = 30
YIELD_SECONDS = 0.005  # in which a process that waits wakes up


class _Protocol(H11Protocol):
    """HTTP/1.1 that closes connections on which no request arrives, or no response is read.

    uvicorn's own limit is for idle connections: a byte now and then would keep one for ever, and
    so would a client that does not read, since closing waits until all is sent.
    """

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._head_timer: asyncio.TimerHandle | None = None
        self._expect_request()
        self._watch_reading(self.transport.get_write_buffer_size())

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering():
            self._forget_request()
        else:  # the beginning of a request, or a body that nobody wants any more
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_request()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_request(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEADER_SECONDS, self._end_without_request)

    def _forget_request(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_without_request(self) -> None:
        self._head_timer = None
        if not self._is_answering() and not self.transport.is_closing():
            self.transport.close()

    def _watch_reading(self, before: int) -> None:
        """Cut the connection where a client reads less than ``READ_RATE`` of what waits for it."""
        if self not in self.connections:
            return
        now = self.transport.get_write_buffer_size()
        if before and now and now > before - READ_RATE * READ_SECONDS:
            self.transport.abort()
            return
        self.loop.call_later(READ_SECONDS, self._watch_reading, now)


class SharedListener(socket.socket):
    """A socket that several processes accept connections from: one that works lets others go first.

    ``is_busy`` tells whether this process works.
    """

    def __init__(self, listener: socket.socket, is_busy: Callable[[], bool]) -> None:
        super().__init__(fileno=os.dup(listener.fileno()))
        self._is_busy = is_busy

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; ``BlockingIOError`` where another process has taken it."""
        if self._is_busy():
            time.sleep(YIELD_SECONDS)
        return super().accept()


class _Server(uvicorn.Server):
    """A server that says when it listens, and whose end is no death by signal."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None] | None) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(CONNECTIONS)  # more may wait than are accepted at a time
        if self._ready is not None and self.started:
            self._ready(address_of(self.servers[0].sockets[0]))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on the first signal, and at once on the second; do not raise them again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End with what runs, or at once where that is what happens already."""
        if self.should_exit:
            self.force_exit = True  # uvicorn has this for SIGINT alone
            # What is cut off ends with a CancelledError, which would be reported as a mistake.
            logging.getLogger("uvicorn.error").disabled = True
        super().handle_exit(sig, frame)


class _AddressProblem(logging.Filter):
    """Keeps why an address cannot be listened on from the log: the exception has it."""

    reason = "unknown"

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.msg, OSError):
            self.reason = os.strerror(record.msg.errno or 0)
            return False
        return True


def address_of(listener: socket.socket) -> str:
    """Return the address of a server that listens, as a URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(
    app: Starlette,
    options: ServeOptions,
    ready: Callable[[str], None] | None,
    listener: socket.socket | None = None,
) -> None:
    """Serve until a signal, on the caller's socket where there is one.

    Raises ``ConfigError`` where the address cannot be listened on, and ``KeyboardInterrupt`` after
    a second signal, without waiting for what runs.
    """
    app.state.service.load()
    server = make_server(app, options, ready)
    shared: list[socket.socket] | None = None
    if listener is not None:
        # One connection each time that there are any: the others are for those who share it.
        server.config.backlog = 1
        questions = app.state.service.questions
        shared = [SharedListener(listener, lambda: questions.is_busy)]
    log = logging.getLogger("uvicorn.error")
    problem = _AddressProblem()
    log.addFilter(problem)
    try:
        with logging_to_stderr(options.access_log):
            asyncio.run(server.serve(shared))
    except SystemExit:  # uvicorn's way to say that it could not listen
        raise ConfigError(
            f"{options.host}:{options.port} cannot be listened on ({problem.reason}); is it in use?"
            " choose another --port, or 0 for a free one."
        ) from None
    finally:
        log.removeFilter(problem)
        log.disabled = False
    if server.force_exit:
        raise KeyboardInterrupt


def make_server(
    app: Starlette, options: ServeOptions, ready: Callable[[str], None] | None = None
) -> uvicorn.Server:
    """Return a server for the application, with the limits of connections."""
    config = uvicorn.Config(
        app,
        host=options.host.strip("[]"),
        port=options.port,
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        # the other half is for files; what is above it gets a 503
        limit_concurrency=min(CONNECTIONS, _engine.descriptor_limit() // 2),
        timeout_keep_alive=IDLE_SECONDS,
        h11_max_incomplete_event_size=HEADER_BYTES,
    )
    return _Server(config, ready)
