"""The reader pass: retrieved passages read together with the question.

A model with a ``SpanReader`` (cross-encoder) points at spans; one without encodes the passages
again with the question in front, for its quote head and its memory.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_engine.model.drt import DRT
from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.quote_head import QuoteLogits, Reread
from drt_engine.model.reader import PairLogits, pack_pairs
from drt_engine.retrieval.passages import Part, Passage

_READ_AT_ONCE = (2, 2)  # passages; what is then not sure takes all the others
_LONGEST_FRONT = 256  # question tokens in front of a passage that is encoded again
_NO_HEADERS: Mapping[str, Sequence[int]] = MappingProxyType({})
Note = Callable[[int], None]


@dataclass(frozen=True)
class PassageLogits:
    """What the cross-encoder returns for R passages of U token slots, in fp32 on the CPU.

    ``start``, ``end`` [R, U], -inf where there is no token; ``null`` [R, 2]; ``types`` [R, K];
    ``verdict`` [R, 2].
    """

    start: Tensor
    end: Tensor
    null: Tensor
    types: Tensor
    verdict: Tensor

    def quote_logits(self, log_probability: Tensor, weight: float) -> QuoteLogits:
        """Return the logits of all passages as one choice.

        ``log_probability`` [R] of retrieval is added with ``weight``.
        """
        prior = weight * log_probability
        null = (self.null + prior[:, None]).logsumexp(dim=0)  # [2]: no start, no end anywhere
        return QuoteLogits(
            (self.start + prior[:, None])[None],
            (self.end + prior[:, None])[None],
            null[:1],
            null[1:],
        )

    def evidence(self) -> Tensor:
        """Return the log-odds of each passage by itself, any span against none, [R]."""
        start = self.start.logsumexp(dim=1) - self.null[:, 0]
        end = self.end.logsumexp(dim=1) - self.null[:, 1]
        return (start + end) / 2

    def best_span(
        self, passages: Sequence[Passage], log_probability: Tensor, weight: float
    ) -> float:
        """Return the log-odds against none of the best span within a part of the R ``passages``.

        ``log_probability`` [R] of retrieval is added with ``weight``.
        """
        logits = self.quote_logits(log_probability, weight)
        best = float("-inf")
        for start, end, passage in zip(logits.start[0], logits.end[0], passages, strict=True):
            for part in passage.parts():
                last = end[part.mask].flip(0).cummax(dim=0).values.flip(0)  # from each token on
                best = max(best, float((start[part.mask] + last).amax()))
        end_null = logits.null if logits.end_null is None else logits.end_null
        return (best - float(logits.null) - float(end_null)) / 2


def _note_nothing(num_read: int) -> None:
    pass


def _counting_from(first: int, note: Note) -> Note:
    return lambda num_read: note(first + num_read)


def read_until(
    model: DRT,
    question_ids: Sequence[int],
    passages: Sequence[Passage],
    contexts: Sequence[list[int]],
    is_enough: Callable[[PassageLogits], bool],
    headers: Mapping[str, Sequence[int]] = _NO_HEADERS,
    *,
    note: Note = _note_nothing,
) -> tuple[PassageLogits, int]:
    """Read passages, best first, until ``is_enough`` says so of the logits of those read so far.

    Return these logits and how many tokens were read. ``note`` is as for ``read_passages``.
    """
    read: list[PassageLogits] = []
    tokens_read, first = 0, 0
    for count in (*_READ_AT_ONCE, len(passages)):
        if first:
            note(first)
        last = min(first + count, len(passages))
        logits, tokens = read_passages(
            model,
            question_ids,
            passages[first:last],
            contexts[first:last],
            headers,
            note=_counting_from(first, note),
        )
        read.append(logits)
        tokens_read += tokens
        together = _joined(read)
        first = last
        if first == len(passages) or is_enough(together):
            break
    return together, tokens_read


def _joined(parts: Sequence[PassageLogits]) -> PassageLogits:
    """Return the logits of some passages and of those after them."""
    slots = max(part.start.shape[1] for part in parts)

    def padded(values: Tensor, name: str) -> Tensor:
        if name not in ("start", "end"):
            return values
        return F.pad(values, (0, slots - values.shape[1]), value=float("-inf"))

    return PassageLogits(
        *(
            torch.cat([padded(getattr(part, field.name), field.name) for part in parts])
            for field in fields(PassageLogits)
        )
    )


def read_passages(
    model: DRT,
    question_ids: Sequence[int],
    passages: Sequence[Passage],
    contexts: Sequence[list[int]] = (),
    headers: Mapping[str, Sequence[int]] = _NO_HEADERS,
    *,
    note: Note = _note_nothing,
) -> tuple[PassageLogits, int]:
    """Read R passages with the cross-encoder; return the logits and how many tokens were read.

    ``contexts`` are token ids in front of the passages; none named means none anywhere. ``headers``
    are the token ids of the headers of all parts. ``note`` is called between batches with how many
    passages have been read.
    """
    reader = model.span_reader
    assert reader is not None
    # Slots without a token are left out of the pairs, and come back below.
    parts = [(row, part) for row, passage in enumerate(passages) for part in passage.parts()]
    texts = [_with_headers(passages[row], part, headers) for row, part in parts]
    question = list(question_ids)[-reader.config.longest_question :]
    pairs, offsets = pack_pairs(
        reader.config,
        [question] * len(parts),
        [text.ids for text in texts],
        contexts=[contexts[row] for row, _ in parts] if contexts else (),
        pad_id=model.config.pad_id,
    )
    columns = [offset + text.places for offset, text in zip(offsets, texts, strict=True)]
    for pair, places in enumerate(columns):  # an answer holds nothing that was put in between
        pairs.passage[pair] = False
        pairs.passage[pair, places] = True
    unread = Counter(row for row, _ in parts)  # parts of each passage

    def note_batch(rows: Sequence[int]) -> None:
        unread.subtract(parts[row][0] for row in rows)
        num_read = sum(count == 0 for count in unread.values())
        if 0 < num_read < len(passages):
            note(num_read)

    device = model.embedding.weight.device
    logits = reader(model.embedding, pairs.to(device), note_batch=note_batch)

    def by_slot(values: Tensor) -> Tensor:  # [P, T] over pairs -> [R, U] over slots
        out = torch.full((len(passages), len(passages[0].mask)), float("-inf"))
        for pair, ((row, part), places) in enumerate(zip(parts, columns, strict=True)):
            out[row, part.mask] = values[pair, places].cpu()
        return out

    passage_logits = PassageLogits(
        by_slot(logits.start),
        by_slot(logits.end),
        *_by_passage([row for row, _ in parts], logits, len(passages)),
    )
    return passage_logits, int(pairs.valid.sum())


class _PartText(NamedTuple):
    """Token ids of a part, and where the tokens of its slots are among them."""

    ids: list[int]
    places: Tensor


def _with_headers(passage: Passage, part: Part, headers: Mapping[str, Sequence[int]]) -> _PartText:
    """Return a part with each header where it belongs."""
    ids = passage.token_ids[part.mask].tolist()
    if not part.headers or not headers:
        return _PartText(ids, torch.arange(len(ids)))
    waiting = deque(part.headers)
    text: list[int] = []
    places: list[int] = []
    for token_id, start in zip(ids, passage.starts[part.mask].tolist(), strict=True):
        while waiting and waiting[0][0] <= start:
            at, header = waiting.popleft()
            text += headers[header] if at == start else ()  # none for what is cut off
        places.append(len(text))
        text.append(token_id)
    return _PartText(text, torch.tensor(places, dtype=torch.long))


def _by_passage(
    rows: Sequence[int], logits: PairLogits, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return null logits, types and verdict of R passages from those of their P parts.

    The null logit of a passage is the mean over its parts, so that many records weigh no more than
    one text; type and verdict are those of the part that holds an answer most likely.
    """
    null, types, verdict = (t.cpu() for t in (logits.null, logits.types, logits.verdict))
    if len(rows) == count:
        return null, types, verdict
    evidence = logits.start.logsumexp(dim=1).cpu() - null[:, 0]
    parts = [torch.tensor([n for n, row in enumerate(rows) if row == r]) for r in range(count)]
    best = torch.stack([part[evidence[part].argmax()] for part in parts])
    means = [null[part].logsumexp(dim=0) - math.log(len(part)) for part in parts]
    return torch.stack(means), types[best], verdict[best]


def encode_passages(
    model: DRT, question_ids: Sequence[int], passages: Sequence[Passage], device: torch.device
) -> tuple[Reread, ChunkMemory, int]:
    """Encode R passages again with the question in front.

    Return the states for the quote head, the memory that replaces the stored one, and how many
    tokens were read.
    """
    tokens = torch.stack([passage.token_ids for passage in passages])[None].to(device)
    mask = torch.stack([passage.mask for passage in passages])[None].to(device)
    front = torch.tensor([list(question_ids)[-_LONGEST_FRONT:]], device=device)
    front_valid = torch.ones_like(front, dtype=torch.bool)
    reread, memory = model.reread(front, front_valid, tokens, mask)
    tokens_read = int(mask.sum()) + front.shape[1] * len(passages)
    no_landmarks = torch.zeros(len(passages), 1, device=device)
    return reread, ChunkMemory(memory.keys, memory.values, memory.mask, no_landmarks), tokens_read
