"""Constrained decoding: the answer is a slice of what was retrieved, by construction.

The decoder's distribution over texts, restricted to the slices of some token sequences, is searched
with a beam: a prefix goes on only with a token that follows it somewhere in the sequences, or ends.
The same words at several places are one slice with several places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drt_engine.decoder.model import DecoderState, RetrievalDecoder


@dataclass(frozen=True)
class Slice:
    """Tokens ``ids`` with their log-probability, and where they are: (sequence, first token)."""

    ids: tuple[int, ...]
    log_probability: float
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Search:
    """Limits of the search: prefixes kept, slices returned, tokens of a slice."""

    beams: int = 4
    slices: int = 8
    longest: int = 48


def best_slices(
    model: RetrievalDecoder,
    prompt: Sequence[int],
    state: DecoderState,
    sequences: Sequence[Sequence[int]],
    *,
    end_id: int,
    search: Search | None = None,
) -> list[Slice]:
    """Return the most probable slices, best first; ``end_id`` closes an answer.

    ``state`` is of one row, and has not read ``prompt``.
    """
    search = search or Search()
    states, state = model.feed(state, torch.tensor([list(prompt)]))
    beams = [_start(sequences)]
    log_probs = torch.log_softmax(model.logits(states[:, -1]).float(), dim=-1)  # [1, V]
    finished: list[Slice] = []
    for length in range(search.longest + 1):
        grown: list[tuple[int, int, Slice]] = []
        for row, beam in enumerate(beams):
            if length:
                ended = beam.log_probability + float(log_probs[row, end_id])
                finished.append(replace(beam, log_probability=ended))
            following = _following(beam, sequences)
            for token, places in following.items():
                score = beam.log_probability + float(log_probs[row, token])
                grown.append((row, token, Slice((*beam.ids, token), score, tuple(places))))
        finished = sorted(finished, key=lambda s: -s.log_probability)[: search.slices]
        grown = sorted(grown, key=lambda g: -g[2].log_probability)[: search.beams]
        # A prefix is at least as probable as all that continue it.
        if len(finished) == search.slices:
            grown = [g for g in grown if g[2].log_probability > finished[-1].log_probability]
        if not grown or length == search.longest:
            break
        state = pick_rows(state, torch.tensor([row for row, _, _ in grown]))
        beams = [beam for _, _, beam in grown]
        states, state = model.feed(state, torch.tensor([[token] for _, token, _ in grown]))
        log_probs = torch.log_softmax(model.logits(states[:, -1]).float(), dim=-1)
    return finished


def pick_rows(state: DecoderState, rows: Tensor) -> DecoderState:
    """Return the state of some rows, repeated or reordered."""
    past = tuple(type(p)(p.keys[rows], p.values[rows]) for p in state.past)
    reading = state.reading
    if reading is not None:
        reading = replace(reading, index=reading.index[rows], log_weight=reading.log_weight[rows])
    return replace(state, past=past, reading=reading)


def _start(sequences: Sequence[Sequence[int]]) -> Slice:
    places = [(n, at) for n, ids in enumerate(sequences) for at in range(len(ids))]
    return Slice((), 0.0, tuple(places))


def _following(beam: Slice, sequences: Sequence[Sequence[int]]) -> dict[int, list[tuple[int, int]]]:
    """Return the tokens that follow a prefix, each with the places of the longer one."""
    following: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, first in beam.places:
        at = first + len(beam.ids)
        if at < len(sequences[number]):
            following[sequences[number][at]].append((number, first))
    return following
