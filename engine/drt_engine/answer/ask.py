"""One question: lay out the prompt, retrieve, re-read, then quote or write; everything the SDK's ``ask`` needs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from drt_engine.answer.citations import CitationResult, cite_span
from drt_engine.answer.quote import Quotes, best_quotes
from drt_engine.answer.support import SupportedText, support
from drt_engine.answer.trace import Trace, make_trace
from drt_engine.errors import ConfigError, QuestionError
from drt_engine.generate.decode import Decoder
from drt_engine.generate.sampling import SamplingConfig, write
from drt_engine.model.prompt import query_slots
from drt_engine.model.quote_head import QuoteLogits
from drt_engine.retrieval.library import LibrarySource, RetrieverName
from drt_engine.runtime import Calibration, Runtime
from drt_engine.store import DocumentRow, Store

if TYPE_CHECKING:
    from drt_engine.session import SessionState

MOST_QUESTION_CHUNKS = 20


@dataclass(frozen=True)
class AskOptions:
    """How a question is asked; ``documents`` are ids (``None``: the whole library)."""

    documents: tuple[str, ...] | None = None
    mode: Literal["quote", "free"] = "quote"
    top_k: int = 8
    retriever: RetrieverName = "hybrid"
    reread: bool = True
    threshold: float | None = None
    max_tokens: int = 96

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
            raise ConfigError(f"threshold is {self.threshold}, expected a share from 0 to 1")
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens is {self.max_tokens}, expected 1 or more")


@dataclass(frozen=True)
class AnswerResult:
    """An answer with its evidence; when ``found`` is false, ``citations`` holds the closest passage."""

    text: str
    found: bool
    confidence: float
    mode: str
    citations: tuple[CitationResult, ...]
    tokens_read: int
    trace: Trace


def ask(
    runtime: Runtime,
    store: Store,
    question: str,
    options: AskOptions,
    *,
    session: SessionState | None = None,
) -> AnswerResult:
    """Answer one question from the library.

    Raises ``QuestionError`` for a question without words or too long, or a library without documents.
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
    """Yield the answer's text in pieces as it is known, then the result."""
    with runtime.computing():
        prepared = _Asked(runtime, store, question, options, session)
        quotes = prepared.quotes()
        if options.mode == "quote":
            result = prepared.quote_result(quotes)
            if result.text:
                yield result.text
        else:
            pieces: list[str] = []
            for piece in prepared.write():
                pieces.append(piece)
                yield piece
            result = prepared.free_result("".join(pieces), quotes)
        if session is not None:
            session.record(question, result, prepared.decoder, prepared.source.own)
    yield result


class _Asked:
    """A question after its prompt has gone through the model."""

    def __init__(
        self,
        runtime: Runtime,
        store: Store,
        question: str,
        options: AskOptions,
        session: SessionState | None,
    ) -> None:
        self.runtime, self.store, self.question, self.options = runtime, store, question, options
        rows = store.documents()
        self.documents: dict[str, DocumentRow] = {
            row.id: row
            for row in rows
            if options.documents is None or row.id in options.documents
        }
        if not self.documents:
            raise QuestionError(
                "there is no document to ask; read one first with `drt ingest PATH`"
            )
        ids = question_ids(runtime, question)
        wanted = None if options.documents is None else tuple(self.documents)
        self.source = LibrarySource(
            runtime,
            store,
            question,
            ids,
            documents=wanted,
            count=options.top_k,
            retriever=options.retriever,
            reread=options.reread and runtime.config.reread,
            own=session.own if session is not None else [],
            use_own=session is not None and options.mode == "free",
        )
        if session is not None:
            self.decoder = session.decoder(self.source)
        else:
            self.decoder = Decoder(runtime.model, self.source, dtype=runtime.dtype)
        self.answer_state = self._prompt(ids)
        self.prompt_tokens = 2 * len(ids) + 2

    def _prompt(self, ids: list[int]) -> Tensor:
        """Feed query chunks, the restated question and ``<answer>``; return the state of the latter, [E]."""
        model, config = self.runtime.model, self.runtime.config
        at, known = 0, []
        lengths = query_slots(len(ids), config.chunk)
        for number, length in enumerate(lengths):
            self.decoder.feed(ids[at : at + length])
            encoded = self.decoder.close(retrieve=number + 1 == len(lengths))
            known.append(encoded.states[0])
            at += length
        added = None
        if model.question_map is not None:
            states = model.question_map(torch.cat(known))
            added = torch.cat([states, states.new_zeros(1, states.shape[-1])])
        return self.decoder.feed([*ids, config.answer_id], added)[-1]

    def quotes(self) -> Quotes:
        """Return the best spans over what the last group retrieved."""
        head, found = self.runtime.model.quote_head, self.decoder.found[-1]
        if head is None or found is None or not self.source.passages:
            return Quotes((), float("-inf"))
        passages = self.source.passages[-1]
        count = len(passages)
        retrieved = found.retrieved
        scores = retrieved.scores[0, :, :count]
        weight = torch.log_softmax(scores.float(), dim=-1)
        index = retrieved.index[0, :, :count]
        logits: QuoteLogits = head(self.answer_state[None], retrieved.memory, index, weight)
        if found.reread is not None:
            logits = head.add_reread(logits, found.reread, weight.exp())
        return best_quotes(logits, passages)

    def quote_result(self, quotes: Quotes) -> AnswerResult:
        """Return the answer in quote mode."""
        found, confidence = self._found(quotes)
        spans = quotes.spans if found else quotes.spans[:1]
        citations = tuple(cite_span(self.store, self.documents[s.document], s) for s in spans)
        text = citations[0].quote if found and citations else ""
        return self._result(text, found, confidence, citations)

    def write(self) -> Iterator[str]:
        """Write an answer token by token."""
        config = SamplingConfig(max_tokens=self.options.max_tokens)
        passages = self.source.passages[-1] if self.source.passages else []
        yield from write(
            self.runtime,
            self.decoder,
            self.answer_state,
            config,
            sources=[p.row.text for p in passages],
        )

    def free_result(self, text: str, quotes: Quotes) -> AnswerResult:
        """Return the answer in free mode: each sentence is backed by a quote or marked as unsupported."""
        found, confidence = self._found(quotes)
        passages = self.source.passages[-1] if self.source.passages else []
        judged: SupportedText = support(text, self.store, self.documents, passages)
        citations = judged.citations
        if not citations:
            citations = tuple(
                cite_span(self.store, self.documents[s.document], s) for s in quotes.spans[:1]
            )
        found = found and bool(judged.citations)
        return self._result(judged.text, found, confidence, citations)

    def _found(self, quotes: Quotes) -> tuple[bool, float]:
        key = "reread" if self.source.reread else "stored"
        calibration = self.runtime.calibration.get(key, Calibration())
        if not quotes.spans:
            return False, 0.0
        z = calibration.scale * quotes.score + calibration.shift
        confidence = 1 / (1 + math.exp(-max(-60.0, min(60.0, z))))
        limit = calibration.threshold if self.options.threshold is None else self.options.threshold
        return confidence >= limit, confidence

    def _result(
        self, text: str, found: bool, confidence: float, citations: tuple[CitationResult, ...]
    ) -> AnswerResult:
        titles = {row.id: row.title for row in self.documents.values()}
        groups = self.runtime.config.groups
        return AnswerResult(
            text=text,
            found=found,
            confidence=confidence,
            mode=self.options.mode,
            citations=citations,
            tokens_read=self.prompt_tokens + self.source.tokens_read,
            trace=make_trace(self.question, self.source.passages, titles, groups),
        )


def question_ids(runtime: Runtime, question: str) -> list[int]:
    """Return the question's tokens; raises ``QuestionError`` when it has no words or is too long."""
    if not re.search(r"\w", question):
        raise QuestionError("the question has no words, expected a question in plain language")
    ids = runtime.tokenizer.encode(question).ids
    most = MOST_QUESTION_CHUNKS * runtime.config.chunk
    if len(ids) > most:
        raise QuestionError(
            f"the question has {len(ids)} tokens, expected at most {most}; "
            "read a long text with `drt ingest -` and ask a shorter question about it"
        )
    return ids
