"""The actor that reads documents into one shard, with the model loaded.

It gets documents by the paths of their files, which it must see as the program that started it
does: on the same machine, or on a file system that both share.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from drt_engine.cluster.connection import Actor
from drt_engine.documents import Source, expand_paths
from drt_engine.errors import ConfigError, DocumentError, UnreadableDocument
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.results import IngestProgress
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow, Store


@dataclass(frozen=True)
class DocumentResult:
    """What became of one document: its row in the shard, or why it was not read.

    With neither it is about an archive: ``skipped`` says what of it was passed over and why,
    ``skipped_files`` counts the files that no reader knows.
    """

    name: str
    row: DocumentRow | None = None
    error: DocumentError | None = None
    is_new: bool = False
    skipped: tuple[str, ...] = ()
    seconds: float = 0.0
    tokens: int = 0
    skipped_files: int = 0


@dataclass(frozen=True)
class ModelSettings:
    """Which model a worker loads, and how it computes."""

    model: str
    device: str = "auto"
    threads: int = 1
    dtype: str = "auto"


@dataclass(frozen=True)
class LoadedModel:
    """What the shards' models must agree in."""

    fingerprint: str
    dtype: str


class ShardReader(Actor):
    """Reads the documents of one shard; ``load`` and ``open`` come first."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self._store: Store | None = None
        self._tags: tuple[str, ...] = ()
        self._path = ""
        self._position = 0  # of the next document of the file
        self._results: Iterator[DocumentResult] = iter(())
        self._progress: IngestProgress | None = None

    def load(self, settings: ModelSettings) -> LoadedModel:
        """Load the model; raises WeightsError and ConfigError."""
        self._runtime = Runtime.load(
            settings.model, device=settings.device, threads=settings.threads, dtype=settings.dtype
        )
        return LoadedModel(self._runtime.fingerprint, self._runtime.dtype_name)

    def open(self, shard: str, tags: tuple[str, ...], lock_timeout: float) -> None:
        """Open a shard, or make it; documents get the tags.

        Raises ConfigError where the folder of the shards is not seen here, and StoreError.
        """
        assert self._runtime is not None
        path = Path(shard)
        if not path.parent.is_dir():
            raise ConfigError(
                f"the folder {path.parent} is not seen on {socket.gethostname()}, where a worker is"
                " to write a shard: put the library on a file system that all nodes share"
            )
        self._tags = tags
        self._store = Store.open(
            path,
            fingerprint=self._runtime.fingerprint,
            layout=self._runtime.layout,
            vocabulary=self._runtime.config.vocab,
            create=True,
            lock_timeout=lock_timeout,
        )

    def read(self, path: str, position: int) -> DocumentResult | None:
        """Read the document at a position of a file: 0, or of an archive any; None after the last.

        Calls in order read on; others begin the file again. Raises StoreError.
        """
        if path != self._path or position != self._position:
            self._results = self._read_from(path, position)
        self._path, self._position = path, position + 1
        return next(self._results, None)

    def progress(self) -> IngestProgress | None:
        """Return how far the document that is open is read; callable while it is."""
        return self._progress

    def cpu_seconds(self) -> float:
        """Return the processor's seconds of this worker and the readers that it ended."""
        return sum(os.times()[:4])

    def _read_from(self, path: str, position: int) -> Iterator[DocumentResult]:
        """Yield the results of a file's documents from a position on, then what was passed over."""
        if not os.path.lexists(path):  # otherwise it could be taken for a pattern
            yield DocumentResult(path, error=_not_seen(path))
            return
        expansion = expand_paths([path])
        passed = 0
        for item in islice(expansion, position):
            passed += 1
            if isinstance(item, Source):
                item.close()
        if passed < position:
            return
        for item in expansion:
            yield self._result(item, path)
        if expansion.skipped or expansion.notes.skipped:
            yield DocumentResult(
                path, skipped=expansion.notes.skipped, skipped_files=expansion.skipped
            )

    def _result(self, item: Source | DocumentError, path: str) -> DocumentResult:
        """Read a document and give it the tags; a document that cannot be read is a result."""
        if not isinstance(item, Source):
            return DocumentResult(path, error=item)
        assert self._runtime is not None and self._store is not None
        began = time.perf_counter()
        skipped: list[str] = []
        tokens = 0

        def note(step: IngestProgress) -> None:
            nonlocal tokens
            tokens, self._progress = step.tokens, step

        try:
            row, is_new = ingest_source(
                self._runtime, self._store, item, progress=note, skipped=skipped.extend
            )
            if not set(self._tags) <= set(row.tags):
                row = row._replace(tags=self._store.change_tags(row.id, add=self._tags))
        except DocumentError as error:
            return DocumentResult(item.name, error=error)
        finally:
            self._progress = None
            item.close()
        return DocumentResult(
            item.name,
            row,
            is_new=is_new,
            skipped=tuple(skipped),
            seconds=time.perf_counter() - began,
            tokens=tokens,
        )


def _not_seen(path: str) -> UnreadableDocument:
    return UnreadableDocument(
        f"{path} is not seen on {socket.gethostname()}, where a worker is to read it: put the"
        " documents on a file system that all nodes share, under the same path"
    )
