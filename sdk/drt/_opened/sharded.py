"""Reading documents into a library in shards, by workers of a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from .. import _convert, _engine
from .._errors import ConfigError, engine_errors, translate
from .._paths import StrPath, listed_paths
from .._types import IngestResult, ShardsProgress
from .ingestion import checked_tags
from .library import OpenLibrary

if TYPE_CHECKING:
    from drt_engine.cluster.shard_reader import DocumentResult


def ingest_shards(
    opened: OpenLibrary,
    paths: StrPath | Iterable[StrPath],
    *,
    ray: str,
    shards: int | None,
    tags: str | Iterable[str],
    progress: Callable[[ShardsProgress], None] | None,
) -> Iterator[IngestResult]:
    """Read files, folders and patterns, as ``Assistant.ingest_shards``."""
    if len(opened.library.paths) > 1:
        raise ConfigError("several libraries are named, expected one that is kept in shards.")
    checked = checked_tags(tags)
    with engine_errors():
        model = _engine.ModelSettings(
            _engine.model_setting(opened.model),
            device=opened.device,
            threads=opened.threads or 1,
            dtype=opened.dtype,
        )
        results = _engine.ingest_shards(
            _engine.ShardedLibrary.of(opened.library.path, shards),
            [os.fspath(path) for path in listed_paths(paths)],
            address=ray,
            options=_engine.ReadingOptions(model, checked, opened.library.lock_timeout),
            progress=progress,
        )
    try:
        while True:
            with engine_errors():
                result = next(results, None)
            if result is None:
                return
            yield _ingest_result(result)
    finally:
        results.close()


def _ingest_result(result: DocumentResult) -> IngestResult:
    if result.error is not None:
        return IngestResult(result.name, None, translate(result.error))
    if result.row is None:
        return IngestResult(
            result.name, None, None, skipped=result.skipped_files, notes=result.skipped
        )
    document = _convert.document(result.row, new=result.is_new, skipped=result.skipped)
    return IngestResult(document.source, document, None, result.seconds, result.tokens)
