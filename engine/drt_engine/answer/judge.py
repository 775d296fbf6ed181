"""What the model makes of retrieved passages: the best spans, and whether the answer is there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from drt_engine.answer.decoder_quotes import decoder_quotes, memory_evidence
from drt_engine.answer.quote import NO_QUOTES, Quotes, best_quotes, start_shares
from drt_engine.config.model import ANSWER_TYPES, ReaderConfig
from drt_engine.generate.passage_memory import PassageReader, has_decoder, passage_reader
from drt_engine.generate.prompt_run import PromptRun
from drt_engine.model.calibration import NO_EVIDENCE, Calibration, QuoteCalibration, Signals
from drt_engine.model.quote_head import QuoteHead, QuoteLogits
from drt_engine.retrieval.passages import Passage
from drt_engine.retrieval.reader_pass import PassageLogits
from drt_engine.retrieval.sources import Retrieval
from drt_engine.runtime import Runtime

_JUDGED = 4  # passages whose memory the decoder judges, beside the reader


@dataclass(frozen=True)
class Judgement:
    """The best spans over the passages of the last group's last retrieval that were read.

    ``found`` says whether the ``confidence`` reaches the threshold. By passage, [R]:
    ``start_shares`` is how much of the start's probability each has, ``evidence`` its own log-odds
    of holding an answer, ``memory`` those by the decoder (empty without one). ``types`` are
    probabilities of the ``ANSWER_TYPES``, ``verdict`` is the log-odds of yes against no; a model
    without a reader has neither, nor ``evidence``.
    ``calibration`` is the one of this way of reading; where ``own_threshold`` says that a threshold
    was asked for, that alone decides what is found.
    """

    quotes: Quotes = NO_QUOTES
    signals: Signals = NO_EVIDENCE
    start_shares: tuple[float, ...] = ()
    confidence: float = 0.0
    found: bool = False
    passages: tuple[Passage, ...] = ()
    evidence: tuple[float, ...] = ()
    memory: tuple[float, ...] = ()
    types: Mapping[str, float] = field(default_factory=dict)
    verdict: float = 0.0
    calibration: Calibration = Calibration()
    own_threshold: bool = False


def judge(runtime: Runtime, run: PromptRun, *, threshold: float | None) -> Judgement:
    """Read spans off a prompt's passages; ``threshold`` ``None`` is the calibrated one."""
    head, retrieval = runtime.model.quote_head, run.retrieval
    if head is None or retrieval is None or not retrieval.passages:
        return Judgement()
    # Loading a decoder takes a second and half a gigabyte: only where it has something to say.
    if retrieval.passage_logits is not None:
        reader = runtime.config.reader
        assert reader is not None
        reading = _read_by_reader(reader, retrieval, retrieval.passage_logits)
    elif (decoder := passage_reader(runtime)) is not None:
        reading = _read_by_decoder(decoder, retrieval, run.source.query.question)
    else:
        reading = _read_by_head(head, retrieval, run.answer_state)
    reading = replace(reading, passages=retrieval.passages[: _read_count(retrieval)])
    if not reading.quotes.spans:
        return reading
    name = calibration_name(runtime, reads_passages=run.source.query.reads_passages)
    calibration = runtime.calibration.get(name, Calibration())
    if (
        retrieval.passage_logits is not None
        and _weighs_memory(calibration.quote)
        and (decoder := passage_reader(runtime)) is not None
    ):
        reading = replace(reading, memory=_memory(decoder, run.source.query.question, reading))
    confidence = calibration.confidence(reading.signals)
    limit = calibration.threshold if threshold is None else threshold
    return replace(
        reading,
        confidence=confidence,
        found=confidence >= limit,
        calibration=calibration,
        own_threshold=threshold is not None,
    )


def _weighs_memory(calibration: QuoteCalibration | None) -> bool:
    """Return whether a quote's probability may depend on the decoder; one not yet fitted may."""
    return calibration is None or calibration.weights.get("memory") != 0.0


def _memory(decoder: PassageReader, question: str, reading: Judgement) -> tuple[float, ...]:
    """Return the decoder's log-odds of each passage [R]; those of the best quotes are judged.

    The others have the least of them.
    """
    quotes = (*reading.quotes.spans, *reading.quotes.by_passage)
    judged = list({q.passage.row.id: q.passage for q in quotes}.values())[:_JUDGED]
    evidence = memory_evidence(decoder, question, judged)
    by_id = {p.row.id: value for p, value in zip(judged, evidence, strict=True)}
    return tuple(by_id.get(p.row.id, min(evidence)) for p in reading.passages)


def _read_count(retrieval: Retrieval) -> int:
    """Return how many passages were read: the reader pass may have stopped before the last."""
    logits = retrieval.passage_logits
    return len(retrieval.passages) if logits is None else len(logits.null)


def calibration_name(runtime: Runtime, *, reads_passages: bool) -> str:
    """Return the name of the calibration for what points at quotes; each is fitted apart."""
    if reads_passages:
        return "reread"
    return "decoder" if has_decoder(runtime) else "stored"


def _read_by_head(head: QuoteHead, retrieval: Retrieval, answer_state: Tensor) -> Judgement:
    """Return spans, signals and start shares by the quote head; ``answer_state`` [E]."""
    count = len(retrieval.passages)
    retrieved = retrieval.retrieved
    scores = retrieved.scores[0, :, :count]  # [1, R]
    index = retrieved.index[0, :, :count]
    log_probability = torch.log_softmax(scores.float(), dim=-1)
    logits: QuoteLogits = head(answer_state[None], retrieved.memory, index, log_probability)
    reranked, mean_null = scores.float(), 0.0
    if retrieval.reread is not None:
        logits = head.add_reread(logits, retrieval.reread, log_probability.exp())
        reranked = reranked + head.reranker_scores(retrieval.reread)[:, :count]
        mean_null = float(head.chunk_null_logits(retrieval.reread)[:, :count].detach().mean())
    quotes = best_quotes(logits, retrieval.passages)
    signals = Signals(
        span=quotes.score,
        retrieval=float(scores.detach().amax()),
        relevance=float(reranked.detach().amax()),
        null=-quotes.null,
        each=-mean_null,
    )
    return Judgement(quotes, signals, start_shares(logits))


def _read_by_decoder(decoder: PassageReader, retrieval: Retrieval, question: str) -> Judgement:
    """Return the decoder's quotes from chunk memory, and their signals."""
    quotes = decoder_quotes(decoder, question, retrieval.passages)
    scores = retrieval.retrieved.scores[0, :, : len(retrieval.passages)]  # [1, R]
    signals = Signals(
        span=quotes.score,
        retrieval=float(scores.amax()),
        relevance=math.log(max(quotes.spans[0].probability, 1e-9)) if quotes.spans else 0.0,
        null=-quotes.null,
    )
    return Judgement(quotes, signals, tuple(p.probability for p in retrieval.passages))


def _read_by_reader(
    reader: ReaderConfig, retrieval: Retrieval, passage_logits: PassageLogits
) -> Judgement:
    """Return spans, signals, start shares, answer types and verdict by the reader's logits."""
    scores = retrieval.retrieved.scores[0, :, : len(retrieval.passages)]  # [1, R]
    log_probability = torch.log_softmax(scores.float(), dim=-1)[0, : _read_count(retrieval)]
    logits = passage_logits.quote_logits(log_probability.cpu(), reader.prior)
    quotes = best_quotes(logits, retrieval.passages[: _read_count(retrieval)])
    evidence = passage_logits.evidence()  # [R]
    signals = Signals(
        span=quotes.score,
        retrieval=float(scores.amax()),
        relevance=float(evidence.amax()),
        null=-quotes.null,
        each=float(evidence.sum()) / len(retrieval.passages),  # 0 for those that were not read
    )
    # The reader is taught types on the passage that answers; the first one is the best guess.
    types = torch.softmax(passage_logits.types[0], dim=-1).tolist()
    best = int(evidence.argmax())
    return Judgement(
        quotes,
        signals,
        start_shares(logits),
        evidence=tuple(evidence.tolist()),
        types=dict(zip(ANSWER_TYPES, types, strict=True)),
        verdict=float(passage_logits.verdict[best, 1] - passage_logits.verdict[best, 0]),
    )
