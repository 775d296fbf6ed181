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
from drt_engine.decoder.model import DecoderState, DeepMemory, Reading, RetrievalDecoder

_MOST_AHEAD = 7  # tokens read at once: on a CPU eight cost little more than one


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
    ids = torch.tensor([list(prompt)], device=model.device)
    states, state = model.feed(model.open(reading), ids)
    return Opened(_log_probs(model, states), state)


def log_probability(model: RetrievalDecoder, opened: Opened, ids: Sequence[int]) -> float:
    """Return the log-probability that the answer is ``ids``, the closing token included."""
    states, _ = model.feed(opened.state, torch.tensor([list(ids[:-1])], device=model.device))
    following = torch.log_softmax(model.logits(states[0]).float(), dim=-1)
    following_sum = sum(float(row[token]) for row, token in zip(following, ids[1:], strict=True))
    return float(opened.log_probs[0, ids[0]]) + following_sum


def judged(
    model: RetrievalDecoder, memory: DeepMemory, prompt: Sequence[int], not_said: Sequence[int]
) -> Tensor:
    """Return how sure the model is that each of P chunks, read alone, holds the answer: [P].

    That is the log-odds against ``not_said``, the tokens with which it says that one does not.
    """
    count = len(memory.mask)
    rows = torch.arange(count, device=model.device)[:, None]
    ids = torch.tensor([*prompt, *not_said[:-1]], device=model.device)[None]
    reading = Reading(memory, rows, torch.zeros(count, 1, device=model.device))
    # The lower stack reads no memory: once for all of them.
    states = model.upper_states(model.lower_states(ids).expand(count, -1, -1), reading)
    said = model.logits(states[:, len(prompt) - 1 :]).float().log_softmax(dim=-1)  # [P, N, V]
    targets = torch.tensor(not_said, device=model.device).expand(count, -1)
    log_null = said.gather(2, targets[..., None]).sum(dim=(1, 2)).double().clamp(max=-1e-9)
    return (torch.log(-torch.expm1(log_null)) - log_null).float()


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
    state, last = opened.state, opened.log_probs  # [B, V]: the next token of each beam
    beams, finished = [_start(starts)], list[Slice]()
    while True:
        grown: list[tuple[int, Slice]] = []
        for row, beam in enumerate(beams):
            if len(beam.ids) == search.longest:
                continue
            for token, places in _following(beam, sequences).items():
                score = beam.log_probability + float(last[row, token])
                grown.append((row, Slice((*beam.ids, token), score, tuple(places))))
        grown = sorted(grown, key=lambda g: -g[1].log_probability)[: search.beams]
        # A prefix is at least as probable as all that continue it.
        if len(finished) == search.slices:
            grown = [g for g in grown if g[1].log_probability > finished[-1].log_probability]
        if not grown:
            return finished
        beams = [beam for _, beam in grown]
        # Tokens that every place of a prefix goes on with are read together with its last one.
        runs = [_run(beam, sequences, search.longest) for beam in beams]
        count = min(_MOST_AHEAD, *map(len, runs))
        rows = torch.tensor(
            [[beam.ids[-1], *run[:count]] for beam, run in zip(beams, runs, strict=True)],
            device=model.device,
        )
        beam_rows = torch.tensor([row for row, _ in grown], device=model.device)
        states, state = model.feed(pick_rows(state, beam_rows), rows)
        log_probs = torch.log_softmax(model.logits(states).float(), dim=-1)  # [B, 1 + count, V]
        last = log_probs[:, -1]
        for row, run in enumerate(runs):
            for ahead in range(count + 1):
                beam = beams[row]
                ended = beam.log_probability + float(log_probs[row, ahead, end_id])
                finished.append(replace(beam, log_probability=ended))
                if ahead < count:
                    score = beam.log_probability + float(log_probs[row, ahead, run[ahead]])
                    beams[row] = Slice((*beam.ids, run[ahead]), score, beam.places)
        finished = sorted(finished, key=lambda f: -f.log_probability)[: search.slices]


def _run(beam: Slice, sequences: Sequence[Sequence[int]], longest: int) -> list[int]:
    """Return the tokens that a prefix goes on with at each of its places, up to ``longest``."""
    room = longest - len(beam.ids)
    follows = [
        sequences[number][first + len(beam.ids) : first + len(beam.ids) + room]
        for number, first in beam.places
    ]
    run: list[int] = []
    for tokens in zip(*follows, strict=False):
        if len(set(tokens)) > 1:
            break
        run.append(tokens[0])
    return run


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
