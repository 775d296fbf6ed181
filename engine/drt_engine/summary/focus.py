"""Relevance of a document's chunks to the focus of a summary."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from drt_engine.answer.ask import feed_question, question_ids
from drt_engine.generate.decode import Decoder
from drt_engine.retrieval.library import LibrarySource
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView

# Relevance of chunks that the focus does not retrieve: small, but other scores still order them.
_FLOOR = 1e-3


def focus_scores(
    runtime: Runtime,
    view: LibraryView,
    document: DocumentRow,
    focus: str,
    chunk_ids: Sequence[int],
) -> Tensor:
    """Return how much the focus, asked as a question, retrieves each chunk, [C], 1 for the best."""
    token_ids = question_ids(runtime, focus, what="focus")
    source = LibrarySource(
        runtime, view, focus, token_ids, documents=(document.id,), count=64, reread=False
    )
    feed_question(Decoder(runtime.model, source, dtype=runtime.dtype), token_ids)
    number_of = {chunk_id: number for number, chunk_id in enumerate(chunk_ids)}
    scores = torch.full((len(chunk_ids),), _FLOOR)
    passages = source.passages[-1]
    best = max(passage.score for passage in passages)
    for passage in passages:
        relative = float(torch.tensor(passage.score - best).exp())
        scores[number_of[passage.row.id]] = relative + _FLOOR
    return scores
