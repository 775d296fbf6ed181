"""The one place that lays out a prompt: query chunks, the question once more, ``<answer>``, answer.

The question's tokens are right-aligned in whole chunks, so that a landmark follows its last token.
Leading padding is cropped: padding changes nothing, so a cropped prompt is the same prompt.
Training, evaluation and asking call this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig


@dataclass(frozen=True)
class Prompt:
    """N prompts of the same layout: ``ids``, ``valid`` [N, T].

    ``borders`` are the slots of landmarks, ``query_borders`` of them close query chunks;
    ``answer_slot`` [N] is the slot of ``<answer>``; ``restates`` [N, T] holds, for a restated
    token, the slot of its first mention, else -1.
    """

    ids: Tensor
    valid: Tensor
    borders: tuple[int, ...]
    query_borders: int
    answer_slot: Tensor
    restates: Tensor


def query_slots(longest: int, chunk: int) -> list[int]:
    """Return the lengths of the query chunks of ``longest`` tokens, the cropped one first."""
    full, remainder = divmod(longest, chunk)
    return ([remainder] if remainder else []) + [chunk] * full


def lay_out(
    questions: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], config: ModelConfig
) -> Prompt:
    """Lay out questions (token ids, at least one each) with the beginnings of their answers.

    An answer may be empty.
    """
    lengths = query_slots(max(len(q) for q in questions), config.chunk)
    tails = [[*q, config.answer_id, *a] for q, a in zip(questions, answers, strict=True)]
    tail_chunks = _split(max(len(t) for t in tails), config.chunk)
    # The slots of the longest prompt, in order: each chunk, and a landmark after all but the last.
    borders: list[int] = []
    question_slots: list[int] = []
    tail_slots: list[int] = []
    at = 0
    for length in lengths:
        question_slots += range(at, at + length)
        at += length + 1
        borders.append(at - 1)
    for number, length in enumerate(tail_chunks):
        tail_slots += range(at, at + length)
        at += length
        if number + 1 < len(tail_chunks):
            borders.append(at)
            at += 1
    # The rows: questions from the right of their slots, tails from the left of theirs.
    shape = (len(questions), at)
    ids = torch.full(shape, config.pad_id)
    valid = torch.zeros(shape, dtype=torch.bool)
    restates = torch.full(shape, -1)
    ids[:, borders] = config.landmark_id
    answer_slot = torch.zeros(len(questions), dtype=torch.long)
    for row, (question, tail) in enumerate(zip(questions, tails, strict=True)):
        first = torch.tensor(question_slots[len(question_slots) - len(question) :])
        again = torch.tensor(tail_slots[: len(tail)])
        valid[row, [b for b in borders if b > int(first[0])]] = True
        ids[row, first], valid[row, first] = torch.tensor(list(question)), True
        ids[row, again], valid[row, again] = torch.tensor(tail), True
        restates[row, again[: len(question)]] = first
        answer_slot[row] = tail_slots[len(question)]
    return Prompt(ids, valid, tuple(borders), len(lengths), answer_slot, restates)


def _split(length: int, chunk: int) -> list[int]:
    return [min(chunk, length - i) for i in range(0, length, chunk)]


def segments(prompt: Prompt) -> list[tuple[int, int]]:
    """Return start and stop slots of a prompt's chunks, each with the landmark that closes it."""
    edges = [0, *(b + 1 for b in prompt.borders), prompt.ids.shape[1]]
    return [(a, b) for a, b in zip(edges, edges[1:], strict=False) if b > a]
