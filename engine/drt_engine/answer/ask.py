"""One question: lay out the prompt, retrieve, re-read, then quote or write an answer."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from drt_engine.answer.citations import cite, cite_span
from drt_engine.answer.follow_up import in_context
from drt_engine.answer.quote import Quotes, best_quotes, start_shares
from drt_engine.answer.support import Evidence, marked
from drt_engine.errors import ConfigError, NotFound, QuestionError, StoreError
from drt_engine.generate.decode import Decoder
from drt_engine.generate.sampling import SamplingConfig, write
from drt_engine.model.calibration import NO_EVIDENCE, Calibration, Signals
from drt_engine.model.prompt import query_slots
from drt_engine.model.quote_head import QuoteLogits
from drt_engine.results import Citation, Trace
from drt_engine.retrieval.library import LibrarySource, Passage, RetrieverName
from drt_engine.retrieval.reading import Reading
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow, Store
from drt_engine.store.view import LibraryView
from drt_engine.trace.record import Recording, make_trace, token_texts
from drt_engine.trace.tape import Tape

if TYPE_CHECKING:
    from drt_engine.answer.session import SessionState

MOST_QUESTION_CHUNKS = 20


@dataclass(frozen=True)
class AskOptions:
    """How a question is asked; ``documents`` are ids (``None``: the whole library).

    ``record`` makes the answer's trace a full one, which changes nothing else.
    """

    documents: tuple[str, ...] | None = None
    mode: Literal["quote", "free"] = "quote"
    top_k: int = 8
    retriever: RetrieverName = "hybrid"
    reread: bool = True
    threshold: float | None = None
    max_tokens: int = 96
    record: bool = False

    def __post_init__(self) -> None:
        if self.mode not in ("quote", "free"):
            raise ConfigError(f"mode is {self.mode!r}, expected 'quote' or 'free'")
        if self.retriever not in ("hybrid", "landmark", "lexical"):
            raise ConfigError(
                f"retriever is {self.retriever!r}, expected 'hybrid', 'landmark' or 'lexical'"
            )
        if not 1 <= self.top_k <= 64:
            raise ConfigError(f"top_k is {self.top_k}, expected 1 to 64")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold is {self.threshold}, expected a number from 0 to 1")
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens is {self.max_tokens}, expected 1 or more")


@dataclass(frozen=True)
class AnswerResult:
    """An answer with its evidence.

    When ``found`` is false, ``text`` is empty and ``citations`` holds the closest passage.
    """

    text: str
    found: bool
    confidence: float
    mode: str
    citations: tuple[Citation, ...]
    tokens_read: int
    trace: Trace
    signals: Signals = NO_EVIDENCE


def ask(
    runtime: Runtime,
    store: Store,
    question: str,
    options: AskOptions,
    *,
    session: SessionState | None = None,
) -> AnswerResult:
    """Answer one question from the library.

    The library is the one of this moment to the end, whatever writers do. Raises ``QuestionError``
    for a question without words or too long, or a library without documents, ``NotFound`` for a
    document that is not there, ``StoreError`` for a damaged library.
    """
    *_, result = stream(runtime, store, question, options, session=session)
    assert isinstance(result, AnswerResult)
    return result


def stream(
    runtime: Runtime,
    store: Store,
    question: str,
    options: AskOptions,
    *,
    session: SessionState | None = None,
) -> Iterator[str | AnswerResult]:
    """Yield the answer's text in pieces as it is known, then the result; raises as ``ask`` does."""
    steps = _steps(runtime, store, question, options, session=session)
    while True:
        # Never held while the caller has the turn: these settings are its thread's, too.
        with runtime.computing():
            step = next(steps, None)
        if step is None:
            return
        yield step


def _steps(
    runtime: Runtime,
    store: Store,
    question: str,
    options: AskOptions,
    *,
    session: SessionState | None,
) -> Iterator[str | AnswerResult]:
    tape = Tape() if options.record and session is None else None
    with ExitStack() as held:
        view = held.enter_context(store.snapshot())
        if tape is not None:
            held.enter_context(tape.watching(runtime))
        asked = _Asked(runtime, view, question, options, session or tape)
        quotes = asked.quotes()
        if options.mode == "quote":
            result = asked.quote_result(quotes)
            if result.text:
                yield result.text
        else:
            result = yield from asked.write(quotes)
        if tape is not None:
            result = replace(result, trace=asked.recorded(tape, result))
        if session is not None:  # which reads the answer, and may retrieve for it
            session.record(question, result, asked.decoder, asked.source.own)
    yield result


class _Asked:
    """A question after its prompt has gone through the model."""

    def __init__(
        self,
        runtime: Runtime,
        store: LibraryView,
        question: str,
        options: AskOptions,
        past: SessionState | Tape | None,
    ) -> None:
        session = None if isinstance(past, Tape) else past
        self.runtime, self.store, self.question, self.options = runtime, store, question, options
        wanted = options.documents
        self.documents = {row.id: row for row in store.documents_by_id(wanted or ())}
        missing = [one for one in wanted or () if one not in self.documents]
        if missing:
            raise NotFound(f"no document has the id {missing[0]!r}; it was removed or replaced")
        if wanted == () or not store.has_documents():
            raise QuestionError(
                "there is no document to ask; read one first with `drt ingest PATH`"
            )
        question_ids(runtime, question)  # the user's own words must be a question
        quoting = session is not None and options.mode == "quote"
        asked = in_context(question, session.turns) if session and quoting else question
        ids = self.ids = question_ids(runtime, asked)
        self.pointer: list[float] = []
        self.signals = NO_EVIDENCE
        self.source = LibrarySource(
            runtime,
            store,
            asked,
            ids,
            documents=wanted,
            count=options.top_k,
            retriever=options.retriever,
            reread=options.reread and runtime.config.reads_passages,
            # A copy: a question that fails must leave the conversation as it was.
            own=list(session.own) if session is not None else [],
            use_own=session is not None and options.mode == "free",
        )
        if session is not None:
            self.decoder = session.decoder(self.source)
        elif isinstance(past, Tape):
            self.decoder = past.decoder(runtime, self.source)
        else:
            self.decoder = Decoder(runtime.model, self.source, dtype=runtime.dtype)
        self.answer_state = feed_question(self.decoder, ids)
        self.prompt_tokens = 2 * len(ids) + 2

    @property
    def passages(self) -> list[Passage]:
        """What the last group retrieved last."""
        return self.source.passages[-1] if self.source.passages else []

    def document(self, id: str) -> DocumentRow:
        """A document that something was retrieved from."""
        row = self.documents.get(id) or self.store.document_by_id(id)
        if row is None:
            raise StoreError(f"document {id} has chunks but no row: run `drt library check`")
        self.documents[id] = row
        return row

    def quotes(self) -> Quotes:
        """Return the best spans over what the last group retrieved."""
        head, found, passages = self.runtime.model.quote_head, self.decoder.found[-1], self.passages
        if head is None or found is None or not passages:
            return Quotes((), float("-inf"))
        count = len(passages)
        retrieved = found.retrieved
        scores = retrieved.scores[0, :, :count]
        weight, judged = torch.log_softmax(scores.float(), dim=-1), scores.float()
        index = retrieved.index[0, :, :count]
        if found.reading is not None:
            return self._read_quotes(found.reading, weight[0], scores)
        each = 0.0
        logits: QuoteLogits = head(self.answer_state[None], retrieved.memory, index, weight)
        if found.reread is not None:
            logits = head.add_reread(logits, found.reread, weight.exp())
            judged = judged + head.reranker_scores(found.reread)[:, :count]
            each = float(head.chunk_null_logits(found.reread)[:, :count].detach().mean())
        self.pointer = start_shares(logits)
        quotes = best_quotes(logits, passages)
        relevance = float(judged.detach().amax())
        best = float(scores.detach().amax())
        self.signals = Signals(quotes.score, best, relevance, -quotes.null, -each)
        return quotes

    def _read_quotes(self, reading: Reading, weight: Tensor, scores: Tensor) -> Quotes:
        """Return the best spans that the reader finds; ``weight`` [R] log retrieval probabilities,
        ``scores`` [1, R].
        """
        reader = self.runtime.config.reader
        assert reader is not None
        logits = reading.quote_logits(weight.cpu(), reader.prior)
        self.pointer = start_shares(logits)
        quotes = best_quotes(logits, self.passages)
        evidence = reading.evidence()
        self.signals = Signals(
            quotes.score,
            float(scores.amax()),
            float(evidence.amax()),
            -quotes.null,
            float(evidence.mean()),
        )
        return quotes

    def quote_result(self, quotes: Quotes) -> AnswerResult:
        """Return the answer in quote mode."""
        found, confidence = self._found(quotes)
        cited = self._cited(quotes)
        if found and cited:
            return self._result(cited[0].quote, True, confidence, cited)
        return self._result("", False, confidence, cited[:1] or self._closest())

    def write(self, quotes: Quotes) -> Generator[str, None, AnswerResult]:
        """Write an answer, every sentence backed by a citation or marked; return it in the end.

        Nothing is written where the documents do not say it. A model without a quote head cannot
        know that before: then an answer without any backed sentence is not found.
        """
        found, confidence = self._found(quotes)
        judges = self.runtime.model.quote_head is not None
        if judges and not found:
            return self.quote_result(quotes)
        evidence = Evidence(self.store, self.document)
        pieces: list[str] = []
        for piece in marked(self._written(), partial(self._supports, evidence)):
            pieces.append(piece)
            if judges:
                yield piece
        text = "".join(pieces)
        if not judges:
            if not evidence.citations:
                return self._result("", False, 0.0, self._closest())
            yield text
            confidence = max(c.probability for c in evidence.citations)
        cited = evidence.citations or self._cited(quotes)
        if judges and cited and not text:  # the decoder had nothing to say, the quote head has
            text = cited[0].quote
            self.decoder.feed(self.runtime.tokenizer.encode(text).ids)
            yield text
        return self._result(text, bool(text), confidence, cited)

    def _written(self) -> Iterator[str]:
        config = SamplingConfig(max_tokens=self.options.max_tokens)
        sources = [p.row.text for p in self.passages]
        return write(self.runtime, self.decoder, self.answer_state, config, sources=sources)

    def _supports(self, evidence: Evidence, sentence: str) -> bool:
        evidence.add(self.passages)  # those of the chunk that is being written
        return evidence.supports(sentence)

    def _cited(self, quotes: Quotes) -> tuple[Citation, ...]:
        chosen: list[Citation] = []
        for span in quotes.spans:
            cited = cite_span(self.store, self.document(span.document), span)
            # Grown to whole words, spans may share one; punctuation alone says nothing.
            apart = all(
                cited.document != c.document or cited.end <= c.start or c.end <= cited.start
                for c in chosen
            )
            if apart and re.search(r"\w", cited.quote):
                chosen.append(cited)
        return tuple(chosen)

    def _closest(self) -> tuple[Citation, ...]:
        """The best passage as a whole, where no span of it can be named."""
        best = max(self.passages, key=lambda p: p.probability, default=None)
        if best is None:
            return ()
        row, document = best.row, self.document(best.row.document_id)
        return (cite(self.store, document, row.start, row.start + len(row.text), best.probability),)

    def _found(self, quotes: Quotes) -> tuple[bool, float]:
        key = "reread" if self.source.reread else "stored"
        calibration = self.runtime.calibration.get(key, Calibration())
        if not quotes.spans:
            return False, 0.0
        confidence = calibration.confidence(self.signals)
        limit = calibration.threshold if self.options.threshold is None else self.options.threshold
        return confidence >= limit, confidence

    def _result(
        self, text: str, found: bool, confidence: float, citations: Sequence[Citation]
    ) -> AnswerResult:
        return AnswerResult(
            text=text,
            found=found,
            confidence=confidence,
            mode=self.options.mode,
            citations=tuple(citations),
            tokens_read=self.prompt_tokens + self.source.tokens_read,
            signals=self.signals,
            trace=make_trace(self.question, self.source, self._retrieved_from()),
        )

    def _retrieved_from(self) -> dict[str, DocumentRow]:
        ids = {p.row.document_id for passages in self.source.passages for p in passages}
        return {id: self.document(id) for id in ids}

    def recorded(self, tape: Tape, result: AnswerResult) -> Trace:
        """Return the full trace; a quote is read by the decoder first, as in a conversation."""
        tokenizer = self.runtime.tokenizer
        if result.mode == "quote":
            encoding = tokenizer.encode(result.text)
            answer = token_texts(result.text, encoding.ends)
            if encoding.ids:
                self.decoder.feed(encoding.ids)
        else:
            ids = tape.fed[2 * len(self.ids) + 1 :]
            text = [tokenizer.decode(ids[: i + 1]) for i in range(len(ids))]
            answer = token_texts(text[-1] if text else "", [len(one) for one in text])
        asked = token_texts(self.question, tokenizer.encode(self.question).ends)
        recording = Recording(tape, asked, answer, self.pointer)
        everything = {row.id: row for row in self.store.documents()}  # any may come close
        return make_trace(self.question, self.source, everything, recording)


def feed_question(decoder: Decoder, ids: Sequence[int]) -> Tensor:
    """Feed query chunks, the restated question and ``<answer>``; return the latter's state, [E]."""
    model, config = decoder.model, decoder.model.config
    at, known = 0, []
    lengths = query_slots(len(ids), config.chunk)
    for number, length in enumerate(lengths):
        decoder.feed(ids[at : at + length])
        known.append(decoder.close(retrieve=number + 1 == len(lengths)).states[0])
        at += length
    added = None
    if model.question_map is not None:
        states = model.question_map(torch.cat(known))
        added = torch.cat([states, states.new_zeros(1, states.shape[-1])])
    return decoder.feed([*ids, config.answer_id], added)[-1]


def question_ids(runtime: Runtime, question: str, *, what: str = "question") -> list[int]:
    """Return the question's tokens; ``QuestionError`` when it has no words or is too long."""
    ids = runtime.tokenizer.encode(question).ids
    if not ids or not re.search(r"\w", question):
        raise QuestionError(f"the {what} has no words, expected plain language")
    most = MOST_QUESTION_CHUNKS * runtime.config.chunk
    if len(ids) > most:
        raise QuestionError(
            f"the {what} has {len(ids)} tokens, expected at most {most}; make it shorter, "
            "or read the long text as a document with `drt ingest`"
        )
    return ids
