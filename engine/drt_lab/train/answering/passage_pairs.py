"""Batches of question and passage pairs, whatever the questions are made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from drt_engine.config.model import ReaderConfig
from drt_engine.model.reader import pack_pairs
from drt_lab.train.answering.passages import IGNORED, PassageBatch

# First and last token of an answer in its passage. ``None`` is a border that is not known: both
# where only the passage is known to be right, one where the passage cuts the answer off.
Target = tuple[int | None, int | None]


@dataclass(frozen=True)
class Passage:
    """Token ids of a passage, of what stands in front of it, and the answers in it."""

    ids: list[int]
    targets: list[Target]
    context: list[int]
    log_probability: float = 0.0


@dataclass(frozen=True)
class AskedQuestion:
    """Token ids of a question, the passages that compete for it, and its labels."""

    ids: list[int]
    passages: list[Passage]
    answer_type: int = IGNORED
    verdict: int = IGNORED


def passage_batch(
    reader: ReaderConfig, questions: Sequence[AskedQuestion], pad_id: int
) -> PassageBatch:
    """Return the pairs of ``questions``, question by question."""
    owners = [n for n, question in enumerate(questions) for _ in question.passages]
    passages = [passage for question in questions for passage in question.passages]
    pairs, offsets = pack_pairs(
        reader,
        [questions[owner].ids for owner in owners],
        [passage.ids for passage in passages],
        contexts=[passage.context for passage in passages],
        pad_id=pad_id,
    )
    # Targets [P, T]: the borders of the evidence, moved to where its passage is in the pair.
    starts, ends = (torch.zeros_like(pairs.passage) for _ in range(2))
    for row, (passage, offset) in enumerate(zip(passages, offsets, strict=True)):
        for first, last in passage.targets:
            for targets, token in ((starts, first), (ends, last)):
                if token is None:  # the passage is right, wherever in it
                    targets[row] |= pairs.passage[row]
                else:
                    targets[row, token + offset] = True
    return PassageBatch(
        pairs=pairs,
        question=torch.tensor(owners),
        log_probability=torch.tensor([passage.log_probability for passage in passages]),
        starts=starts,
        ends=ends,
        answered=torch.tensor([any(p.targets for p in q.passages) for q in questions]),
        answer_type=torch.tensor([question.answer_type for question in questions]),
        verdict=torch.tensor([question.verdict for question in questions]),
    )


def around(chunk: int, size: int, margin: int, length: int) -> tuple[int, int]:
    """Return the first token of a chunk with ``margin`` tokens of its neighbours, and the last + 1.

    Chunks have ``size`` tokens, the document ``length``.
    """
    return max(0, chunk * size - margin), min(length, (chunk + 1) * size + margin)


def targets_in(
    spans: Sequence[tuple[int, int]], start: int, stop: int, *, region: bool = False
) -> Iterator[Target]:
    """Yield the answers among ``spans`` that tokens ``start:stop`` hold or cut.

    Marking every token of the evidence instead blurred the borders of all quotes.
    """
    for first, last in spans:
        if first < stop and last >= start:
            yield (
                first - start if first >= start and not region else None,
                last - start if last < stop and not region else None,
            )
