"""The actors beside the shards: a question is sent to all at once, and answered by a deadline.

A shard that is late is asked a second time, of a second actor; the first reply counts. An actor
that ends is replaced by the next that is needed. Knows nothing of what is asked.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from drt_engine.cluster.connection import Actor, ActorEnded, ActorTimeout, Resources
from drt_engine.cluster.messages import ShardFailure, ShardSettings
from drt_engine.cluster.shard_server import ShardServer
from drt_engine.errors import EngineError

DEADLINE = 10.0  # seconds
LATE = 0.25  # of the deadline: from then on a second actor is asked, too
_START_SECONDS = 120.0  # for actors' programs to be loaded when the first libraries are opened
MOST_ACTORS = 2  # of one shard
_WORDS = "words"  # the threads in which tables of words are read, while questions are answered


class Connection(Protocol):
    """What a ``Cluster`` can do."""

    def start(
        self,
        kind: type[Actor],
        *arguments: Any,
        resources: Resources,
        groups: dict[str, int] | None = None,
    ) -> Any:
        """Return the handle of a new actor."""

    def wait_for(self, actor: Any, *, timeout: float) -> str:
        """Return the machine of an actor once it runs, with the same drt."""

    def result(self, reference: Any, *, timeout: float | None = None) -> Any:
        """Return what a call returns, or raise what it raises."""

    def ready(self, references: list[Any], *, timeout: float | None) -> list[Any]:
        """Wait until a call is done; return those that are."""

    def kill(self, actor: Any) -> None:
        """End an actor."""

    def close(self) -> None:
        """Leave the cluster."""


@dataclass(eq=False)
class _Replica:
    """One actor of a shard, and a call that it has not answered yet, when nobody waits any more."""

    handle: Any
    unanswered: Any = None


@dataclass
class _ActorsOfShard:
    settings: ShardSettings
    replicas: list[_Replica] = field(default_factory=list)


@dataclass
class Gathered:
    """The replies to one question, and why others are missing, by the shards' folders."""

    replies: dict[Path, Any] = field(default_factory=dict)
    failures: dict[Path, str] = field(default_factory=dict)


class ShardActors:
    """The actors of all shards; ``deadline`` is in seconds, ``settings`` are those of every shard.

    ``calls`` counts the calls of each method, the second ones of late shards included.
    """

    def __init__(
        self, connection: Connection, settings: ShardSettings, *, deadline: float = DEADLINE
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._deadline = deadline
        self._seconds_to_open = _START_SECONDS
        self._shards: dict[Path, _ActorsOfShard] = {}
        self.calls: dict[str, int] = {}

    def has(self, path: Path) -> bool:
        """Return whether a shard has been given an actor."""
        return path in self._shards

    def open(self, paths: Sequence[Path]) -> dict[Path, str]:
        """Start the actors of shards; return why some cannot be read there.

        Raises ConfigError where a node has no drt or another version of it, or no room.
        """
        failures: dict[Path, str] = {}
        unopened = list(paths)
        seconds, self._seconds_to_open = self._seconds_to_open, self._deadline
        try:
            for path in paths:
                # An actor has another working directory.
                settings = replace(self._settings, path=str(path.absolute()))
                self._shards[path] = _ActorsOfShard(settings)
                self._start(path)
            for path in paths:
                failure = self._opened(self._shards[path].replicas[0].handle, seconds)
                if isinstance(failure, ShardFailure):
                    failures[path] = failure.reason
                    self.drop(path)
                unopened.remove(path)
        finally:  # after an error the next question opens the others, or fails in the same way
            for path in unopened:
                self.drop(path)
        return failures

    def _opened(self, handle: Any, seconds: float) -> Any:
        """Return what an actor says once it has opened its shard, or why it could not."""
        try:
            self._connection.wait_for(handle, timeout=seconds)
            return self._connection.result(handle.open.remote(), timeout=seconds)
        except (ActorEnded, ActorTimeout) as error:
            return ShardFailure(_ended(error))

    def drop(self, path: Path) -> None:
        """End the actors of a shard, if it has some."""
        shard = self._shards.pop(path, None)
        for replica in [] if shard is None else shard.replicas:
            self._connection.kill(replica.handle)

    def close(self) -> None:
        """End all actors, and leave the cluster."""
        for path in list(self._shards):
            self.drop(path)
        self._connection.close()

    def request_words(self, path: Path) -> Any:
        """Return the reference of a call for a shard's table of words, which nobody waits for."""
        self._count("vocabulary")
        method = self._idle(path).handle.vocabulary
        return method.options(concurrency_group=_WORDS).remote()

    def words(self, reference: Any) -> Any:
        """Return a table of words that was requested, once it is there, or why it failed; None."""
        if not self._connection.ready([reference], timeout=0):
            return None
        try:
            return self._connection.result(reference)
        except (EngineError, ActorEnded, RuntimeError) as error:
            return ShardFailure(str(error))

    def ask(self, requests: Mapping[Path, Any]) -> Gathered:
        """Send each shard its request at once; return the replies that come by the deadline."""
        return _Gathering(self, requests, self._connection, self._deadline).run()

    def send(self, path: Path, request: Any) -> tuple[Any, _Replica]:
        """Send a request to an actor that has nothing else to do; return the call's reference."""
        self._count("lookup")
        replica = self._idle(path)
        replica.unanswered = replica.handle.lookup.remote(request)
        return replica.unanswered, replica

    def lose(self, path: Path, replica: _Replica) -> None:
        """Forget an actor that ended."""
        self._connection.kill(replica.handle)
        replicas = self._shards[path].replicas
        if replica in replicas:
            replicas.remove(replica)

    def prefer(self, path: Path, replica: _Replica) -> None:
        """Ask the actor that has replied first before the other, next time."""
        replicas = self._shards[path].replicas
        replicas.sort(key=lambda other: other is not replica)

    def _idle(self, path: Path) -> _Replica:
        """Return an actor of a shard without an unanswered call, started where there is none.

        Where both have one, the older is ended: it may never answer again.
        """
        shard = self._shards[path]
        for replica in shard.replicas:
            if replica.unanswered is None or self._answers_again(replica):
                return replica
        if len(shard.replicas) == MOST_ACTORS:
            self._connection.kill(shard.replicas.pop(0).handle)
        return self._start(path)

    def _answers_again(self, replica: _Replica) -> bool:
        """Return whether an actor has answered the call that it was late with."""
        if not self._connection.ready([replica.unanswered], timeout=0):
            return False
        replica.unanswered = None
        return True

    def _start(self, path: Path) -> _Replica:
        shard = self._shards[path]
        handle = self._connection.start(
            ShardServer,
            shard.settings,
            resources=Resources(threads=shard.settings.threads),
            groups={_WORDS: 1},
        )
        shard.replicas.append(_Replica(handle))
        return shard.replicas[-1]

    def _count(self, method: str) -> None:
        self.calls[method] = self.calls.get(method, 0) + 1


class _Gathering:
    """One scatter and its gather."""

    def __init__(
        self,
        actors: ShardActors,
        requests: Mapping[Path, Any],
        connection: Connection,
        deadline: float,
    ) -> None:
        self._actors, self._requests = actors, requests
        self._connection, self._deadline = connection, deadline
        self._began = time.monotonic()
        self._gathered = Gathered()
        self._calls: dict[Any, tuple[Path, _Replica]] = {}  # by their references
        self._hedged: set[Path] = set()
        self._reasons: dict[Path, str] = {}  # why an actor ended

    def run(self) -> Gathered:
        """Send all requests, wait, and send them again where they are late or an actor ended."""
        for path in self._requests:
            self._send(path)
        while missing := self._missing():
            seconds = time.monotonic() - self._began
            if seconds >= self._deadline:
                break
            late = [path for path in missing if path not in self._hedged]
            if seconds >= LATE * self._deadline:
                for path in late:
                    self._hedge(path)
                late = []
            until = LATE * self._deadline if late else self._deadline
            references = list(self._calls)
            for reference in self._connection.ready(references, timeout=until - seconds):
                self._take(reference)
        for path in self._missing():
            reason = self._reasons.get(path, "its actor is late")
            self._gathered.failures[path] = (
                f"the library at {path} has not answered within {self._deadline:g} s ({reason})"
            )
        return self._gathered

    def _missing(self) -> list[Path]:
        done = self._gathered
        return [p for p in self._requests if p not in done.replies and p not in done.failures]

    def _send(self, path: Path) -> None:
        reference, replica = self._actors.send(path, self._requests[path])
        self._calls[reference] = (path, replica)

    def _hedge(self, path: Path) -> None:
        """Ask a second actor."""
        self._hedged.add(path)
        self._send(path)

    def _take(self, reference: Any) -> None:
        """Take the result of a call; of two calls, the first result counts."""
        path, replica = self._calls.pop(reference)
        replica.unanswered = None
        try:
            reply = self._connection.result(reference)
        except ActorEnded as error:
            self._actors.lose(path, replica)
            self._reasons[path] = _ended(error)
            waits = any(busy_path == path for busy_path, _ in self._calls.values())
            if path not in self._hedged:
                self._hedge(path)
            elif not waits and path in self._missing():
                self._gathered.failures[path] = f"the library at {path}: {_ended(error)}"
            return
        except (EngineError, RuntimeError) as error:
            reply = ShardFailure(f"the actor of the library at {path} has failed: {_last(error)}")
        if path not in self._missing():
            return
        if isinstance(reply, ShardFailure) and not reply.changed:
            self._gathered.failures[path] = reply.reason
            return
        self._actors.prefer(path, replica)
        self._gathered.replies[path] = reply


def _ended(error: Exception) -> str:
    return f"its actor has ended {error}" if isinstance(error, ActorEnded) else str(error)


def _last(error: Exception) -> str:
    """Return the last line of a message, which names the error below a traceback."""
    return str(error).strip().rpartition("\n")[2]


def expect_replies(gathered: Gathered, kinds: Sequence[type]) -> None:
    """Make replies that are none of ``kinds`` failures: of a program that is not this one."""
    for path, reply in list(gathered.replies.items()):
        if not isinstance(reply, tuple(kinds)):
            del gathered.replies[path]
            gathered.failures[path] = (
                f"the actor of the library at {path} has answered with {type(reply).__name__},"
                " expected what was looked up: install the same drt on all nodes"
            )
