"""Text that the decoder writes from chunk memory, and which passage each word was read from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drt_engine.decoder.model import Reading
from drt_engine.decoder.prompt import (
    END,
    NOT_SAID,
    Task,
    control_id,
    encode,
    never_written,
    prompt_ids,
)
from drt_engine.decoder.slices import weighed_by_evidence
from drt_engine.decoder.writing import write_tokens
from drt_engine.generate.passage_memory import PassageMemory, PassageReader
from drt_engine.retrieval.passages import Passage


@dataclass(frozen=True)
class WrittenPiece:
    """Some ``text``, and how much of its writing was reading each passage: ``shares`` [P]."""

    text: str
    shares: Tensor

    @property
    def masses(self) -> tuple[float, ...]:
        """The shares as plain numbers."""
        return tuple(self.shares.tolist())


def write_from_memory(
    reader: PassageReader,
    question: str,
    passages: Sequence[Passage],
    *,
    quote: str = "",
    beginning: str = "",
    max_tokens: int,
) -> Iterator[WrittenPiece]:
    """Yield an answer to a question, word by word; nothing where passages hold no text.

    A ``quote`` is what the answer is to be about; its ``beginning`` is given, and read as if the
    decoder had written it.
    As for quotes, each chunk is weighed by its retrieval probability times how likely it is, read
    alone, to hold the answer.
    """
    memory = reader.read(passages)
    if memory.reading is None:
        return
    model, tokenizer = reader.model, reader.tokenizer
    end_id = control_id(tokenizer, END)
    reading, not_said = _weighed(reader, question, memory.reading)
    prompt = prompt_ids(tokenizer, question, Task.WRITE, quote=quote)
    ids: list[int] = []
    shown, shares = 0, torch.zeros(reading.index.shape[1])
    written = write_tokens(
        model,
        prompt,
        reading,
        end_id=end_id,
        max_tokens=max_tokens,
        beginning=encode(tokenizer, f" {beginning}") if beginning else (),
        other_than=not_said,
        never=never_written(tokenizer),
    )
    for token in written:
        ids.append(token.id)
        shares = shares + token.shares
        text = _one_line(tokenizer.decode(ids))
        ready = _settled(text)
        if ready > shown:
            yield WrittenPiece(text[shown:ready], _by_passage(shares, memory))
            shown, shares = ready, torch.zeros_like(shares)
    text = _one_line(tokenizer.decode(ids))
    if text[shown:]:
        yield WrittenPiece(text[shown:], _by_passage(shares, memory))


def rewrite_from_memory(
    reader: PassageReader, sentence: str, passages: Sequence[Passage], *, max_tokens: int
) -> str:
    """Return a sentence of some passages as a summary of them would have it.

    Passages are weighed by their retrieval probabilities alone: the sentence retrieved them.
    """
    memory = reader.read(passages)
    if memory.reading is None:
        return ""
    tokens = write_tokens(
        reader.model,
        prompt_ids(reader.tokenizer, sentence, Task.SUMMARISE),
        memory.reading,
        end_id=control_id(reader.tokenizer, END),
        max_tokens=max_tokens,
        never=never_written(reader.tokenizer),
    )
    return _one_line(reader.tokenizer.decode([token.id for token in tokens])).rstrip()


def _settled(text: str) -> int:
    """Return how many characters stay as they are: the last word may still grow."""
    words = [match.start() for match in re.finditer(r"(?<=\s)(?=\S*\w)", text)]
    return words[-1] if words else 0


def _one_line(text: str) -> str:
    """Return a text without the line breaks that it took over from a document."""
    return re.sub(r"\s+", " ", text).lstrip()


def read_again(
    reader: PassageReader, question: str, text: str, passages: Sequence[Passage]
) -> list[WrittenPiece]:
    """Return an answer's tokens with the passages that each would be written from."""
    memory = reader.read(passages)
    encoding = reader.tokenizer.encode(text, add_special_tokens=False)
    if memory.reading is None or not encoding.ids:
        return []
    model = reader.model
    reading, _ = _weighed(reader, question, memory.reading)
    prompt = prompt_ids(reader.tokenizer, question, Task.QUOTE)
    shares: list[Tensor] = []
    ids = torch.tensor([[*prompt, *encoding.ids[:-1]]], device=model.device)
    model.feed(model.open(reading), ids, shares=shares)
    rows = torch.stack([s[0, len(prompt) - 1 :] for s in shares]).mean(dim=0).cpu()
    ends = [0, *(end for _, end in encoding.offsets)]
    return [
        WrittenPiece(text[ends[n] : ends[n + 1]], _by_passage(row, memory))
        for n, row in enumerate(rows)
    ]


def _weighed(reader: PassageReader, question: str, reading: Reading) -> tuple[Reading, list[int]]:
    """Return chunks weighed by the evidence in them, and the tokens of "does not say"."""
    not_said = [*encode(reader.tokenizer, NOT_SAID), control_id(reader.tokenizer, END)]
    prompt = prompt_ids(reader.tokenizer, question, Task.QUOTE)
    return weighed_by_evidence(reader.model, reading, prompt, not_said), not_said


def _by_passage(shares: Tensor, memory: PassageMemory) -> Tensor:
    """Return the shares [P] of passages, each the sum of its rows of memory."""
    return torch.stack([shares[rows.start : rows.stop].sum() for rows in memory.rows])
