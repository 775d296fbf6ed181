"""Relevance of a document's chunks to the focus of a summary."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from drt_engine.generate.prompt_run import open_prompt
from drt_engine.retrieval.library import MOST_CHUNKS, SearchOptions
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
    options = SearchOptions(document_ids=(document.id,), top_k=MOST_CHUNKS, reader_pass=False)
    run = open_prompt(runtime, view, focus, options, what="focus")
    number_of = {chunk_id: number for number, chunk_id in enumerate(chunk_ids)}
    scores = torch.full((len(chunk_ids),), _FLOOR)
    best = max(passage.score for passage in run.passages)
    for passage in run.passages:
        relative = float(torch.tensor(passage.score - best).exp())
        scores[number_of[passage.row.id]] = relative + _FLOOR
    return scores
