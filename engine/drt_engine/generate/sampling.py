"""From logits to the likeliest tokens, with repetition control, and from tokens to text.

A tokenizer that lower-cases gets the case of the sources back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from drt_engine.decoder.writing import repeated
from drt_engine.generate.decode import Decoder
from drt_engine.runtime import Runtime

_REPEAT = 4  # no run of so many tokens is written twice


def write_tokens(
    decoder: Decoder, state: Tensor, *, max_tokens: int, min_tokens: int = 0
) -> Iterator[int]:
    """Yield token ids after ``state`` [E], the upper state of the last token fed.

    Ends at the end token, which waits for ``min_tokens``, after ``max_tokens``, or where the ban on
    repetition leaves nothing; the decoder has then been fed all that was yielded.
    """
    model = decoder.model.config
    forbidden = [model.pad_id, model.landmark_id, model.answer_id]
    written: list[int] = []
    for _ in range(max_tokens):
        logits = decoder.logits(state)
        logits[forbidden] = float("-inf")
        if len(written) < min_tokens:
            logits[model.end_id] = float("-inf")
        logits[list(repeated(written, _REPEAT))] = float("-inf")
        if not bool(torch.isfinite(logits).any()):
            return  # whatever is left would repeat
        token = int(logits.argmax())
        if token == model.end_id:
            return
        written.append(token)
        yield token
        state = decoder.feed([token])[-1]


def write(
    runtime: Runtime,
    decoder: Decoder,
    state: Tensor,
    *,
    sources: Sequence[str],
    max_tokens: int,
    min_tokens: int = 0,
) -> Iterator[str]:
    """Yield text as it is written, word by word, with the case that the sources give each word."""
    tokenizer = runtime.tokenizer
    keeps_case = "A" in tokenizer.decode(tokenizer.encode("A").ids)
    case = None if keeps_case else Recaser(sources)
    ids: list[int] = []
    text, shown = "", 0
    for token in write_tokens(decoder, state, max_tokens=max_tokens, min_tokens=min_tokens):
        ids.append(token)
        text = tokenizer.decode(ids)
        text = text if case is None else case.apply(text)
        ready = settled(text)
        if ready > shown:
            yield text[shown:ready]
            shown = ready
    if text[shown:]:
        yield text[shown:]


def settled(text: str) -> int:
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
