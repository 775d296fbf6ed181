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

from drt_engine.decoder.layer import Past
from drt_engine.decoder.model import DecoderState, Reading, RetrievalDecoder


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


@dataclass(frozen=True)
class Opened:
    """A prompt that was read: log-probabilities [1, V] of the first token of its answer."""

    log_probs: Tensor
    state: DecoderState


def open_answer(model: RetrievalDecoder, prompt: Sequence[int], reading: Reading | None) -> Opened:
    """Read a prompt, up to where its answer begins."""
    states, state = model.feed(model.open(reading), torch.tensor([list(prompt)]))
    return Opened(_log_probs(model, states), state)


def log_probability(model: RetrievalDecoder, opened: Opened, ids: Sequence[int]) -> float:
    """Return the log-probability that the answer is ``ids``, the closing token included."""
    states, _ = model.feed(opened.state, torch.tensor([list(ids[:-1])]))
    following = torch.log_softmax(model.logits(states[0]).float(), dim=-1)
    rest = sum(float(row[token]) for row, token in zip(following, ids[1:], strict=True))
    return float(opened.log_probs[0, ids[0]]) + rest


def best_slices(
    model: RetrievalDecoder,
    opened: Opened,
    sequences: Sequence[Sequence[int]],
    *,
    starts: Sequence[int],
    end_id: int,
    search: Search | None = None,
) -> list[Slice]:
    """Return the most probable slices, best first.

    A slice begins at one of the first ``starts`` tokens of its sequence; ``end_id`` closes it.
    """
    search = search or Search()
    log_probs, state = opened.log_probs, opened.state
    beams = [_start(starts)]
    finished: list[Slice] = []
    for length in range(search.longest + 1):
        grown: list[tuple[int, int, Slice]] = []
        for row, beam in enumerate(beams):
            if length:
                ended = beam.log_probability + float(log_probs[row, end_id])
                finished.append(replace(beam, log_probability=ended))
            for token, places in _following(beam, sequences).items():
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
        log_probs = _log_probs(model, states)
    return finished


def _log_probs(model: RetrievalDecoder, states: Tensor) -> Tensor:
    return torch.log_softmax(model.logits(states[:, -1]).float(), dim=-1)


def pick_rows(state: DecoderState, rows: Tensor) -> DecoderState:
    """Return the state of some rows, repeated or reordered."""
    past = tuple(Past(p.keys[rows], p.values[rows]) for p in state.past)
    reading = state.reading
    if reading is not None:
        reading = replace(reading, index=reading.index[rows], log_weight=reading.log_weight[rows])
    return replace(state, past=past, reading=reading)


def _start(starts: Sequence[int]) -> Slice:
    places = [(number, at) for number, count in enumerate(starts) for at in range(count)]
    return Slice((), 0.0, tuple(places))


def _following(beam: Slice, sequences: Sequence[Sequence[int]]) -> dict[int, list[tuple[int, int]]]:
    """Return the tokens that follow a prefix, each with the places of the longer one."""
    following: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, first in beam.places:
        at = first + len(beam.ids)
        if at < len(sequences[number]):
            following[sequences[number][at]].append((number, first))
    return following
