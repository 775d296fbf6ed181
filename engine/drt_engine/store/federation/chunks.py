"""Chunks of several libraries: which library has them, and what is read of them, in order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TypeVar

from drt_engine.store.federation.shard import Shard
from drt_engine.store.types import ChunkBatch, ChunkRow, TokenBatch
from drt_engine.store.view import LibraryView

Batch = TypeVar("Batch", ChunkBatch, TokenBatch)
Neighbours = dict[int, tuple[int | None, int | None]]


def shards_of_chunks(
    shards: Sequence[Shard], chunk_ids: Sequence[int]
) -> list[tuple[Shard, list[int]]]:
    """Return the shards that have chunks, with the ids that the chunks have there."""
    firsts = [shard.first for shard in shards]
    groups: dict[int, list[int]] = {} if chunk_ids else {0: []}
    for chunk_id in chunk_ids:
        # A shard's own ids begin at 1: its ``first`` is still an id of the shard before it.
        number = max(bisect_left(firsts, chunk_id) - 1, 0)
        groups.setdefault(number, []).append(chunk_id - firsts[number])
    return [(shards[number], ids) for number, ids in sorted(groups.items())]


def rows_of_chunks(shards: Sequence[Shard], chunk_ids: Sequence[int]) -> list[ChunkRow]:
    """Return texts and places of chunks, in the order asked for."""
    row_of_chunk: dict[int, ChunkRow] = {}
    for shard, ids in shards_of_chunks(shards, chunk_ids):
        with shard.reading() as view:
            rows = view.chunk_rows(ids)
        row_of_chunk |= {
            row.id + shard.first: replace(row, id=row.id + shard.first) for row in rows
        }
    return [row_of_chunk[chunk_id] for chunk_id in chunk_ids]


def neighbours_of_chunks(shards: Sequence[Shard], chunk_ids: Sequence[int]) -> Neighbours:
    """Return the previous and next chunk of each chunk in its document, by chunk id."""
    neighbours: Neighbours = {}
    for shard, ids in shards_of_chunks(shards, chunk_ids):
        with shard.reading() as view:
            pairs = view.neighbours_of(ids)
        first = shard.first
        for chunk_id, (before, after) in pairs.items():
            neighbours[chunk_id + first] = (
                None if before is None else before + first,
                None if after is None else after + first,
            )
    return neighbours


def read_batch(
    shards: Sequence[Shard],
    chunk_ids: Sequence[int],
    read: Callable[[LibraryView, list[int]], Batch],
) -> Batch:
    """Read the chunks of each library at once, and return them in the order asked for."""
    import torch

    batches: list[Batch] = []
    order: list[int] = []
    for shard, ids in shards_of_chunks(shards, chunk_ids):
        with shard.reading() as view:
            batches.append(read(view, ids))
        order += shard.numbered(ids)
    if order == list(chunk_ids) and len(batches) == 1:
        return batches[0]
    places = {chunk_id: place for place, chunk_id in enumerate(order)}
    index = torch.tensor([places[chunk_id] for chunk_id in chunk_ids], dtype=torch.long)
    names = [field.name for field in fields(batches[0])]
    joined = {name: torch.cat([getattr(b, name) for b in batches])[index] for name in names}
    return type(batches[0])(**joined)
