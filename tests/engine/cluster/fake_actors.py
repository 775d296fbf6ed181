"""Actors in this process at the seam of ``Connection``: on time, late, dead, or wrong.

A late call is answered as soon as it is no longer ``late``, or never.
"""

from __future__ import annotations

import pickle
from collections import deque
from typing import Any

from drt_engine.cluster.connection import ActorEnded
from drt_engine.errors import ConfigError


class Reference:
    """What a call will return."""

    def __init__(self, compute: Any, *, late: bool) -> None:
        self._compute = compute
        self.late = late

    def result(self) -> Any:
        return self._compute()


class Method:
    def __init__(self, handle: Handle, name: str) -> None:
        self._handle, self._name = handle, name

    def options(self, **_: Any) -> Method:
        return self

    def remote(self, *arguments: Any) -> Reference:
        return self._handle.call(self._name, arguments)


class Handle:
    """An actor; ``number`` counts all that were started, from 0."""

    def __init__(self, cluster: FakeCluster, instance: Any, path: str) -> None:
        self.cluster, self.instance, self.path = cluster, instance, path
        self.is_alive = True

    def __getattr__(self, name: str) -> Method:
        return Method(self, name)

    def call(self, name: str, arguments: tuple[Any, ...]) -> Reference:
        sent = pickle.dumps(arguments)  # as between processes
        self.cluster.called.append((name, self.path, len(sent)))
        trouble = self.cluster.next_trouble(name, self.path)
        if trouble == "dead":
            self.is_alive = False

        def compute() -> Any:
            if not self.is_alive:
                raise ActorEnded("(its process was killed)")
            if trouble == "old":
                raise ConfigError("the worker on a node has drt 0.1, expected 0.2")
            if name == "version":
                return "here"
            if trouble == "wrong":
                return "something else"
            if trouble == "broken":
                raise RuntimeError("in a worker of the Ray cluster: Traceback\nKeyError: 3")
            reply = pickle.dumps(getattr(self.instance, name)(*pickle.loads(sent)))
            self.cluster.replied.append(len(reply))
            return pickle.loads(reply)

        return Reference(compute, late=trouble == "late")


class Clock:
    """The time, which passes only while a cluster waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class FakeCluster:
    """A ``Connection``; nothing waits, a call that is late is not ready until the deadline."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.handles: list[Handle] = []
        self.called: list[tuple[str, str, int]] = []
        self.replied: list[int] = []
        self.troubles: dict[tuple[str, str], deque[str]] = {}
        self.is_closed = False

    def trouble(self, method: str, path: Any, *kinds: str) -> None:
        """Let the next calls of a shard's method be late, dead, wrong, broken or good."""
        self.troubles[method, str(path)] = deque(kinds)

    def next_trouble(self, method: str, path: str) -> str:
        kinds = self.troubles.get((method, path))
        return kinds.popleft() if kinds else "good"

    def start(
        self, kind: Any, *arguments: Any, resources: Any, groups: dict[str, int] | None = None
    ) -> Handle:
        assert resources.threads == 1 and groups
        settings = pickle.loads(pickle.dumps(arguments[0]))
        self.handles.append(Handle(self, kind(settings), settings.path))
        return self.handles[-1]

    def wait_for(self, actor: Handle, *, timeout: float) -> str:
        return str(self.result(actor.version.remote()))

    def result(self, reference: Reference, *, timeout: float | None = None) -> Any:
        return reference.result()

    def ready(self, references: list[Reference], *, timeout: float | None) -> list[Reference]:
        done = [reference for reference in references if not reference.late][:1]
        if not done:
            self.clock.now += timeout or 0
        return done

    def kill(self, actor: Handle) -> None:
        actor.is_alive = False

    def close(self) -> None:
        self.is_closed = True

    def calls(self, method: str) -> list[str]:
        """The shards whose method was called since the last ``clear``, by their folders."""
        return [path for name, path, _ in self.called if name == method]

    def clear(self) -> None:
        self.called.clear()
        self.replied.clear()
