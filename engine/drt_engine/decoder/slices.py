"""Constrained decoding: the answer is a slice of what was retrieved, by construction.

The decoder's distribution over texts, restricted to the slices of some token sequences, is searched
from the most probable starts: since what may follow is known, the decoder reads several tokens at
once, and each of them may be the last. The same words at several places are one slice with several
places.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drt_engine.decoder.layer import Past
from drt_engine.decoder.model import DecoderState, DeepMemory, Reading, RetrievalDecoder


@dataclass(frozen=True)
class Slice:
    """Tokens ``ids`` with their log-probability, and where they are: (sequence, first token)."""

    ids: tuple[int, ...]
    log_probability: float
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Search:
    """Limits of the search: prefixes kept, slices returned, tokens of a slice and read at once.

    What is less probable than the best slice by more than ``range`` nats is left out.
    """

    prefixes: int = 12
    slices: int = 8
    longest: int = 48
    at_once: int = 8
    range: float = 6.0


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


def weighed_by_evidence(
    model: RetrievalDecoder, reading: Reading, prompt: Sequence[int], not_said: Sequence[int]
) -> Reading:
    """Return a reading of all chunks of a memory, each also weighed by how likely it is to answer.

    That is how sure the model is that the chunk, read alone, holds the answer.
    """
    evidence = torch.nn.functional.logsigmoid(judged(model, reading.memory, prompt, not_said))
    weights = reading.log_weight + evidence[reading.index]
    return Reading(reading.memory, reading.index, weights.log_softmax(dim=-1))


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
    state, last = opened.state, opened.log_probs  # [B, V]: the next token of each prefix
    prefixes = [_start(starts)]
    finished: dict[tuple[int, ...], Slice] = {}
    count = 1  # of the first token alone: most starts can be left out then
    while True:
        lines = [
            (row, line)
            for row, prefix in enumerate(prefixes)
            for line in _lines(
                prefix, last[row], sequences, min(count, search.longest - len(prefix.ids))
            )
        ]
        best = sorted(finished.values(), key=lambda f: -f.log_probability)[: search.slices]
        # A prefix is at least as probable as all that continue it.
        least = best[0].log_probability - search.range if best else -math.inf
        if len(best) == search.slices:
            least = max(least, best[-1].log_probability)
        lines = [g for g in lines if g[1].log_probability > least]
        lines = sorted(lines, key=lambda g: -g[1].log_probability)[: search.prefixes]
        if not lines:
            return best
        ids = [line.ids[len(prefixes[row].ids) :] for row, line in lines]
        rows = torch.tensor([row for row, _ in lines], device=model.device)
        padded = torch.tensor(
            [[*tokens, *[end_id] * (count - len(tokens))] for tokens in ids], device=model.device
        )
        states, state = model.feed(pick_rows(state, rows), padded)
        log_probs = torch.log_softmax(model.logits(states).float(), dim=-1)  # [B, count, V]
        going_on: list[int] = []
        prefixes = []
        for row, ((_, line), tokens) in enumerate(zip(lines, ids, strict=True)):
            prefix = _finish(line, tokens, log_probs[row], end_id, finished)
            if len(tokens) == count and len(line.ids) < search.longest:
                going_on.append(row)
                prefixes.append(prefix)
        kept = torch.tensor(going_on, dtype=torch.long, device=model.device)
        state, last = pick_rows(state, kept), log_probs[kept, -1]
        count = search.at_once if count == 1 else 2 * search.at_once


def _lines(
    prefix: Slice, following: Tensor, sequences: Sequence[Sequence[int]], count: int
) -> list[Slice]:
    """Return what a prefix goes on with, up to ``count`` tokens, each with its places.

    The log-probability is that of the prefix with the first of them; ``following`` [V] has it.
    """
    places: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
    for number, first in prefix.places:
        at = first + len(prefix.ids)
        tokens = tuple(sequences[number][at : at + count])
        if tokens:
            places[tokens].append((number, first))
    return [
        Slice((*prefix.ids, *ids), prefix.log_probability + float(following[ids[0]]), tuple(at))
        for ids, at in places.items()
    ]


def _finish(
    line: Slice,
    tokens: Sequence[int],
    log_probs: Tensor,
    end_id: int,
    finished: dict[tuple[int, ...], Slice],
) -> Slice:
    """Add the slices that end with one of a line's last ``tokens``; return it as a prefix.

    ``log_probs`` [N, V] are those after each of them.
    """
    score, before = line.log_probability, len(line.ids) - len(tokens)
    for number, after in enumerate(log_probs[: len(tokens)]):
        if number:
            score += float(log_probs[number - 1, tokens[number]])
        ids = line.ids[: before + number + 1]
        known = finished.get(ids)
        places = line.places if known is None else (*known.places, *line.places)
        ended = score + float(after[end_id])
        finished[ids] = Slice(ids, ended, tuple(dict.fromkeys(places)))
    return replace(line, log_probability=score)


def _log_probs(model: RetrievalDecoder, states: Tensor) -> Tensor:
    return torch.log_softmax(model.logits(states[:, -1]).float(), dim=-1)


def pick_rows(state: DecoderState, rows: Tensor) -> DecoderState:
    """Return the state of some rows, repeated or reordered."""
    past = tuple(Past(p.keys[rows], p.values[rows]) for p in state.past)
    reading = None if state.reading is None else state.reading.rows(rows)
    return replace(state, past=past, reading=reading)


def _start(starts: Sequence[int]) -> Slice:
    places = [(number, at) for number, count in enumerate(starts) for at in range(count)]
    return Slice((), 0.0, tuple(places))
