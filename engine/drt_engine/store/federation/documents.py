"""The catalogues of several libraries as one: whose a document is, its tags, sums of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from drt_engine.store.catalogue.document_rows import unknown_id
from drt_engine.store.federation.shard import Shard
from drt_engine.store.tags import checked_tags
from drt_engine.store.types import DocumentRow

_COUNTS = (
    *("documents", "partial", "characters", "tokens", "chunks", "segments"),
    *("catalog_bytes", "segment_bytes"),
)


def read_documents(
    shards: Sequence[Shard], document_ids: Sequence[str] | None = None
) -> list[DocumentRow]:
    """Return documents read in full, or those of some that are there, by library, oldest first."""
    rows = [row for shard in shards for row in shard.documents(document_ids)]
    return _with_all_tags(shards, rows)


def shard_of_document(shards: Sequence[Shard], document_id: str) -> Shard:
    """Return the shard that a document is read from; NotFound."""
    for shard in shards:
        if shard.documents([document_id]):
            return shard
    raise unknown_id(document_id)


def shards_of_documents(
    shards: Sequence[Shard], document_ids: Sequence[str] | None, *, partial: bool = False
) -> Iterator[tuple[Shard, list[str] | None]]:
    """Yield the shards that have some of the documents, with those, ``None`` for all."""
    if not partial:
        expect_documents(shards, document_ids or ())
    for shard in shards:
        shard_document_ids = shard.restricted(document_ids, partial=partial)
        if shard_document_ids is None or shard_document_ids:
            yield shard, shard_document_ids


def expect_documents(shards: Sequence[Shard], document_ids: Sequence[str]) -> None:
    """Raise NotFound for a document that no library has, as one library does."""
    if not document_ids:
        return
    read_ids = {row.id for shard in shards for row in shard.documents(document_ids)}
    for document_id in document_ids:
        if document_id not in read_ids:
            raise unknown_id(document_id)


def total_stats(by_library: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return counts and sizes of libraries as of one; what is not counted is the first's."""
    first_library, *later_libraries = by_library
    totals = dict(first_library)
    for stats in later_libraries:
        totals |= {name: totals[name] + stats[name] for name in _COUNTS}
    size = totals["catalog_bytes"] + totals["segment_bytes"]
    totals["bytes_per_token"] = size / totals["tokens"] if totals["tokens"] else None
    return totals


def _with_all_tags(shards: Sequence[Shard], rows: Sequence[DocumentRow]) -> list[DocumentRow]:
    """Return rows with the tags that excluded documents have, as one library collects them."""
    other_tags: dict[str, set[str]] = {}
    for shard in shards:
        if not shard.excluded.ids:
            continue
        shared = shard.excluded.ids.intersection(row.id for row in rows)
        with shard.reading() as view:
            for row in view.documents_by_id(sorted(shared)):
                other_tags.setdefault(row.id, set()).update(row.tags)
    return [
        row._replace(tags=checked_tags({*row.tags, *other_tags[row.id]}))
        if other_tags.get(row.id)
        else row
        for row in rows
    ]
