"""Reading paths into a library in shards: names the files, connects to Ray, and reads."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from drt_engine.cluster.connection import connect
from drt_engine.cluster.shard_reader import DocumentResult
from drt_engine.cluster.sharded_reading import NamedFile, ReadingOptions, ShardedReading
from drt_engine.cluster.shards import ShardedLibrary
from drt_engine.cluster.status import Progress
from drt_engine.documents import Source, expand_files, is_archive
from drt_engine.errors import ConfigError, DocumentError
from drt_engine.model.folder import model_folder, shipped_models


@dataclass(frozen=True)
class NamedPaths:
    """The files that paths name, and what there was of them that is none."""

    files: list[NamedFile]
    remarks: list[DocumentResult]

    @classmethod
    def of(cls, paths: Sequence[str]) -> NamedPaths:
        """Walk folders and patterns; raises ConfigError for standard input, which has no path."""
        if "-" in paths:
            raise ConfigError("standard input cannot be read into shards: name a file")
        named = cls([], [])
        for path in paths:
            named._add(path)
        return named

    def _add(self, path: str) -> None:
        expansion = expand_files([path])
        is_empty = True
        for item in expansion:
            is_empty = False
            try:
                self.files.append(_named_file(item))
            except DocumentError as error:
                self.remarks.append(DocumentResult(path, error=error))
        if is_empty:
            empty = DocumentError(f"{path} holds no file that can be read as a document")
            self.remarks.append(DocumentResult(path, error=empty))
        notes = expansion.notes.skipped
        if expansion.skipped or notes:
            remark = DocumentResult(path, skipped=notes, skipped_files=expansion.skipped)
            self.remarks.append(remark)


def _named_file(item: Source | DocumentError) -> NamedFile:
    """Return a file that workers can open by its path; raises DocumentError."""
    if not isinstance(item, Source):
        raise item
    with contextlib.closing(item):
        if item.path is None:
            raise DocumentError(f"{item.name} has no path for workers to open: write it to a file")
        try:
            return NamedFile(item.path.absolute(), is_archive(item))
        except OSError as error:
            raise DocumentError(f"{item.name} cannot be read ({error}): check its rights") from None


def ingest_shards(
    library: ShardedLibrary,
    paths: Sequence[str],
    *,
    address: str,
    options: ReadingOptions,
    progress: Progress | None = None,
) -> Generator[DocumentResult, None, None]:
    """Read what paths name into the shards of a library by workers of the Ray at an address.

    Yields each document, or why it was not read, as it is done. Raises ConfigError where there is
    no such Ray or worker, WeightsError, and StoreError where a shard cannot be written.
    """
    named = NamedPaths.of(paths)
    yield from named.remarks
    if not named.files:
        return
    cpus = library.count * options.model.threads
    with (
        connect(address, cpus=cpus) as cluster,
        ShardedReading(cluster, library, options) as reading,
    ):
        reading.open()
        yield from reading.results(named.files, progress=progress)


def model_setting(model: str | Path) -> str:
    """Return how workers are to name a model: by its name if it comes with drt, else by its path.

    Raises WeightsError where there is none.
    """
    if isinstance(model, str) and model in shipped_models():
        return model
    return str(model_folder(model).absolute())
