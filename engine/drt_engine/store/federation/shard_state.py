"""The state of a shard's rows: views with the same state have the same chunks and statistics."""

from __future__ import annotations

from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.catalogue.search import last_chunk
from drt_engine.store.federation.shard_words import index_size

ShardState = tuple[int, ...]


def shard_state(catalog: Catalog) -> ShardState:
    """Return numbers that change with the documents, their chunks or their indexed words."""
    size = index_size(catalog)
    return (*document_state(catalog), last_chunk(catalog), size.rows, size.tokens)


def document_state(catalog: Catalog) -> ShardState:
    """Return numbers that change with the documents: their own numbers are never used again."""
    row = catalog.database.first_row(
        "SELECT count(*), coalesce(max(number), 0), count(*) FILTER (WHERE state = 'ready')"
        " FROM documents"
    )
    return tuple(map(int, row or ()))
