"""Late interaction: the top candidates compared with the question token by token."""

from __future__ import annotations

from dataclasses import replace

import torch

from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.scorer import LateInteraction
from drt_engine.retrieval.candidates import Candidates
from drt_engine.store import ChunkBatch
from drt_engine.store.view import LibraryView


def rerank(
    candidates: Candidates,
    late: LateInteraction,
    question: ChunkMemory,
    store: LibraryView,
    *,
    count: int,
) -> Candidates:
    """Rerank the ``count`` top candidates with late interaction (MaxSim); drop the others.

    ``question`` is the memory of the question as one chunk (P = 1). The result holds the records
    that were read for it.
    """
    if not candidates.chunk_ids:
        return candidates
    top = candidates.scores.total.topk(min(len(candidates.chunk_ids), count)).indices
    top = top.sort().values  # back in the order of ids
    chunk_ids = [candidates.chunk_ids[number] for number in top.tolist()]
    records = store.read_chunks(chunk_ids)
    memory = memory_of_records(records, question.keys.device)
    scores = late(question, late.keys(memory), memory.mask)[0].cpu()  # [P]
    return Candidates(chunk_ids, replace(candidates.scores.at(top), late=scores), records)


def memory_of_records(records: ChunkBatch, device: torch.device) -> ChunkMemory:
    """Return the memory of stored chunks as a model attends to it.

    Its landmarks are empty: nothing looks for these chunks any more.
    """
    mask = torch.arange(records.ids.shape[1])[None] < records.lengths[:, None]
    empty = torch.zeros(len(mask), 1)
    parts = (records.keys, records.values, mask, empty)
    return ChunkMemory(*(part.to(device) for part in parts))
