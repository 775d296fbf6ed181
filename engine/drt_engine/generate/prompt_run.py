"""The one way to open a prompt: for answers, summaries, evaluation and traces.

A question goes through the decoder as query chunks, whose last landmark retrieves, and then once
more with ``<answer>`` behind it, reading what was retrieved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drt_engine.errors import QuestionError
from drt_engine.generate.decode import Decoder
from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.prompt import query_slots
from drt_engine.retrieval.library import LibrarySource, SearchOptions, query_library
from drt_engine.retrieval.passages import Passage
from drt_engine.retrieval.sources import Retrieval
from drt_engine.runtime import Runtime
from drt_engine.store.view import LibraryView

MOST_QUESTION_CHUNKS = 20


@dataclass(frozen=True)
class PromptStart:
    """What a prompt continues; by default nothing.

    ``own_chunks`` are closed chunks of the stream so far. ``open_decoder`` makes the decoder,
    ``None`` an empty one.
    """

    own_chunks: tuple[ChunkMemory, ...] = ()
    open_decoder: Callable[[LibrarySource], Decoder] | None = None


@dataclass(frozen=True)
class PromptRun:
    """A question that went through the model: ``answer_state`` [E] is that of ``<answer>``."""

    question_ids: list[int]
    source: LibrarySource
    decoder: Decoder
    answer_state: Tensor

    @property
    def retrieval(self) -> Retrieval | None:
        """What the last group retrieved last."""
        return self.decoder.retrievals[-1]

    @property
    def passages(self) -> tuple[Passage, ...]:
        """The passages of the last retrieval, best first."""
        return self.source.passages[-1]

    @property
    def question_passages(self) -> tuple[Passage, ...]:
        """The passages that the last group retrieved at the end of the question."""
        return self.source.passages[self.decoder.model.config.groups - 1]

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt: the question twice, a landmark and ``<answer>``."""
        return 2 * len(self.question_ids) + 2


def open_prompt(
    runtime: Runtime,
    store: LibraryView,
    question: str,
    options: SearchOptions,
    *,
    start: PromptStart | None = None,
    what: str = "question",
) -> PromptRun:
    """Feed a question to a decoder that retrieves from a library.

    Raises ``QuestionError`` for a question without words or too long; messages call it ``what``.
    """
    start = start or PromptStart()
    ids = question_ids(runtime, question, what=what)
    source = LibrarySource(
        query_library(runtime, store, question, ids, options=options),
        # A copy: a question that fails must leave a conversation as it was.
        own_chunks=list(start.own_chunks),
    )
    if start.open_decoder is not None:
        decoder = start.open_decoder(source)
    else:
        decoder = Decoder(runtime.model, source, dtype=runtime.dtype)
    return PromptRun(ids, source, decoder, feed_question(decoder, ids))


def feed_question(decoder: Decoder, ids: Sequence[int]) -> Tensor:
    """Feed query chunks, the restated question and ``<answer>``; return the latter's state, [E]."""
    model, config = decoder.model, decoder.model.config
    encoded = feed_query_chunks(decoder, ids)
    added = None
    if model.question_map is not None:
        # What the encoder made of the question, for its restated tokens; nothing for <answer>.
        states = model.question_map(torch.cat(encoded))
        added = torch.cat([states, states.new_zeros(1, states.shape[-1])])
    return decoder.feed([*ids, config.answer_id], added)[-1]


def feed_query_chunks(decoder: Decoder, ids: Sequence[int]) -> list[Tensor]:
    """Feed a question as query chunks, the last of which retrieves; return their states [S, E]."""
    lengths = query_slots(len(ids), decoder.model.config.chunk)
    at = 0
    encoded: list[Tensor] = []
    for number, length in enumerate(lengths):
        decoder.feed(ids[at : at + length])
        encoded.append(decoder.close(retrieve=number + 1 == len(lengths)).states[0])
        at += length
    return encoded


def question_ids(runtime: Runtime, question: str, *, what: str = "question") -> list[int]:
    """Return the question's tokens; ``QuestionError`` when it has no words or is too long."""
    ids = runtime.tokenizer.encode(question).ids
    if not ids or not re.search(r"\w", question):
        raise QuestionError(f"the {what} has no words, expected plain language")
    limit = MOST_QUESTION_CHUNKS * runtime.config.chunk
    if len(ids) > limit:
        raise QuestionError(
            f"the {what} has {len(ids)} tokens, expected at most {limit}; make it shorter, "
            "or read the long text as a document with `drt ingest`"
        )
    return ids
