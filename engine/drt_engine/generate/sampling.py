"""From logits to the next token, with repetition control, and from tokens to text.

A tokenizer that lower-cases gets the case of the sources back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.generate.decode import Decoder
from drt_engine.generate.filters import TokenFilter
from drt_engine.runtime import Runtime


@dataclass(frozen=True)
class SamplingConfig:
    """``temperature`` 0 is greedy; no run of ``repeat`` tokens is written twice.

    At least ``min_tokens`` and at most ``max_tokens`` are written.
    """

    max_tokens: int = 96
    min_tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repeat: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        limits = {
            "max_tokens": (self.max_tokens >= 1, "1 or more"),
            "min_tokens": (0 <= self.min_tokens <= self.max_tokens, "0 to max_tokens"),
            "temperature": (0 <= self.temperature < float("inf"), "0 or more"),
            "top_k": (self.top_k >= 0, "0 (all tokens) or more"),
            "top_p": (0 < self.top_p <= 1, "above 0, at most 1"),
            "repeat": (self.repeat >= 2, "2 or more"),
        }
        for name, (allowed, expected) in limits.items():
            if not allowed:
                raise ConfigError(f"{name} is {getattr(self, name)}, expected {expected}")


def next_token(logits: Tensor, config: SamplingConfig, generator: torch.Generator) -> int:
    """Choose a token by logits [V]: the best at temperature 0, else a sample.

    Samples come from the ``top_k`` best, and of these from the fewest that hold ``top_p``.
    """
    if config.temperature == 0:
        return int(logits.argmax())
    order = logits.argsort(descending=True)[: config.top_k or None]
    probabilities = torch.softmax(logits[order] / config.temperature, dim=-1)
    # The token that crosses top_p still counts, so at least one remains.
    keep = probabilities.cumsum(0) - probabilities < config.top_p
    # On the CPU, where the generator is.
    place = torch.multinomial((probabilities * keep).cpu(), 1, generator=generator)
    return int(order[int(place)])


def repeated(written: Sequence[int], size: int) -> set[int]:
    """Return the tokens that would complete a run of ``size`` tokens that was written before."""
    if len(written) < size - 1:
        return set()
    tail = tuple(written[len(written) - size + 1 :])
    runs = (tuple(written[i : i + size]) for i in range(len(written) - size + 1))
    return {run[-1] for run in runs if run[:-1] == tail}


def write_tokens(
    decoder: Decoder, state: Tensor, config: SamplingConfig, token_filter: TokenFilter | None = None
) -> Iterator[int]:
    """Yield token ids after ``state`` [E], the upper state of the last token fed.

    Ends at the end token, after ``max_tokens``, or where the filter and the ban on repetition leave
    nothing; the decoder has then been fed all that was yielded.
    """
    model = decoder.model.config
    generator = torch.Generator().manual_seed(config.seed)
    forbidden = [model.pad_id, model.landmark_id, model.answer_id]
    written: list[int] = []
    for _ in range(config.max_tokens):
        logits = decoder.logits(state)
        logits[forbidden] = float("-inf")
        if len(written) < config.min_tokens:
            logits[model.end_id] = float("-inf")
        allowed = token_filter.mask(written) if token_filter is not None else None
        if allowed is not None:
            logits = logits.masked_fill(~allowed.to(logits.device), float("-inf"))
        logits[list(repeated(written, config.repeat))] = float("-inf")
        if not bool(torch.isfinite(logits).any()):
            return  # whatever is allowed would repeat
        token = next_token(logits, config, generator)
        if token == model.end_id:
            return
        written.append(token)
        yield token
        state = decoder.feed([token])[-1]


def write(
    runtime: Runtime,
    decoder: Decoder,
    state: Tensor,
    config: SamplingConfig,
    *,
    sources: Sequence[str] = (),
    token_filter: TokenFilter | None = None,
) -> Iterator[str]:
    """Yield text as it is written, word by word, with the case that the sources give each word."""
    tokenizer = runtime.tokenizer
    keeps_case = "A" in tokenizer.decode(tokenizer.encode("A").ids)
    case = None if keeps_case else Recaser(sources)
    ids: list[int] = []
    text, shown = "", 0
    for token in write_tokens(decoder, state, config, token_filter):
        ids.append(token)
        text = tokenizer.decode(ids)
        text = text if case is None else case.apply(text)
        ready = _settled(text)
        if ready > shown:
            yield text[shown:ready]
            shown = ready
    if text[shown:]:
        yield text[shown:]


def _settled(text: str) -> int:
    """Return how many characters stay as they are: the last word may still grow."""
    words = [match.start() for match in re.finditer(r"(?<=\s)(?=\S*\w)", text)]
    return words[-1] if words else 0


class Recaser:
    """Gives lower-cased words the case they mostly have in the sources, and sentences a capital."""

    def __init__(self, sources: Sequence[str]) -> None:
        counts_of: dict[str, Counter[str]] = {}
        for source in sources:
            for match in re.finditer(r"\w+", source):
                word = match.group()
                # A capital after a full stop says nothing about the word.
                opening = source[: match.start()].rstrip()[-1:] in ("", ".", "!", "?", "\n", "#")
                if not (opening and word[1:].islower()):
                    counts_of.setdefault(word.lower(), Counter())[word] += 1
        self._case = {word: counts.most_common(1)[0][0] for word, counts in counts_of.items()}

    def apply(self, text: str) -> str:
        """Return ``text`` with the sources' case and capitals at sentence starts."""
        text = re.sub(r"\s+([.,;:!?%)\]])", r"\1", text)
        text = re.sub(r"([(\[$#])\s+", r"\1", text)
        text = re.sub(r"(\w)\s*([-’'/])\s*(?=\w)", r"\1\2", text)
        text = re.sub(r"\w+", lambda m: self._case.get(m.group(), m.group()), text)
        return re.sub(r"(^|[.!?]\s+)(\w)", lambda m: m.group(1) + m.group(2).upper(), text)
