"""Several server processes that share one socket, and the process that keeps them running.

Workers are forks of a process that has loaded the model, which is so in memory once. Each opens
the library by itself, as programs beside each other do. One that dies is replaced; all end with
the process that made them, whatever ends it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

from drt_cli import _forking
from drt_cli._errors import CliError, handle_errors
from drt_cli._options import Settings

_BACKLOG = 2048
_YOUNG = 5.0  # seconds after which a worker that ends has worked
_EARLY_ENDS = 3  # workers in a row that end before, after which no other begins
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"

Listener = socket.socket
Work = Callable[[Listener, Callable[[], None]], None]


def listening_socket(host: str, port: int) -> Listener:
    """Return a socket that listens; CliError where the address cannot be listened on."""
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise CliError(
            f"{host}:{port} cannot be listened on ({error.strerror or error}); is it in use?"
            " choose another --port, or 0 for a free one."
        ) from error


def share_of_threads(settings: Settings, workers: int) -> int:
    """Return the threads of each worker, of which all together have those of one server."""
    from drt import _engine

    return max(1, _engine.choose_threads(settings.threads).count // workers)


def load_model(settings: Settings) -> None:
    """Load the model that forks share; CliError where this process cannot be forked."""
    if sys.platform != "linux":
        raise CliError("several workers are forks, which need Linux; leave out --workers.")
    from drt import _engine
    from drt._errors import engine_errors

    with engine_errors():
        _engine.preload(
            _engine.model_path(settings.model), device=settings.device, dtype=settings.dtype
        )
    if _forking.uses_gpu():
        raise CliError("a GPU serves one process; leave out --workers, or choose --device cpu.")
    if _forking.has_other_threads():
        raise CliError(
            "loading the model left threads in this process, which forks cannot have;"
            " leave out --workers."
        )


def run_workers(
    count: int,
    listener: Listener,
    work: Work,
    *,
    ready: Callable[[], None],
    say: Callable[[str], None],
    debug: bool,
) -> int:
    """Run ``work`` in so many processes until SIGINT or SIGTERM; return the exit status.

    It is called with the socket, and with what says that it accepts connections from it. What runs
    is finished after the first signal, and cut off after a second. ``say`` is told of workers that
    died. Where the first worker fails as it begins, the others are not begun.
    """
    with _metrics_folder():
        return _Workers(count, listener, work, say, debug).run(ready)


class _Workers:
    def __init__(
        self,
        count: int,
        listener: Listener,
        work: Work,
        say: Callable[[str], None],
        debug: bool,
    ) -> None:
        self._count = count
        self._listener = listener
        self._work = work
        self._say = say
        self._debug = debug
        self._began: dict[int, float] = {}  # by process
        self._early_ends = 0
        self._status = 0
        self._stopping = False
        self._watched, self._end = os.pipe()  # workers end when its last writing end is closed

    def run(self, ready: Callable[[], None]) -> int:
        """Begin all workers and replace those that end, until a signal; return the status."""
        before = {
            number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            if self._begin():
                while len(self._began) < self._count and not self._stopping:
                    self._begin()
                if not self._stopping:
                    ready()
            while self._began:
                with contextlib.suppress(ChildProcessError):
                    self._ended(*os.wait())
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._end)
            os.close(self._watched)
        return self._status

    def _begin(self) -> bool:
        """Begin a worker; return whether it accepts connections."""
        told, tell = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # A signal between the fork and the note of its process would miss this worker.
        signals = {signal.SIGINT, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        try:
            pid = os.fork()
            if pid == 0:
                os.close(told)
                self._become_worker(signals, tell)
            self._began[pid] = time.monotonic()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
            os.close(tell)
        if self._stopping:  # by a signal before it was noted
            _stop(pid)
        try:
            return bool(os.read(told, 1))  # nothing where it has ended
        finally:
            os.close(told)

    def _become_worker(self, signals: set[signal.Signals], tell: int) -> NoReturn:
        status = 1
        try:
            os.setsid()  # Ctrl-C is for the process that stops this one
            os.close(self._end)
            for number in signals:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
            threading.Thread(target=_end_with, args=(self._watched,), daemon=True).start()
            status = handle_errors(
                lambda: self._work(self._listener, lambda: _tell(tell)), debug=self._debug
            )
        finally:
            with contextlib.suppress(OSError, ValueError):
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
            os._exit(status)

    def _ended(self, pid: int, how: int) -> None:
        began = self._began.pop(pid, None)
        _forget_metrics(pid)
        if began is None or self._stopping:
            return
        is_early = time.monotonic() - began < _YOUNG
        self._early_ends = self._early_ends + 1 if is_early else 0
        status = os.waitstatus_to_exitcode(how)
        if is_early and (status > 0 or self._early_ends >= _EARLY_ENDS):
            self._status = status if status > 0 else 1  # a worker that ends by itself says why
            self._stop()
            return
        how_it_ended = f"was ended by signal {-status}" if status < 0 else "ended"
        self._say(f"Worker {pid} {how_it_ended}; another one begins.")
        self._begin()

    def _stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        self._stopping = True
        for pid in self._began:
            _stop(pid)


def _stop(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def _tell(descriptor: int) -> None:
    os.write(descriptor, b"1")
    os.close(descriptor)


def _end_with(watched: int) -> None:
    """End this process as a signal would, once nobody holds the other end of a pipe."""
    os.read(watched, 1)
    os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def _metrics_folder() -> Iterator[None]:
    """Let workers count into files of one folder, so that each can show the numbers of all."""
    if METRICS_FOLDER in os.environ:
        yield
        return
    folder = tempfile.mkdtemp(prefix="drt-metrics-")
    os.environ[METRICS_FOLDER] = folder
    try:
        yield
    finally:
        del os.environ[METRICS_FOLDER]
        shutil.rmtree(folder, ignore_errors=True)


def _forget_metrics(pid: int) -> None:
    """Forget what waited in a worker that is gone; what it counted stays."""
    with contextlib.suppress(ImportError):  # the worker has said so
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(pid)  # type: ignore[no-untyped-call]
