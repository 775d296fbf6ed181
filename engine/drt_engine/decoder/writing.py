"""Free writing: token after token, each with how much of it was read from which chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drt_engine.decoder.model import DecoderState, Reading, RetrievalDecoder

_REPEAT = 4  # no run of so many tokens is written twice
_LEAST_KEPT = 0.25  # of a token's probability, where it also begins the text that is excluded


@dataclass(frozen=True)
class WrittenToken:
    """A token ``id`` with its log-probability.

    ``shares`` [R] are the attention that its prediction paid to each chunk that was read: a mean
    over the upper layers and their heads, 1 less what went to the prompt and the text so far.
    """

    id: int
    log_probability: float
    shares: Tensor


def write_tokens(
    model: RetrievalDecoder,
    prompt: Sequence[int],
    reading: Reading,
    *,
    end_id: int,
    max_tokens: int,
    beginning: Sequence[int] = (),
    other_than: Sequence[int] = (),
    never: Sequence[int] = (),
) -> Iterator[WrittenToken]:
    """Yield the likeliest token after a prompt, and so on, until ``end_id`` or ``max_tokens``.

    A text that has a ``beginning`` goes on after it; its tokens come first, and do not count.
    The text is not ``other_than``, a text with its closing token: tokens that begin like it have
    the probability of all texts that begin so but for that one. No run of four tokens is written
    twice, and none of the tokens ``never``; where that leaves nothing, the text ends.
    """
    shares: list[Tensor] = []
    ids = torch.tensor([list(prompt)], device=model.device)
    states, state = model.feed(model.open(reading), ids, shares=shares)
    excluded = _Excluded(model, states, state, other_than)
    written = list(beginning)
    if written:
        of_prompt, shares = shares, []
        given = torch.tensor([written], device=model.device)
        following, state = model.feed(state, given, shares=shares)
        seen = torch.cat([states[0, -1:], following[0, :-1]])
        log_probs = torch.log_softmax(model.logits(seen).float(), dim=-1)
        by_layer = [
            torch.cat([before[0, -1:], own[0, :-1]])
            for before, own in zip(of_prompt, shares, strict=True)
        ]
        read = torch.stack(by_layer).mean(dim=0).cpu()
        for number, token in enumerate(written):
            yield WrittenToken(token, float(log_probs[number, token]), read[number])
        states = following
    while len(written) < len(beginning) + max_tokens:
        log_probs = excluded.apply(_log_probs(model, states), written)
        log_probs[[*never, *repeated(written, _REPEAT)]] = -torch.inf
        token = int(log_probs.argmax())
        if token == end_id or not torch.isfinite(log_probs[token]):
            return
        written.append(token)
        mean = torch.stack([s[0, -1] for s in shares]).mean(dim=0).cpu()
        yield WrittenToken(token, float(log_probs[token]), mean)
        shares.clear()
        ids = torch.tensor([[token]], device=model.device)
        states, state = model.feed(state, ids, shares=shares)


class _Excluded:
    """The text that is not to be written, with the log-probability of what is left of it."""

    def __init__(
        self, model: RetrievalDecoder, states: Tensor, state: DecoderState, ids: Sequence[int]
    ) -> None:
        self._ids, self._rest = list(ids), Tensor()
        if len(self._ids) > 1:
            read = torch.tensor([self._ids[:-1]], device=model.device)
            following, _ = model.feed(state, read)
            said = torch.log_softmax(
                model.logits(torch.cat([states[0, -1:], following[0]])).float(), dim=-1
            )
            of_ids = said[torch.arange(len(self._ids)), self._ids]
            self._rest = of_ids.flip(0).cumsum(0).flip(0).cpu()  # of ids[k:], after ids[:k]

    def apply(self, log_probs: Tensor, written: Sequence[int]) -> Tensor:
        """Return log-probabilities [V] of the next token without those of the excluded text."""
        count = len(written)
        if count >= len(self._rest) or self._ids[:count] != list(written):
            return log_probs
        token = self._ids[count]
        whole = float(log_probs[token].exp())
        kept = whole - float(self._rest[count].exp())
        # The difference of two numbers that are almost equal is noise in 16 bits.
        log_probs[token] = torch.tensor(kept if kept > _LEAST_KEPT * whole else 0.0).log()
        return log_probs


def _log_probs(model: RetrievalDecoder, states: Tensor) -> Tensor:
    return torch.log_softmax(model.logits(states[0, -1]).float(), dim=-1)


def repeated(written: Sequence[int], size: int) -> set[int]:
    """Return the tokens that would complete a run of ``size`` tokens that was written before."""
    if len(written) < size - 1:
        return set()
    tail = tuple(written[len(written) - size + 1 :])
    runs = (tuple(written[i : i + size]) for i in range(len(written) - size + 1))
    return {run[-1] for run in runs if run[:-1] == tail}
