"""Reading documents into the shards of a library, by an actor for each shard.

A thread for each shard asks its actor for one document after the other. An actor that ends is
started anew, and the document that it had open is tried once more. Where no node has room for it,
as one was lost, it waits for those that are done. Knows no model.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from drt_engine.cluster.connection import (
    ActorEnded,
    ActorTimeout,
    Cluster,
    NoRoom,
    Resources,
)
from drt_engine.cluster.shard_reader import (
    DocumentResult,
    LoadedModel,
    ModelSettings,
    ShardReader,
)
from drt_engine.cluster.shards import ShardedLibrary
from drt_engine.cluster.status import STATUS, Progress, ShardStatus
from drt_engine.errors import ConfigError, UnreadableDocument

_ATTEMPTS = 2  # actors that one document may cost, or the start of one
_AHEAD = 2  # documents that an actor was asked for, so that it never waits
_FAILURES = 3  # documents in a row that may end their actors, before their archive is left
_POLL = 0.5  # seconds between two reports of progress
_SEEN_SECONDS = 10.0  # that a file system may take to show what another machine made


@dataclass(frozen=True)
class ReadingOptions:
    """How shards are read; seconds are those of a lock, and of the start of an actor."""

    model: ModelSettings
    tags: tuple[str, ...] = ()
    lock_timeout: float = 10.0
    start_timeout: float = 300.0


@dataclass(frozen=True)
class NamedFile:
    """A file that holds a document, or of an archive any number."""

    path: Path
    is_archive: bool = False


@dataclass
class _Call:
    """A document that an actor is asked for; ``reference`` is that of the call, once it is made."""

    file: NamedFile
    position: int
    reference: Any = None


class ShardedReading:
    """Reads files into a library's shards; use it as a context manager, which ends all actors.

    ``actors`` are those that run now, by the numbers of their shards.
    """

    def __init__(self, cluster: Cluster, library: ShardedLibrary, options: ReadingOptions) -> None:
        self._cluster, self._library, self._options = cluster, library, options
        self._results: queue.SimpleQueue[DocumentResult | BaseException | None]
        self._results = queue.SimpleQueue()
        self._models: dict[int, LoadedModel] = {}
        self._guard = threading.Lock()
        self._is_closed = False
        self._drivers: list[_ShardDriver] = []
        self._done: set[int] = set()  # the shards whose threads have ended
        self._waiting: set[int] = set()  # those whose new actors have not started
        self.actors: dict[int, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Let an actor load the model for each shard, and open all when all have the same one.

        The list of the shards is written then. Raises ConfigError where no actor can be started,
        and StoreError where a shard cannot be opened.
        """
        self._library.make_folder()
        numbers = range(self._library.count)
        for number in numbers:
            self.actors[number] = self._launched()
        for number in numbers:
            self._load(number)
        for number in numbers:
            try:
                self._open(number)
            except ActorEnded:
                self.discard(number)  # the thread of the shard starts another one
        self._library.write_list()

    def results(
        self, files: Iterable[NamedFile], *, progress: Progress | None = None
    ) -> Generator[DocumentResult, None, None]:
        """Yield what becomes of each document; ``open`` comes first.

        Raises StoreError where a shard cannot be written. Leaving before the end ends all actors.
        """
        shards: list[list[NamedFile]] = [[] for _ in range(self._library.count)]
        for file in files:
            shards[self._library.shard_of(file.path)].append(file)
        self._done.clear()
        self._drivers = [_ShardDriver(self, n, named) for n, named in enumerate(shards)]
        threads = [
            threading.Thread(target=driver.run, name=f"drt-shard-{number}", daemon=True)
            for number, driver in enumerate(self._drivers)
        ]
        for thread in threads:
            thread.start()
        is_complete = False
        try:
            yield from self._collected(sum(map(len, shards)), progress)
            is_complete = True
        finally:
            if not is_complete:
                self.close()
            for thread in threads:
                thread.join()

    def close(self) -> None:
        """End all actors at once, whatever they do; what they have written stays."""
        with self._guard:
            self._is_closed = True
            actors, self.actors = self.actors, {}
        for actor in actors.values():
            self._cluster.kill(actor)

    def _collected(self, files: int, progress: Progress | None) -> Iterator[DocumentResult]:
        """Yield results as they come, until all threads have ended; raise what one raises."""
        status = ShardStatus(self._cluster, self._library.count, files)
        running = len(self._drivers)
        while running:
            if progress is not None:
                progress(
                    status.now(self.actors, sum(driver.files_done for driver in self._drivers))
                )
            try:
                item = self._results.get(timeout=None if progress is None else _POLL)
            except queue.Empty:
                continue
            if isinstance(item, BaseException):
                raise item
            if item is None:
                running -= 1
            else:
                status.add(item)
                yield item

    def put(self, item: DocumentResult | BaseException | None) -> None:
        """Hand over a result, an error, or None from a thread that has ended."""
        self._results.put(item)

    def cpu_seconds(self) -> float:
        """Return the processor's seconds of all actors that run."""
        calls = [actor.cpu_seconds.remote() for actor in self.actors.values()]
        return float(sum(self._cluster.result(call) for call in calls))

    # actors

    def actor(self, number: int) -> Any:
        """Return the actor of a shard, started anew where there is none; raises ActorEnded."""
        with self._guard:
            if self._is_closed:
                raise ActorEnded("with the others")
            actor = self.actors.get(number)
            if actor is not None:
                return actor
            self.actors[number] = self._launched()
        self._make_room(number)
        try:
            self._load(number)
        finally:
            with self._guard:
                self._waiting.discard(number)
        self._open(number)
        return self.actors[number]

    def _make_room(self, number: int) -> None:
        """Note that an actor waits for room, and end those of shards that are done."""
        with self._guard:
            self._waiting.add(number)
            done = list(self._done)
        for other in done:
            self.discard(other)

    def end_shard(self, number: int) -> None:
        """Note that a shard is done; its actor ends where another one waits for its room."""
        with self._guard:
            self._done.add(number)
            is_in_the_way = bool(self._waiting)
        if is_in_the_way:
            self.discard(number)

    def call(self, actor: Any, call: _Call) -> Any:
        """Ask an actor for a document, and return the reference of the call."""
        return actor.read.remote(str(call.file.path), call.position)

    def outcome(self, call: _Call) -> DocumentResult | None:
        """Wait for a document; raises ActorEnded, StoreError."""
        result: DocumentResult | None = self._cluster.result(call.reference)
        return result

    def discard(self, number: int) -> None:
        """Forget an actor that has ended."""
        with self._guard:
            actor = self.actors.pop(number, None)
        if actor is not None:
            self._cluster.kill(actor)

    def _launched(self) -> Any:
        model = self._options.model
        resources = Resources(model.threads, model.device)
        return self._cluster.start(ShardReader, resources=resources, groups={STATUS: 1})

    def _load(self, number: int) -> None:
        """Let an actor load the model, another one where it ends; raises ConfigError."""
        timeout = self._options.start_timeout
        for attempt in range(1, _ATTEMPTS + 1):
            actor = self.actors[number]
            try:
                host = self._started(number, actor)
                model = self._cluster.result(
                    actor.load.remote(self._options.model), timeout=timeout
                )
                break
            except ActorTimeout:
                raise ConfigError(
                    f"a worker has not loaded the model within {timeout:g} s: check its machine"
                ) from None
            except ActorEnded as ended:
                if self._is_closed:
                    raise
                if attempt == _ATTEMPTS:
                    raise ConfigError(
                        f"a worker ended {_ATTEMPTS} times while it loaded the model {ended}; there"
                        f" may be too little memory for {self._library.count} shards: use more"
                        " machines, or fewer shards in another library"
                    ) from None
                self.actors[number] = self._launched()
        self._models[number] = model
        first = next(iter(self._models.values()))
        if model != first:
            raise ConfigError(
                f"the worker on {host} has the model {model.fingerprint} in {model.dtype}, expected"
                f" {first.fingerprint} in {first.dtype} as another worker: install the same drt on"
                " all nodes, and name the type with --dtype"
            )

    def _started(self, number: int, actor: Any) -> str:
        """Return the machine of an actor once it runs, which may be when another shard is done."""
        while True:
            with self._guard:
                idle = set(range(len(self._drivers))) - self._done - self._waiting - {number}
            try:
                return self._cluster.wait_for(actor, timeout=self._options.start_timeout)
            except NoRoom:
                if not idle:
                    raise

    def _open(self, number: int) -> None:
        """Let an actor open its shard, which this process must see then; raises ConfigError."""
        shard = self._library.shards[number]
        opened = self.actors[number].open.remote(
            str(shard), self._options.tags, self._options.lock_timeout
        )
        self._cluster.result(opened)
        deadline = time.monotonic() + _SEEN_SECONDS
        while not shard.is_dir():
            if time.monotonic() > deadline:
                raise ConfigError(
                    f"the shard {shard} that a worker made is not seen here: put the library on a"
                    " file system that all nodes share"
                )
            time.sleep(0.1)

    @property
    def is_closed(self) -> bool:
        """Whether the reading is left, so that nothing is started anew."""
        return self._is_closed


class _ShardDriver:
    """Asks the actor of one shard for its documents, in the order of their files."""

    def __init__(self, reading: ShardedReading, number: int, files: Sequence[NamedFile]) -> None:
        self._reading, self._number, self._files = reading, number, files
        self._ended: set[Path] = set()  # archives without more documents
        self._attempts: Counter[tuple[Path, int]] = Counter()
        self._failures = 0  # documents in a row that have ended their actors
        self.files_done = 0

    def run(self) -> None:
        """Hand all results over, and None after the last; an error ends it."""
        try:
            self._read()
            self._reading.end_shard(self._number)
        except BaseException as error:  # raised where the results are collected
            self._reading.put(error)
        else:
            self._reading.put(None)

    def _read(self) -> None:
        coming, ahead = self._calls(), deque[_Call]()
        while True:
            while len(ahead) < _AHEAD and (call := next(coming, None)) is not None:
                ahead.append(call)
            if not ahead:
                return
            call = ahead[0]
            try:
                actor = self._reading.actor(self._number)
                for item in ahead:
                    if item.reference is None:
                        item.reference = self._reading.call(actor, item)
                result = self._reading.outcome(call)
            except ActorEnded as ended:
                if self._reading.is_closed:
                    return
                self._reading.discard(self._number)
                for item in ahead:
                    item.reference = None
                if (failure := self._failure(call, ended)) is None:
                    continue
                result = failure
            else:
                self._failures = 0
            ahead.popleft()
            self._finish(call, result)

    def _finish(self, call: _Call, result: DocumentResult | None) -> None:
        """Hand a result over, and note the end of its file."""
        if result is not None:
            self._reading.put(result)
        # An archive that ends actors wherever it is begun has an end, too.
        has_ended = result is None or self._failures >= _FAILURES
        if not call.file.is_archive:
            self.files_done += 1
        elif has_ended and call.file.path not in self._ended:  # two calls ahead may both say so
            self._ended.add(call.file.path)
            self.files_done += 1

    def _calls(self) -> Iterator[_Call]:
        """Yield what is asked for: of archives more and more, until one has ended."""
        for file in self._files:
            yield _Call(file, 0)
            position = 1
            while file.is_archive and file.path not in self._ended:
                yield _Call(file, position)
                position += 1

    def _failure(self, call: _Call, ended: ActorEnded) -> DocumentResult | None:
        """Return the result of a document that has ended its last actor, else None."""
        path = call.file.path
        self._attempts[path, call.position] += 1
        if self._attempts[path, call.position] < _ATTEMPTS:
            return None
        self._failures += 1
        name = f"{path}, document {call.position + 1}" if call.position else str(path)
        error = UnreadableDocument(
            f"{name} cannot be read (the worker that read it ended {_ATTEMPTS} times, the last time"
            f" {ended}); there may be too little memory for it: read it again on a larger machine"
        )
        return DocumentResult(name, error=error)
