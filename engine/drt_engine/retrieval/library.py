"""Retrieval over a library: landmark scan and BM25, records from the store, re-reading."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from drt_engine.model.gca_layer import ChunkMemory, Retrieved
from drt_engine.model.quote_head import Reread
from drt_engine.model.scorer import LandmarkScorer, LateInteraction
from drt_engine.model.selection import select
from drt_engine.retrieval.reading import Reading, read_passages
from drt_engine.retrieval.sources import Found, join_memories
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch, ChunkRow
from drt_engine.store.view import LibraryView
from drt_engine.text.lexical import normalised_bm25, with_neighbours
from drt_kernels import landmark_topk
from drt_kernels.scan import Landmarks, exact_scores

RetrieverName = Literal["hybrid", "landmark", "lexical"]
LEXICAL_CANDIDATES = 64
_LONGEST_FRONT = 256  # question tokens put in front of a chunk that is read again


@dataclass(frozen=True)
class Passage:
    """A retrieved library chunk with its margins, and where the token of each slot stands.

    ``tokens`` [U] number the document's tokens (-1: none), ``starts``, ``ends`` [U] are characters.
    ``text`` is that of the chunk and of the neighbours that lend tokens, from ``text_start`` on.
    """

    row: ChunkRow
    tokens: Tensor
    starts: Tensor
    ends: Tensor
    score: float
    probability: float
    by: Literal["landmark", "lexical", "both"]
    late: float = 0.0  # the part of the score that comes from its tokens
    text: str = ""
    text_start: int = 0


@dataclass
class LibrarySource:
    """Finds chunks of some documents of a library for one question, and the session's own if asked.

    Landmarks and BM25 name candidates, whose tokens are then compared where the model can.

    ``passages`` collects what each call of ``find`` took from the library, best first.
    """

    runtime: Runtime
    store: LibraryView
    question: str
    question_ids: Sequence[int]
    documents: Sequence[str] | None = None
    count: int = 8
    retriever: RetrieverName = "hybrid"
    reread: bool = True
    own: list[ChunkMemory] = field(default_factory=list)
    use_own: bool = False
    passages: list[list[Passage]] = field(default_factory=list)
    tokens_read: int = 0
    _asking: list[ChunkMemory] = field(default_factory=list)
    _lexical: dict[int, float] | None = None
    _bonus: dict[int, float] | None = None
    _late: dict[int, float] = field(default_factory=dict)

    def add(self, memory: ChunkMemory) -> None:
        """Keep a closed chunk of the stream, which asks together with those after it."""
        self.own.append(memory)
        self._asking.append(memory)

    def find(self, query: Tensor, scorer: LandmarkScorer, asking: ChunkMemory) -> Found | None:
        """Query vector [E] -> the best chunks of the library, and of the stream where asked for.

        ``asking`` and the chunks added since the last retrieval are what tokens are compared with.
        """
        question = _one(join_memories([*self._asking, asking]))
        self._asking = []
        ids, scores = self._scores(query.float().cpu(), scorer)
        self._late = {}
        if scorer.late is not None and self.retriever != "lexical":
            ids, scores = self._compare(ids, scores, scorer.late, question)
        own = join_memories(self.own) if self.own and self.use_own else None
        if own is not None:
            late = None
            if scorer.late is not None:
                late = scorer.late(question, scorer.late.keys(own), own.mask)
            mine = scorer.scores(query[None], own.landmarks, late=late).total
            scores = torch.cat([scores, mine[0].cpu()])
        if not len(scores):
            self.passages.append([])
            return None
        picked = select(scores[None], torch.ones(1, len(scores), dtype=torch.bool), self.count)
        kept = [
            (int(i), float(s), float(p))
            for i, s, p in zip(
                picked.index[0], picked.scores[0], picked.probabilities[0], strict=True
            )
            if float(p) > 0
        ]
        # Library chunks first: the quote head reads only those.
        kept.sort(key=lambda item: (item[0] >= len(ids), -item[1]))
        return self._assemble(kept, ids, own)

    def _scores(self, query: Tensor, scorer: LandmarkScorer) -> tuple[list[int], Tensor]:
        """Query vector [E] -> ids and scores of the few chunks among which the best of the library
        are.
        """
        bonus: dict[int, float] = {}
        weight = 0.0
        if self.retriever != "landmark" and scorer.lexical is not None:
            bonus, weight = self.lexical_scores(), scorer.lexical.item()
        only = self._only()
        scan = _Scan(self.store.scan_coded_landmarks(self.documents), only or bonus)
        if only:
            for _ in scan:
                pass
            scores: dict[int, float] = {}
        else:
            few = self.count
            if scorer.late is not None:
                few = max(few, self.runtime.config.late_candidates)
            # A bonus lifts those that have it, all of which are scored anyway: what is not among
            # the few best without it is not among them with it. Only a penalty makes room.
            found = landmark_topk(query[None], scan, few if weight >= 0 else few + len(bonus))
            kept = found.scores[0] > float("-inf")
            chosen = map(scan.chunk, found.index[0][kept].tolist())
            scores = dict(zip(chosen, found.scores[0][kept].tolist(), strict=True))
        wanted = sorted(c for c in scan.rows if c not in scores)
        if wanted:
            rows = torch.stack([scan.rows[c] for c in wanted])  # fp16, as the scan scores them
            scores.update(zip(wanted, exact_scores(query, rows).tolist(), strict=True))
        ids = sorted(scores)
        total = [scores[c] + weight * bonus.get(c, 0.0) for c in ids]
        return ids, torch.tensor(total)

    def _compare(
        self, ids: list[int], scores: Tensor, late: LateInteraction, question: ChunkMemory
    ) -> tuple[list[int], Tensor]:
        """Keep the best candidates, and add to their scores what their tokens make of the
        question's.
        """
        few = max(self.count, self.runtime.config.late_candidates)
        best = scores.topk(min(len(ids), few)).indices
        best = best.sort().values
        ids = [ids[i] for i in best.tolist()]
        if not ids:
            return ids, scores
        memory = _memory(self.store.read_chunks(ids), self.runtime.device)
        added = late(question, late.keys(memory), memory.mask)[0].cpu()
        self._late = dict(zip(ids, added.tolist(), strict=True))
        return ids, scores[best] + added

    def lexical(self) -> dict[int, float]:
        """BM25 shares of the best chunks for the question, by chunk id."""
        if self._lexical is None:
            limit = LEXICAL_CANDIDATES
            found = self.store.search_text(self.question, documents=self.documents, limit=limit)
            self._lexical = normalised_bm25(dict(found))
        return self._lexical

    def lexical_scores(self) -> dict[int, float]:
        """BM25 shares with a part of their neighbours', before the learnt weight, by chunk id."""
        if self._bonus is None:
            part = self.runtime.config.lexical_neighbours
            shares = self.lexical()
            beside = self.store.neighbours_of(list(shares)) if part else {}
            self._bonus = with_neighbours(shares, beside, part)
        return self._bonus

    def _only(self) -> list[int]:
        """The chunks that alone may be chosen; none means that all may."""
        if self.retriever != "lexical":
            return []
        best = sorted(self.lexical().items(), key=lambda item: -item[1])
        return [chunk for chunk, _ in best[: self.count]]

    def _assemble(
        self, kept: list[tuple[int, float, float]], ids: list[int], own: ChunkMemory | None
    ) -> Found:
        library = [k for k in kept if k[0] < len(ids)]
        mine = [k for k in kept if k[0] >= len(ids)]
        memories: list[ChunkMemory] = []
        again: Reread | None = None
        reading: Reading | None = None
        passages: list[Passage] = []
        if library:
            passages, batch = self._passages(library, ids)
            memory, again, reading = self._memory(passages, batch)
            memories.append(memory)
        self.passages.append(passages)
        if mine and own is not None:
            memories.append(_pick(own, [k[0] - len(ids) for k in mine]))
        device = self.runtime.device
        scores = torch.tensor([[[k[1] for k in kept]]], device=device)
        retrieved = Retrieved(
            join_memories(memories),
            torch.arange(len(kept), device=device)[None, None],
            scores,
            torch.tensor([[[k[2] for k in kept]]], device=device),
        )
        chunk_ids = tuple(ids[k[0]] if k[0] < len(ids) else len(ids) - 1 - k[0] for k in kept)
        return Found(retrieved, chunk_ids, reread=again, reading=reading)

    def _passages(
        self, library: list[tuple[int, float, float]], ids: list[int]
    ) -> tuple[list[Passage], ChunkBatch]:
        chunk_ids = [ids[i] for i, _, _ in library]
        rows = self.store.chunk_rows(chunk_ids)
        margin = self.runtime.config.passage_margin if self.reread else 0
        near = _Neighbourhood(self.store, chunk_ids, margin)
        lexical = {} if self.retriever == "landmark" else self.lexical()
        out = []
        for row, (_, score, probability) in zip(rows, library, strict=True):
            tokens, starts, ends = near.slots(row)
            by = self._found_by(row.id in lexical)
            late = self._late.get(row.id, 0.0)
            text, start = near.text(row)
            out.append(
                Passage(row, tokens, starts, ends, score, probability, by, late, text, start)
            )
        self._token_ids = near.token_ids
        return out, near.batch

    def _found_by(self, lexical: bool) -> Literal["landmark", "lexical", "both"]:
        if not lexical:
            return "landmark"
        return "lexical" if self.retriever == "lexical" else "both"

    def _memory(
        self, passages: list[Passage], batch: ChunkBatch
    ) -> tuple[ChunkMemory, Reread | None, Reading | None]:
        device = self.runtime.device
        if not self.reread:
            memory = _memory(batch, device)
            self.tokens_read += int(memory.mask.sum())
            return memory, None, None
        if self.runtime.model.span_reader is not None:
            slots = [passage.tokens for passage in passages]
            reading, tokens_read = read_passages(
                self.runtime.model, self.question_ids, self._token_ids, slots
            )
            self.tokens_read += tokens_read
            return _memory(batch, device), None, reading
        tokens = torch.stack(self._token_ids)[None].to(device)
        mask = torch.stack([p.tokens >= 0 for p in passages])[None].to(device)
        front = torch.tensor([list(self.question_ids)[-_LONGEST_FRONT:]], device=device)
        self.tokens_read += int(mask.sum()) + front.shape[1] * len(passages)
        again, memory = self.runtime.model.reread(
            front, torch.ones_like(front, dtype=torch.bool), tokens, mask
        )
        empty = torch.zeros(len(passages), 1, device=device)
        return ChunkMemory(memory.keys, memory.values, memory.mask, empty), again, None


class _Scan:
    """Landmarks of a store on their way through the scan.

    Notes which chunks they are of, and keeps the landmarks of chunks that are ``wanted`` anyway.
    """

    def __init__(
        self, parts: Iterable[tuple[Sequence[int], Landmarks]], wanted: Iterable[int]
    ) -> None:
        self._parts = parts
        self._wanted = sorted(set(wanted))
        self._starts = [0]
        self._ids: list[Sequence[int]] = []
        self.rows: dict[int, Tensor] = {}

    def __iter__(self) -> Iterator[Landmarks]:
        for ids, landmarks in self._parts:
            self._ids.append(ids)
            self._starts.append(self._starts[-1] + len(ids))
            if self._wanted:
                found = list(self._places(ids))
                rows = landmarks.rows[torch.tensor([place for _, place in found], dtype=torch.long)]
                self.rows.update(zip([chunk for chunk, _ in found], rows.unbind(), strict=True))
            yield landmarks

    def _places(self, ids: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Which wanted chunks are among these, and where; a range is not looked through."""
        if isinstance(ids, range):
            first = bisect_left(self._wanted, ids.start)
            for chunk in self._wanted[first : bisect_left(self._wanted, ids.stop)]:
                yield chunk, chunk - ids.start
        else:
            for chunk in set(self._wanted).intersection(ids):
                yield chunk, ids.index(chunk)

    def chunk(self, number: int) -> int:
        """The id of the chunk whose landmark has this number in the scan."""
        part = bisect_right(self._starts, number) - 1
        return self._ids[part][number - self._starts[part]]


class _Neighbourhood:
    """Tokens of chunks with ``margin`` tokens of their neighbours, and where those stand."""

    def __init__(self, store: LibraryView, chunk_ids: Sequence[int], margin: int) -> None:
        self.margin = margin
        self.around = (
            store.neighbours_of(chunk_ids) if margin else dict.fromkeys(chunk_ids, (None, None))
        )
        extra = {n for pair in self.around.values() for n in pair if n is not None}
        order = [*chunk_ids, *sorted(extra - set(chunk_ids))]
        everything = store.read_chunks(order)
        self.place = {c: i for i, c in enumerate(order)}
        self.rows = {r.id: r for r in store.chunk_rows(order)}
        self.all = everything
        count = len(chunk_ids)
        self.batch = ChunkBatch(*(getattr(everything, f)[:count] for f in _FIELDS))
        self.token_ids: list[Tensor] = []

    def text(self, row: ChunkRow) -> tuple[str, int]:
        """The text of a chunk and of its neighbours, and where it begins in the document."""
        before, after = self.around[row.id]
        rows = [self.rows[chunk] for chunk in (before, row.id, after) if chunk is not None]
        return "".join(one.text for one in rows), rows[0].start

    def slots(self, row: ChunkRow) -> tuple[Tensor, Tensor, Tensor]:
        """Document token numbers, character starts and ends [S + 2 margin]; -1: no token there."""
        size = self.all.ids.shape[1]
        shape = (size + 2 * self.margin,)
        tokens, starts, ends = (torch.full(shape, -1, dtype=torch.long) for _ in range(3))
        token_ids = torch.zeros(shape, dtype=torch.long)
        before, after = self.around[row.id]
        wanted = [(before, -size), (row.id, 0), (after, size)]
        for chunk, shift in wanted:
            if chunk is None:
                continue
            at, base = self.place[chunk], self.rows[chunk].start
            slot = torch.arange(int(self.all.lengths[at]))
            place = slot + shift + self.margin
            inside = (place >= 0) & (place < shape[0])
            slot, place = slot[inside], place[inside]
            tokens[place] = row.ordinal * size + slot + shift
            starts[place] = base + self.all.starts[at, slot].long()
            ends[place] = base + self.all.ends[at, slot].long()
            token_ids[place] = self.all.ids[at, slot].long()
        self.token_ids.append(token_ids)
        return tokens, starts, ends


_FIELDS = ("ids", "starts", "ends", "lengths", "keys", "values", "landmarks")


def _memory(batch: ChunkBatch, device: torch.device) -> ChunkMemory:
    """The memory of stored chunks, as a model attends to it; nothing finds them any more."""
    mask = torch.arange(batch.ids.shape[1])[None] < batch.lengths[:, None]
    empty = torch.zeros(len(mask), 1)
    return ChunkMemory(*(t.to(device) for t in (batch.keys, batch.values, mask, empty)))


def _one(memory: ChunkMemory) -> ChunkMemory:
    """Chunks of one question as if they were a single one."""
    keys, values, mask = (t.flatten(0, 1)[None] for t in (memory.keys, memory.values, memory.mask))
    return ChunkMemory(keys, values, mask, memory.landmarks[-1:])


def _pick(memory: ChunkMemory, rows: Sequence[int]) -> ChunkMemory:
    index = torch.tensor(list(rows))
    return ChunkMemory(
        memory.keys[index], memory.values[index], memory.mask[index], torch.zeros(len(rows), 1)
    )
