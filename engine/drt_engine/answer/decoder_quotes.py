"""What the decoder makes of retrieved passages, from their chunk memory.

Quotes: the most probable slices of them. Evidence: how sure it is of each passage by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from drt_engine.answer.quote import NO_QUOTES, Quotes, QuoteSpan, spans_overlap
from drt_engine.decoder.prompt import END, NOT_SAID, Task, control_id, encode, prompt_ids
from drt_engine.decoder.slices import (
    Slice,
    best_slices,
    judged,
    log_probability,
    open_answer,
    weighed_by_evidence,
)
from drt_engine.generate.passage_memory import PassageMemory, PassageReader
from drt_engine.retrieval.passages import Passage

_MOST = 3  # quotes that are returned


def decoder_quotes(reader: PassageReader, question: str, passages: Sequence[Passage]) -> Quotes:
    """Return up to three slices of the passages, best first, that share no character.

    The decoder judges each chunk alone first: all are read together by their retrieval
    probabilities times how likely they are to hold the answer. The score is the log-odds of the
    best slice against "the document does not say".
    """
    memory = reader.read(passages)
    if memory.reading is None:
        return NO_QUOTES
    tokenizer = reader.tokenizer
    end_id = control_id(tokenizer, END)
    prompt = prompt_ids(tokenizer, question, Task.QUOTE)
    not_said = [*encode(tokenizer, NOT_SAID), end_id]
    reading = weighed_by_evidence(reader.model, memory.reading, prompt, not_said)
    opened = open_answer(reader.model, prompt, reading)
    slices = best_slices(
        reader.model,
        opened,
        [chunk.ids for chunk in memory.chunks],
        starts=[chunk.tokens for chunk in memory.chunks],
        end_id=end_id,
    )
    null = log_probability(reader.model, opened, not_said)
    spans = _spans(slices, memory, passages)
    if not spans:
        return NO_QUOTES
    total = sum(math.exp(s.log_probability) for s in slices)
    shares = sorted((math.exp(s.log_probability) / total for s in slices), reverse=True)
    spans_shown: list[QuoteSpan] = []
    for span in spans:
        if len(spans_shown) < _MOST and not any(
            spans_overlap(span, better) for better in spans_shown
        ):
            spans_shown.append(span)
    return Quotes(
        tuple(spans_shown),
        slices[0].log_probability - null,
        null,
        vote_share=shares[0],
        runner_up=shares[1] if len(shares) > 1 else 0.0,
    )


def memory_evidence(
    reader: PassageReader, question: str, passages: Sequence[Passage]
) -> tuple[float, ...]:
    """Return the log-odds that each passage, its memory read alone, holds the answer.

    A passage of several rows of memory has those of the best one.
    """
    memory = reader.read(passages)
    if memory.reading is None:
        return (0.0,) * len(passages)
    tokenizer = reader.tokenizer
    prompt = prompt_ids(tokenizer, question, Task.QUOTE)
    not_said = [*encode(tokenizer, NOT_SAID), control_id(tokenizer, END)]
    log_odds = judged(reader.model, memory.reading.memory, prompt, not_said).tolist()
    return tuple(max((log_odds[row] for row in rows), default=0.0) for rows in memory.rows)


def _spans(
    slices: Sequence[Slice], memory: PassageMemory, passages: Sequence[Passage]
) -> list[QuoteSpan]:
    """Return slices as spans of documents, at their most probable place, without outer blanks."""
    spans: list[QuoteSpan] = []
    for piece in slices:
        number, first = min(piece.places, key=lambda place: -passages[place[0]].probability)
        passage, places = passages[number], memory.chunks[number].spans
        start, end = places[first][0], places[first + len(piece.ids) - 1][1]
        base = passage.text_start
        text = passage.text[start - base : end - base]
        start += len(text) - len(text.lstrip())
        end -= len(text) - len(text.rstrip())
        if start < end:
            probability = math.exp(piece.log_probability)
            spans.append(QuoteSpan(passage.row.document_id, start, end, probability, passage))
    return spans
