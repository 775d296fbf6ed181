"""The record of an answer: what was retrieved for it, and what each of its tokens attended to.

Without a recording a trace holds the retrievals alone; with one, all that its ``Tape`` has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from drt_engine.generate.memory_writer import WrittenPiece
from drt_engine.generate.prompt_run import PromptRun
from drt_engine.results import (
    Trace,
    TraceCandidate,
    TraceDocument,
    TraceEntry,
    TraceGroup,
    TraceToken,
)
from drt_engine.retrieval.candidates import bm25_matches
from drt_engine.retrieval.library import LibrarySource
from drt_engine.retrieval.passages import Passage
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow
from drt_engine.trace.tape import Tape

CANDIDATES = 12  # of each kind, for each landmark
_BINS = 240  # parts of a document's map: about as many as a screen shows


@dataclass(frozen=True)
class Recording:
    """What a full trace is made from, beside the passages: a tape, and the texts of its tokens.

    ``question`` and ``answer`` are the texts of the question's and the answer's tokens; ``pointer``
    [R] are start probabilities of the quote head, by passage of the last group's first retrieval.
    ``written`` are the answer's tokens in place of ``answer`` where a decoder reads chunk memory
    for them.
    """

    tape: Tape
    question: Sequence[str]
    answer: Sequence[str]
    pointer: Sequence[float]
    written: Sequence[WrittenPiece] = ()


def token_texts(text: str, ends: Sequence[int]) -> list[str]:
    """Cut a text into its tokens, by where they end; white space goes with what follows it."""
    return [text[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def turn_texts(
    runtime: Runtime, run: PromptRun, tape: Tape, question: str, *, quote: str | None
) -> tuple[list[str], list[str]]:
    """Return the texts of the question's and of the answer's tokens, for a full trace.

    A ``quote`` is first read by the decoder, as in a conversation; without one, the answer is what
    the decoder has written.
    """
    tokenizer = runtime.tokenizer
    question_texts = token_texts(question, tokenizer.encode(question).ends)
    if quote is not None:
        encoding = tokenizer.encode(quote)
        if encoding.ids:
            run.decoder.feed(encoding.ids)
        return question_texts, token_texts(quote, encoding.ends)
    ids = tape.fed[2 * len(run.question_ids) + 1 :]
    prefixes = [tokenizer.decode(ids[: i + 1]) for i in range(len(ids))]
    text = prefixes[-1] if prefixes else ""
    return question_texts, token_texts(text, [len(prefix) for prefix in prefixes])


def make_trace(
    question: str,
    source: LibrarySource,
    documents: dict[str, DocumentRow],
    recording: Recording | None = None,
) -> Trace:
    """Return the trace of an answer from what its source retrieved, in the order of retrieval.

    All groups of one query chunk come before those of the next. ``documents`` are those that
    passages are from, by id.
    """
    count = source.query.runtime.config.groups
    titles = {document_id: row.title for document_id, row in documents.items()}
    groups = tuple(
        TraceGroup(number % count, number // count, tuple(_entry(p, titles) for p in passages))
        for number, passages in enumerate(source.passages)
    )
    if recording is None:
        return Trace(question, groups)
    return _FullTrace(recording, source, documents).make(question, groups)


def _entry(passage: Passage, titles: Mapping[str, str]) -> TraceEntry:
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


class _FullTrace:
    """Makes a full trace: retrievals together with what a tape recorded of them."""

    def __init__(
        self, recording: Recording, source: LibrarySource, documents: dict[str, DocumentRow]
    ) -> None:
        self.recording, self.source, self.documents = recording, source, documents
        self.runtime, self.store = source.query.runtime, source.query.store
        self.config = self.runtime.config
        self.scope = source.query.scope

    def make(self, question: str, groups: Sequence[TraceGroup]) -> Trace:
        scores = [self._landmark_scores(query) for query in self.recording.tape.queries]
        tokens = self._tokens()
        bm25 = bm25_matches(self.store, question, self.scope)
        full = tuple(
            self._full_group(
                group, passages, landmark_scores=group_scores, bm25=bm25, tokens=tokens
            )
            for group, passages, group_scores in zip(
                groups, self.source.passages, scores, strict=True
            )
        )
        return Trace(question, full, tokens, self._documents(full, scores[-1] if scores else {}))

    def _landmark_scores(self, query: Tensor) -> dict[int, float]:
        """Return the landmark score of every chunk for a query [E], by chunk id."""
        query = query.to(self.runtime.device)
        scores: dict[int, float] = {}
        for chunk_ids, landmarks in self.store.scan_landmarks(self.scope.document_ids):
            keys = landmarks.float().to(query.device)
            row = self.runtime.model.scorer.scores(query[None], keys).landmark[0]
            scores |= zip(chunk_ids, row.tolist(), strict=True)
        return scores

    def _tokens(self) -> tuple[TraceToken, ...]:
        """Return the tokens after the query chunks with their attention, landmark tokens left out.

        The decoder is fed the question's chunks, which retrieve; then, reading what they
        retrieved, the question once more, the marker where the answer begins, and the answer.
        """
        config, tape, question = self.config, self.recording.tape, self.recording.question
        layers = config.upper_layers // config.groups
        masses = [
            tape.masses(range(group * layers, (group + 1) * layers))
            for group in range(config.groups)
        ]
        texts = [*question, "", *self.recording.answer]
        tokens: list[TraceToken] = []
        for number, text in enumerate(texts[: len(tape.fed) - len(question)]):
            # A landmark token follows each full chunk, and read what the chunk read.
            slot = number + number // config.chunk
            if any(slot >= len(rows) for rows in masses):
                break  # nothing was retrieved
            chunk = masses[0][slot][0] // config.groups
            part = "answer" if number > len(question) else "marker"
            part = "question" if number < len(question) else part
            mass = tuple(self._library_mass(*rows[slot]) for rows in masses)
            tokens.append(TraceToken(text, part, chunk, mass))
        if not self.source.passages:
            return tuple(tokens)
        # The decoder reads what the last group retrieved last.
        last = len(self.source.passages) // config.groups - 1
        others = self.source.passages[-config.groups : -1]
        nothing = tuple((0.0,) * len(passages) for passages in others)
        tokens += [
            TraceToken(piece.text, "answer", last, (*nothing, piece.masses))
            for piece in self.recording.written
        ]
        return tuple(tokens)

    def _library_mass(self, retrieval: int, mass: Tensor) -> tuple[float, ...]:
        """Return the attention [R] to library chunks; those of the stream come after them."""
        return tuple(mass[: len(self.source.passages[retrieval])].tolist())

    def _full_group(
        self,
        group: TraceGroup,
        passages: Sequence[Passage],
        *,
        landmark_scores: dict[int, float],
        bm25: dict[int, float],
        tokens: Sequence[TraceToken],
    ) -> TraceGroup:
        """Return a group with the parts of its scores, its attention and its candidates."""
        masses = [token.mass[group.group] for token in tokens if token.chunk == group.chunk]
        # The quote head reads the first retrieval of the last group, and no other.
        is_quoted = group.chunk == 0 and group.group == self.config.groups - 1
        pointer = self.recording.pointer if is_quoted else ()
        entries = []
        for number, (entry, passage) in enumerate(zip(group.entries, passages, strict=True)):
            entries.append(
                replace(
                    entry,
                    landmark=passage.landmark,
                    lexical=passage.lexical,
                    mass=sum(mass[number] for mass in masses) / len(masses) if masses else None,
                    pointer=pointer[number] if number < len(pointer) else None,
                )
            )
        retrieved = {entry.chunk for entry in entries}
        # Among the candidates, too, a chunk has the score that it was chosen by.
        chosen_scores = {passage.row.id: passage.landmark for passage in passages}
        return replace(
            group,
            entries=tuple(entries),
            by_landmark=self._candidates(landmark_scores | chosen_scores, retrieved),
            by_words=self._candidates(bm25, retrieved),
        )

    def _candidates(
        self, scores: dict[int, float], retrieved: set[int]
    ) -> tuple[TraceCandidate, ...]:
        """Return the chunks with the best scores, best first."""
        best = sorted(scores, key=lambda chunk_id: -scores[chunk_id])[:CANDIDATES]
        return tuple(
            TraceCandidate(
                chunk=row.id,
                document=row.document_id,
                title=self._title(row.document_id),
                start=row.start,
                text=row.text,
                score=scores[row.id],
                retrieved=row.id in retrieved,
            )
            for row in self.store.chunk_rows(best)
        )

    def _title(self, document_id: str) -> str:
        row = self.documents.get(document_id)
        return "" if row is None else row.title

    def _documents(
        self, groups: Sequence[TraceGroup], landmark_scores: dict[int, float]
    ) -> tuple[TraceDocument, ...]:
        """Return the documents of all entries, with the scores of the last query along them."""
        document_ids = dict.fromkeys(entry.document for group in groups for entry in group.entries)
        documents = []
        for document_id in document_ids:
            row = self.documents.get(document_id)
            if row is not None:
                chunk_ids = self.store.chunk_ids([document_id])
                heat = _binned([landmark_scores.get(c, 0.0) for c in chunk_ids], _BINS)
                documents.append(
                    TraceDocument(document_id, row.title, row.source, row.characters, heat)
                )
        return tuple(documents)


def _binned(values: Sequence[float], bins: int) -> tuple[float, ...]:
    """Return the largest value of each of at most ``bins`` parts."""
    count = min(bins, len(values))
    edges = [i * len(values) // count for i in range(count + 1)] if count else []
    return tuple(max(values[a:b]) for a, b in zip(edges, edges[1:], strict=False))
