"""Relevance of a document's chunks to the focus of a summary."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from drt_engine.generate.prompt_run import open_prompt
from drt_engine.retrieval.library import MOST_CHUNKS, SearchOptions
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView

# What a word of the focus may end in, in the text, or the other way round: "pay" in "payment".
_ENDING = re.compile(r"(?:e?s|e?d|ings?|e?rs?|ments?|able|al|ly|(?:at)?ions?|ness)?\Z")

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


def share_meant(focus_words: Collection[str], words: Collection[str]) -> float:
    """Return the share of the focus' words that are among these, whatever their endings."""
    meant = [word for word in focus_words if any(_same(word, other) for other in words)]
    return len(meant) / len(focus_words)


def _same(word: str, other: str) -> bool:
    short, long = sorted((word, other), key=len)
    return long.startswith(short) and _ENDING.match(long, len(short)) is not None
