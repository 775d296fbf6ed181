"""Connections to Ray: one is started on this machine, or a running cluster is joined.

Every failure is one sentence. Ray, which the extra ``cluster`` installs, is imported on first use;
nothing is sent to its makers. A process has one connection, which its users share.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import re
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Self

from drt_engine.cluster.local_ray import LocalRay
from drt_engine.errors import ConfigError, EngineError

LOCAL, AUTO = "local", "auto"
_PACKAGE = "drt-assistant"
_QUIET = {"log_to_driver": False, "configure_logging": False}  # of Ray's options
_CONNECT_SECONDS = 30.0
_PROBE_SECONDS = 5.0
_ADDRESS = re.compile(r"(?:ray://)?(?P<host>[^\s/:]+|\[[^\s/\]]+\]):(?P<port>\d{1,5})")
_TOKEN = (
    "it refuses who has not its token, which RAY_AUTH_MODE=token with RAY_AUTH_TOKEN or"
    " RAY_AUTH_TOKEN_PATH gives"
)
_MISSING_MODULE = re.compile(r"No module named '(\w+)")


class ActorEnded(Exception):
    """An actor, or its node, ended while it had a call; the message says how."""


class ActorTimeout(Exception):
    """An actor has not answered in time; it may still."""


class NoRoom(ConfigError):
    """An actor has not started in time, as no node has what it needs; it may still."""


@dataclass(frozen=True)
class Resources:
    """What an actor takes of its node; Ray starts it where that is free."""

    threads: int = 1
    device: str = "cpu"

    @property
    def options(self) -> dict[str, float]:
        """Return Ray's options for them."""
        return {"num_cpus": self.threads, "num_gpus": 1 if self.device == "cuda" else 0}


class Actor:
    """What every class of actors is made from: it says where it runs, and with which drt."""

    def greet(self, version: str) -> str:
        """Return the name of its machine; raises ConfigError where drt has another version."""
        installed = _installed_version()
        if installed != version:
            raise ConfigError(
                f"the worker on {socket.gethostname()} has drt {installed or 'of no version'},"
                f" expected {version or 'one of no version'}: install the same drt on all nodes"
            )
        return socket.gethostname()


class Cluster:
    """An open connection; make one with ``connect``, close it or use it as a context manager."""

    def __init__(self, ray: Any, address: str) -> None:
        self._ray, self.address = ray, address
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; the last to leave a local Ray ends it. May be called twice."""
        if self._is_open:
            self._is_open = False
            _SHARED.leave(self._ray)

    def start(
        self,
        kind: type[Actor],
        *arguments: Any,
        resources: Resources,
        groups: dict[str, int] | None = None,
    ) -> Any:
        """Return the handle of a new actor of a class, as soon as it is asked for.

        Calls run one at a time, in order, but for those of ``groups``, which have so many threads:
        ``handle.method.options(concurrency_group=NAME).remote()``. The class's constructor should
        do nothing that can fail: only the errors of calls are told apart. ``wait_for`` it first.
        """
        options: dict[str, Any] = {**resources.options, "max_restarts": 0}
        if groups:
            options["concurrency_groups"] = groups
        return self._ray.remote(**options)(kind).remote(*arguments)

    def wait_for(self, actor: Any, *, timeout: float) -> str:
        """Return the name of the machine where a new actor runs, once it does.

        Raises ConfigError where drt is missing there or another version, and ``NoRoom`` where no
        node had what the actor needs within ``timeout`` seconds.
        """
        try:
            return str(self.result(actor.greet.remote(_installed_version()), timeout=timeout))
        except ActorTimeout:
            raise NoRoom(
                f"a worker has not started within {timeout:g} s (the Ray cluster at {self.address}"
                f" has {_processors(self._ray)} free): wait for other work there, or ask for less"
            ) from None

    def result(self, reference: Any, *, timeout: float | None = None) -> Any:
        """Return what a call returns, or raise what it raises on purpose.

        Raises ``ActorEnded``, ``ActorTimeout``, and ``ConfigError`` for a worker without drt.
        """
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(reference, timeout=timeout)
        except exceptions.GetTimeoutError:
            raise ActorTimeout(f"no answer within {timeout:g} s") from None
        except (exceptions.RayActorError, exceptions.NodeDiedError) as error:
            raise _ended(str(error)) from None
        except exceptions.RayTaskError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, EngineError):
                raise cause from None
            raise _mistake(str(error)) from None
        except exceptions.RayError as error:
            raise ActorEnded(f"by {_first_line(str(error))}") from None

    def ready(self, references: list[Any], *, timeout: float | None) -> list[Any]:
        """Wait until a call has returned or failed, and return those that have; may be none."""
        done, _ = self._ray.wait(references, num_returns=1, timeout=timeout)
        return list(done)

    def kill(self, actor: Any) -> None:
        """End an actor at once, whatever it does; harmless when it has ended."""
        with contextlib.suppress(Exception):
            self._ray.kill(actor, no_restart=True)


def connect(address: str, *, cpus: int = 1, timeout: float = _CONNECT_SECONDS) -> Cluster:
    """Return a connection to Ray at an address; a connection that this process has is shared.

    address: ``local`` starts a Ray for this process, with ``cpus`` processors to give to actors;
        ``auto`` joins the Ray of this machine, or that of ``RAY_ADDRESS``; ``host:port`` joins a
        cluster that this machine is a node of, ``ray://host:port`` one from outside.

    Raises ConfigError where the address is none, where nothing answers there within ``timeout``
    seconds, and without the extra ``cluster``.
    """
    if address not in (LOCAL, AUTO) and _ADDRESS.fullmatch(address) is None:
        raise ConfigError(
            f"{address!r} is not the address of a Ray cluster, expected local, auto, HOST:PORT or"
            " ray://HOST:PORT"
        )
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError(
            f"the package {error.name or 'ray'} is not installed;"
            ' pip install "drt-assistant[cluster]" installs it'
        ) from None
    _SHARED.join(ray, address, cpus=cpus, timeout=timeout)
    return Cluster(ray, address)


def _installed_version() -> str:
    """Return the version of the drt that is installed; empty for a tree that is not."""
    try:
        return metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError:
        return ""


class _SharedConnection:
    """The connection of this process, and how many use it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._users = 0
        self._address = ""
        self._local: LocalRay | None = None
        self._is_guest = False  # in a connection that somebody else opened

    def join(self, ray: Any, address: str, *, cpus: int, timeout: float) -> None:
        """Open the connection, or use it once more; raises ConfigError."""
        with self._guard:
            if self._users and address != self._address:
                raise ConfigError(
                    f"this process is connected to Ray at {self._address} already, expected"
                    f" that address, not {address}: close what uses it first"
                )
            if not self._users:
                self._is_guest = bool(ray.is_initialized())
                if not self._is_guest:
                    self._open(ray, address, cpus=cpus, timeout=timeout)
                self._address = address
            self._users += 1

    def leave(self, ray: Any) -> None:
        """Use it once less, and close it after the last."""
        with self._guard:
            self._users -= 1
            if self._users or self._is_guest:
                return
            ray.shutdown()
            if self._local is not None:
                self._local.remove_folder()
                self._local = None

    def _open(self, ray: Any, address: str, *, cpus: int, timeout: float) -> None:
        _silence()
        try:
            if address == LOCAL:
                local = LocalRay(ray, cpus=cpus)
                local.start(**_QUIET)
                self._local = local
            else:
                _probe(address, timeout)
                ray.init(address=address, **_QUIET)
        except ConfigError:
            raise
        except Exception as error:  # of many types, which differ from version to version
            raise ConfigError(_unreachable(address, _first_line(str(error)))) from None


_SHARED = _SharedConnection()


def _probe(address: str, timeout: float) -> None:
    """Raise ConfigError unless a Ray answers at an address within ``timeout`` seconds.

    Another process connects first: where nothing answers, Ray tries for minutes, writes warnings,
    and may end the process.
    """
    if match := _ADDRESS.fullmatch(address):
        host, port = match["host"].strip("[]"), int(match["port"])
        try:
            socket.create_connection((host, port), timeout=min(timeout, _PROBE_SECONDS)).close()
        except (OSError, OverflowError) as error:
            raise ConfigError(_unreachable(address, str(error))) from None
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    command = [sys.executable, "-P", "-m", "drt_engine.cluster.probe", address]
    try:
        process = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=os.environ | {"PYTHONPATH": path},
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as error:
        reason = f"no Ray has answered within {timeout:g} s"
        if _wants_token(error.stderr):
            reason = _TOKEN
        raise ConfigError(_unreachable(address, reason)) from None
    lines = process.stdout.decode("utf-8", "replace").splitlines()
    try:
        message = json.loads(lines[-1])["error"] if lines else "the connection ended"
    except (ValueError, KeyError, TypeError):
        message = "the connection ended"
    if message is not None:
        reason = _TOKEN if _wants_token(process.stderr) else message
        raise ConfigError(_unreachable(address, reason))


def probe(address: str) -> str | None:
    """Return why no Ray can be joined at an address, None where one can."""
    ray = importlib.import_module("ray")
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except Exception as error:
        return _first_line(str(error))
    ray.shutdown()
    return None


def _wants_token(warnings: bytes | None) -> bool:
    """Return whether Ray's warnings say that a cluster refuses who has not its token."""
    return b"InvalidAuthToken" in (warnings or b"")


def _unreachable(address: str, reason: str) -> str:
    if address == LOCAL:
        return (
            f"Ray cannot be started on this machine ({reason}): free memory and processors, or go"
            " on without it"
        )
    return (
        f"no Ray cluster can be joined at {address} ({reason}): start one with `ray start --head`,"
        " check the address, or use local"
    )


def _silence() -> None:
    """Keep Ray's notes off stderr, and its reports of ended workers off stdout, where results go.

    Every failure reaches the caller as an error, too.
    """
    logging.getLogger("ray").setLevel(logging.ERROR)
    with contextlib.suppress(ImportError, AttributeError):
        worker = importlib.import_module("ray._private.worker")
        if hasattr(worker, "print_to_stdstream"):
            worker.print_to_stdstream = _print_nothing  # type: ignore[attr-defined]


def _print_nothing(*_arguments: Any, **_options: Any) -> None:
    """Take the place of Ray's function that prints what workers and nodes report."""


def _ended(text: str) -> Exception:
    """Return the error for an actor that ended, which may never have begun."""
    if match := _MISSING_MODULE.search(text):
        return ConfigError(
            f"a worker of the Ray cluster has no package {match[1]}: install the same drt on all"
            ' nodes with pip install "drt-assistant[cluster]"'
        )
    return ActorEnded(f"({_reason(text)})")


def _mistake(text: str) -> Exception:
    """Return the error for a call that failed by a mistake of the program."""
    if "failed to import" in text:
        return _ended(text)
    return RuntimeError(f"in a worker of the Ray cluster: {text}")


def _processors(ray: Any) -> str:
    """Return how many processors are free, in words."""
    try:
        count = ray.available_resources().get("CPU", 0)
    except Exception:  # it is only for a message
        return "an unknown number of processors"
    return f"{count:g} processor{'s' * (count != 1)}"


def _reason(text: str) -> str:
    """Return the sentence of Ray's report that says why an actor ended."""
    if "connection error code 2" in text:  # the end of its socket
        return "its process was killed"
    patterns = r"Worker exit detail: ([^.\n]+)", r"The actor (?:died|is dead) because ([^.\n]+)"
    for pattern in patterns:
        if match := re.search(pattern, text):
            return match[1].strip()
    return _first_line(text)


def _first_line(text: str) -> str:
    """Return the first sentence of a report, without the colours of terminals."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).strip()
    line = plain.splitlines()[0] if plain else "no reason was given"
    return re.split(r"\.\s", line)[0].rstrip(".:")
