"""A library as an assistant has it open: the loaded model, the store, and the lock around both.

Each is opened on first use. Work is done one call at a time, whichever thread asks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from drt_engine import errors as engine

from .. import _engine
from .._errors import ConfigError, LibraryError, engine_errors
from .._federated import with_libraries
from .._library import Library
from .._types import AllAnswers, Answer, SearchResult, Summary

if TYPE_CHECKING:
    from drt_engine.runtime import Runtime
    from drt_engine.store import Store
    from drt_engine.store.federation import FederatedStore

    OpenStore: TypeAlias = Store | FederatedStore

LONGEST_DEADLINE = 86_400.0  # seconds

Item = TypeVar("Item")
Result = TypeVar("Result", Answer, AllAnswers, SearchResult, Summary)


@dataclass(frozen=True)
class RayCluster:
    """A Ray whose actors look up in the libraries; ``deadline`` in seconds, or the engine's own."""

    address: str
    deadline: float | None = None

    @classmethod
    def named(cls, address: str | None, deadline: float | None) -> RayCluster | None:
        """Return the Ray at an address, or ``None``; raise ``ConfigError`` for a bad deadline."""
        if deadline is not None and not 0 < deadline <= LONGEST_DEADLINE:
            raise ConfigError(
                f"the deadline is {deadline:g} seconds, expected more than 0 and at most"
                f" {LONGEST_DEADLINE:g}."
            )
        if address is None and deadline is not None:
            raise ConfigError(
                f"the deadline of {deadline:g} seconds is for actors of a Ray cluster, and none is"
                " named; name the address of one, or leave the deadline out."
            )
        return None if address is None else cls(address, deadline)


class OpenLibrary:
    """A library with a model, both opened on first use.

    ``model``, ``device``, ``threads``, ``dtype`` and ``approximate`` are those of ``Assistant``;
    ``ray`` looks up in the libraries, ``None`` where this process does.
    """

    def __init__(
        self,
        library: Library,
        model: str | Path,
        *,
        device: str = "auto",
        threads: int | None = None,
        dtype: str = "auto",
        approximate: bool = False,
        ray: RayCluster | None = None,
    ) -> None:
        self.library = library
        self.model = model
        self.threads = threads
        self.approximate = approximate
        self.device = device
        self.dtype = dtype
        self._ray = ray
        self._lock = threading.RLock()
        self._runtime: Runtime | None = None
        self._store: OpenStore | None = None
        self._closed = False

    @property
    def loaded(self) -> bool:
        """Whether the model is loaded."""
        return self._runtime is not None

    @property
    def federated(self) -> bool:
        """Whether the store is a federation: of several libraries, or with actors."""
        return self.library.several or self._ray is not None

    def expect_one(self) -> None:
        """Raise ``LibraryError`` where nothing can be read into what is open."""
        self.library.expect_one()
        if self._ray is not None:
            raise LibraryError(
                "with ray the library is only asked; read documents into it without ray."
            )

    def close(self) -> None:
        """Close the store once running work of other threads is done; may be called twice."""
        with self._lock:
            self._closed = True
            store, self._store, self._runtime = self._store, None, None
            if store is not None:
                store.close()

    def release(self) -> None:
        """Close the store until it is needed again; the model stays."""
        with self._lock:
            store, self._store = self._store, None
            if store is not None:
                store.close()

    def share_model(self, source: OpenLibrary) -> None:
        """Use the model of another open library, which loads it for that; nothing in it changes."""
        with source.working() as (runtime, _):
            self._runtime = runtime

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, and translate errors of the engine; raise ``LibraryError`` if closed."""
        with self._lock, engine_errors():
            if self._closed:
                raise LibraryError("this Assistant was closed; make a new one to go on.")
            yield

    @contextmanager
    def working(self) -> Iterator[tuple[Runtime, OpenStore]]:
        """Yield the model and the store, under the lock."""
        with self.locked():
            if self._runtime is None:
                self._runtime = _engine.load_runtime(
                    self.model,
                    device=self.device,
                    threads=self.threads,
                    dtype=self.dtype,
                )
            if self._store is None:
                self._store = self._open_store(self._runtime)
            if self.federated:
                cast("FederatedStore", self._store).begin_question()
            yield self._runtime, self._store

    @contextmanager
    def cataloguing(self) -> Iterator[tuple[None, OpenStore]]:
        """Yield the store for work without a model, which is not loaded for it."""
        with self.locked():
            if self._store is not None:
                yield None, self._store
                return
            library = self.library
            # With actors one library is a federation, too, which names it in what it returns.
            opening = library._federation() if self.federated else library._open()  # noqa: SLF001
            with opening as store:
                yield None, store

    def steps(self, items: Iterator[Item]) -> Iterator[Item]:
        """Take each item under the lock, which is free while the caller works with it."""
        while True:
            with self.locked():
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item

    def result(self, work: Callable[[Runtime, OpenStore], Result]) -> Result:
        """Return what work makes; of several libraries, of those that can be read."""
        with self.working() as (runtime, store):
            return self.without_damaged(store, partial(work, runtime, store))

    def without_damaged(self, store: OpenStore, work: Callable[[], Result]) -> Result:
        """Do work, again without a library that turned out to be damaged; name the libraries."""
        if not self.federated:
            return work()
        federation = cast("FederatedStore", store)
        while True:
            try:
                return with_libraries(work(), federation)
            except engine.LibraryUnavailable as error:
                federation.leave_out(error)

    def _open_store(self, runtime: Runtime) -> OpenStore:
        """Open the library, or several as one, for the model."""
        if self._ray is not None:
            return _engine.open_cluster(
                self.library.path,
                self.library.paths,
                runtime,
                self._ray.address,
                deadline=self._ray.deadline,
                lock_timeout=self.library.lock_timeout,
                require_all=self.library.require_all,
            )
        if not self.library.several:
            return _engine.open_library(
                self.library.path, runtime, lock_timeout=self.library.lock_timeout
            )
        return _engine.open_federation(
            self.library.path,
            self.library.paths,
            runtime,
            lock_timeout=self.library.lock_timeout,
            require_all=self.library.require_all,
        )
