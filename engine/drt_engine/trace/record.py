"""What was retrieved for which chunk of the answer and group, and what each token leaned on.

As data and as text; `trace_page` draws it. A `Tape` watches the model while it answers, so every
number is one that the model computed with; without a tape a trace holds the retrievals alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from drt_engine.generate.decode import Decoder
from drt_engine.model.gca_layer import ChunkMemory, GroupedCrossAttention, Retrieved
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.results import (
    Trace,
    TraceCandidate,
    TraceDocument,
    TraceEntry,
    TraceGroup,
    TraceToken,
)
from drt_engine.retrieval.library import LibrarySource, Passage
from drt_engine.retrieval.sources import Found
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_kernels.gca.reference import plain_softmax, softmax_off_by_one

CANDIDATES = 12  # of each kind, for each landmark
_BINS = 240  # of a document's map


class Tape:
    """Records how one question went through the model: queries, and attention of every token.

    Use ``decoder`` in place of ``Decoder`` and answer inside ``watching``.
    """

    def __init__(self) -> None:
        self.queries: list[Tensor] = []  # [E] of each retrieval
        self.fed: list[int] = []
        self._found: list[Found | None] = []
        self._masses: dict[int, list[tuple[int, Tensor]]] = {}  # layer -> (retrieval, [T, R])

    def decoder(self, runtime: Runtime, source: LibrarySource) -> Decoder:
        """Return a decoder that finds chunks in ``source`` and is recorded."""
        return _Recorded(runtime, source, self)

    @contextmanager
    def watching(self, runtime: Runtime) -> Iterator[None]:
        """Record what the upper layers do inside."""
        layers = [m for m in runtime.model.modules() if isinstance(m, GroupedCrossAttention)]
        handles = [
            layer.register_forward_hook(self._hook(number)) for number, layer in enumerate(layers)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def note(self, query: Tensor, found: Found | None) -> None:
        """Keep a landmark's query [E] and what it retrieved."""
        self.queries.append(query.detach().float().cpu())
        self._found.append(found)

    def masses(self, layers: range) -> list[tuple[int, Tensor]]:
        """Return, for each token that read something, the retrieval and its attention [R] over it.

        Averaged over ``layers``, which read the same; landmarks between chunks are among them.
        """
        whole = [
            [(number, row) for number, rows in self._masses.get(layer, []) for row in rows]
            for layer in layers
        ]
        return [
            (same[0][0], torch.stack([row for _, row in same]).mean(0))
            for same in zip(*whole, strict=True)
        ]

    def _hook(self, layer: int) -> Any:
        def hook(module: nn.Module, given: tuple[Tensor, Retrieved], out: Tensor) -> None:
            assert isinstance(module, GroupedCrossAttention)
            states, retrieved = given
            # The same model may be answering somebody else, too.
            mine = [n for n, f in enumerate(self._found) if f and f.retrieved is retrieved]
            if mine:
                mass = attention(module, states, retrieved).sum(-1).mean(1)
                self._masses.setdefault(layer, []).append((mine[0], mass.cpu()))

        return hook


class _Recorded(Decoder):
    """A decoder whose tape knows what was fed and found."""

    def __init__(self, runtime: Runtime, source: LibrarySource, tape: Tape) -> None:
        super().__init__(runtime.model, _Listening(source, tape), dtype=runtime.dtype)
        self._tape = tape

    def feed(self, ids: Sequence[int], added: Tensor | None = None) -> Tensor:
        self._tape.fed += ids
        return super().feed(ids, added)


@dataclass(frozen=True)
class _Listening:
    """A source whose tape knows each query."""

    source: LibrarySource
    tape: Tape

    def find(self, query: Tensor, scorer: LandmarkScorer, asking: ChunkMemory) -> Found | None:
        found = self.source.find(query, scorer, asking)
        self.tape.note(query, found)
        return found

    def add(self, memory: ChunkMemory) -> None:
        self.source.add(memory)


def attention(layer: GroupedCrossAttention, states: Tensor, retrieved: Retrieved) -> Tensor:
    """States [1, 1, T, E] -> the weights [T, H, R, S] by which the layer adds up retrieved values.

    These are the attention weights within each chunk times its retrieval probability.
    """
    query = layer.query(layer.norm(states)).unflatten(-1, (layer.heads, layer.size))[0, 0]
    memory, index = retrieved.memory, retrieved.index[0, 0]
    normalise = softmax_off_by_one if layer.off_by_one else plain_softmax
    keys = memory.keys[index].to(query.dtype).float()
    keys = keys.repeat_interleave(layer.heads // keys.shape[2], dim=2)  # [R, S, H, D]
    scores = torch.einsum("thd,rshd->thrs", query.float(), keys) * layer.size**-0.5
    scores = scores.masked_fill(~memory.mask[index][None, None], float("-inf"))
    return normalise(scores) * retrieved.probabilities[0, 0].float()[None, None, :, None]


@dataclass(frozen=True)
class Recording:
    """What a full trace is made from, beside the passages: a tape, and how its tokens read.

    ``asked`` and ``answer`` are the texts of the question's and the answer's tokens; ``pointer``
    [R] are shares of the quote head over the passages that the last group retrieved first.
    """

    tape: Tape
    asked: Sequence[str]
    answer: Sequence[str]
    pointer: Sequence[float]


def token_texts(text: str, ends: Sequence[int]) -> list[str]:
    """Cut a text into its tokens, by where they end; white space goes with what follows it."""
    return [text[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def make_trace(
    question: str,
    source: LibrarySource,
    documents: dict[str, DocumentRow],
    recording: Recording | None = None,
) -> Trace:
    """Build the trace of an answer from what its source found, in the order of retrieval.

    The groups of one border come before those of the next. With a recording, it says all.
    """
    count = source.runtime.config.groups
    titles = {id: row.title for id, row in documents.items()}
    groups = tuple(
        TraceGroup(number % count, number // count, tuple(_entry(p, titles) for p in passages))
        for number, passages in enumerate(source.passages)
    )
    if recording is None:
        return Trace(question, groups)
    return _Full(recording, source, documents).trace(question, groups)


def _entry(passage: Passage, titles: dict[str, str]) -> TraceEntry:
    row = passage.row
    return TraceEntry(
        chunk=row.id,
        document=row.document_id,
        title=titles.get(row.document_id, ""),
        start=row.start,
        text=row.text,
        score=passage.score,
        probability=passage.probability,
        source=passage.by,
        late=passage.late,
        page=row.page,
        section=row.section,
    )


class _Full:
    """Adds to the retrievals what a tape recorded."""

    def __init__(
        self, recording: Recording, source: LibrarySource, documents: dict[str, DocumentRow]
    ) -> None:
        self.recording, self.source = recording, source
        self.runtime: Runtime = self.source.runtime
        self.store: LibraryView = self.source.store
        self.documents = documents
        self.titles = {id: row.title for id, row in documents.items()}
        self.groups = self.runtime.config.groups
        self.lexical = self.source.lexical()

    def trace(self, question: str, groups: Sequence[TraceGroup]) -> Trace:
        scored = [self._scores(query) for query in self.recording.tape.queries]
        tokens = self._tokens()
        full = tuple(
            self._group(group, dict(scores), tokens)
            for group, scores in zip(groups, scored, strict=True)
        )
        return Trace(question, full, tokens, self._maps(full, dict(scored[-1]) if scored else {}))

    def _scores(self, query: Tensor) -> list[tuple[int, float]]:
        """The landmark score of every chunk for a query, by chunk id."""
        scorer, store = self.runtime.model.scorer, self.store
        query = query.to(self.runtime.device)
        out: list[tuple[int, float]] = []
        for ids, landmarks in store.scan_landmarks(self.source.documents):
            keys = landmarks.float().to(query.device)
            scores = scorer.scores(query[None], keys).landmark[0]
            out += zip(ids, scores.tolist(), strict=True)
        return out

    def _tokens(self) -> tuple[TraceToken, ...]:
        """The tokens after the query chunks, with their attention; landmarks are left out."""
        config, tape = self.runtime.config, self.recording.tape
        per_group = config.upper_layers // config.groups
        read = [
            tape.masses(range(group * per_group, (group + 1) * per_group))
            for group in range(config.groups)
        ]
        asked = len(self.recording.asked)
        texts = [*self.recording.asked, "", *self.recording.answer]
        out: list[TraceToken] = []
        for number, text in enumerate(texts[: len(tape.fed) - asked]):
            # A landmark follows each full chunk, and read what the chunk read.
            slot = number + number // config.chunk
            if any(slot >= len(rows) for rows in read):
                break  # nothing was retrieved
            border = read[0][slot][0] // self.groups
            part = "question" if number < asked else "marker" if number == asked else "answer"
            mass = tuple(self._library_part(rows[slot]) for rows in read)
            out.append(TraceToken(text, part, border, mass))
        return tuple(out)

    def _library_part(self, read: tuple[int, Tensor]) -> tuple[float, ...]:
        number, mass = read
        return tuple(mass[: len(self.source.passages[number])].tolist())

    def _group(
        self, group: TraceGroup, scores: dict[int, float], tokens: Sequence[TraceToken]
    ) -> TraceGroup:
        mine = [one.mass[group.group] for one in tokens if one.chunk == group.chunk]
        pointed = group.chunk == 0 and group.group == self.groups - 1
        entries = []
        for number, entry in enumerate(group.entries):
            pointer = self.recording.pointer
            values = asdict(entry) | {
                "landmark": scores[entry.chunk],
                "lexical": entry.score - scores[entry.chunk] - (entry.late or 0.0),
                "mass": sum(row[number] for row in mine) / len(mine) if mine else None,
                "pointer": pointer[number] if pointed and number < len(pointer) else None,
            }
            entries.append(TraceEntry(**values))
        taken = {entry.chunk for entry in group.entries}
        return TraceGroup(
            group.group,
            group.chunk,
            tuple(entries),
            by_landmark=self._candidates(scores, taken),
            by_words=self._candidates(self.lexical, taken),
        )

    def _candidates(self, scores: dict[int, float], taken: set[int]) -> tuple[TraceCandidate, ...]:
        best = sorted(scores, key=lambda chunk: -scores[chunk])[:CANDIDATES]
        return tuple(
            TraceCandidate(
                row.id,
                row.document_id,
                self.titles.get(row.document_id, ""),
                row.start,
                row.text,
                scores[row.id],
                row.id in taken,
            )
            for row in self.store.chunk_rows(best)
        )

    def _maps(
        self, groups: Sequence[TraceGroup], scores: dict[int, float]
    ) -> tuple[TraceDocument, ...]:
        entries = [entry for group in groups for entry in group.entries]
        out = []
        for id in dict.fromkeys(entry.document for entry in entries):
            row = self.documents.get(id)
            if row is not None:
                heat = _binned([scores.get(c, 0.0) for c in self.store.chunk_ids([id])], _BINS)
                out.append(TraceDocument(id, row.title, row.source, row.characters, heat))
        return tuple(out)


def _binned(values: Sequence[float], most: int) -> tuple[float, ...]:
    """The largest value of each of at most ``most`` parts."""
    count = min(most, len(values))
    edges = [i * len(values) // count for i in range(count + 1)] if count else []
    return tuple(max(values[a:b]) for a, b in zip(edges, edges[1:], strict=False))
