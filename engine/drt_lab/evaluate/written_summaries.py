"""``drt eval summary-lm``: perplexity of the summaries that came with documents, and ROUGE.

For language models of any architecture that were trained on summaries: the document is read as a
stream and the summary written after it, token by token, each the most likely.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from drt_engine.errors import ConfigError
from drt_lab.data.schema import SummaryItem, read_summaries
from drt_lab.data.summary_streams import (
    document_tokens,
    summary_losses,
    summary_streams,
    summary_tokens,
)
from drt_lab.evaluate.library import grouped, progress, select_cases
from drt_lab.evaluate.metrics.rouge import RougeScore, mean_rouge, rouge
from drt_lab.evaluate.report import EvalReport, Metrics
from drt_lab.lm.build import begin_stream
from drt_lab.lm.losses import stream_loss
from drt_lab.lm.runtime import LanguageRuntime


@dataclass(frozen=True)
class WrittenSummaries:
    """Documents of ``data``, at most ``limit`` of each source, of which ``chunks`` are read.

    ``longest``: tokens of a summary; ``write``: also write summaries, for ROUGE.
    """

    data: Path
    limit: int | None = None
    source: str | None = None
    chunks: int = 64
    longest: int = 256
    write: bool = False

    def __post_init__(self) -> None:
        limit = 1 if self.limit is None else self.limit
        if min(limit, self.chunks) < 1 or self.longest < 2:
            raise ConfigError(
                f"limit is {self.limit}, chunks {self.chunks} and longest {self.longest}, expected "
                "at least 1, 1 and 2"
            )


@dataclass(frozen=True)
class _Measured:
    source: str
    loss: float  # nats of all tokens of the summary
    tokens: int
    rouge: RougeScore | None


def evaluate_written_summaries(runtime: LanguageRuntime, options: WrittenSummaries) -> EvalReport:
    """Read every document; raises ``ConfigError`` for a file without any."""
    started = time.monotonic()
    items = select_cases(
        read_summaries(options.data),
        lambda item: item.source,
        source=options.source,
        limit=options.limit,
    )
    measured = [_measure(runtime, item, options) for item in progress(items, "summaries")]
    return EvalReport(
        task="summary-lm",
        data=options.data.name,
        n=len(measured),
        metrics=grouped(measured, lambda entry: entry.source, _metrics),
        seconds=time.monotonic() - started,
        model=runtime.name,
    )


def _measure(runtime: LanguageRuntime, item: SummaryItem, options: WrittenSummaries) -> _Measured:
    config = runtime.config
    ids = runtime.tokenizer.encode(item.document).ids
    document = document_tokens(ids, config, chunks=options.chunks)
    reference = runtime.tokenizer.encode(item.summary).ids
    summary = summary_tokens(reference, config, longest=options.longest)
    streams = summary_streams([(document, summary)], config).to(runtime.device)
    with runtime.computing():
        losses, mask = stream_loss(runtime.model, streams.chunks, streams.valid)
        losses = summary_losses(losses, mask, streams)
        written = None
        if options.write:
            text = _write(runtime, document, longest=options.longest)
            written = rouge(text, item.summary)
    return _Measured(item.source, float(losses.double().sum()), len(losses), written)


def _write(runtime: LanguageRuntime, document: Sequence[int], *, longest: int) -> str:
    """Return the summary that the model writes after a document, at most ``longest`` tokens."""
    config = runtime.config
    state = begin_stream(runtime.model, dtype=runtime.dtype)
    state.prefill(document)
    state.close()  # the summary begins with a chunk of its own, as in training
    token, tokens = config.answer_id, list[int]()
    while len(tokens) < longest:
        token = int(torch.argmax(state.step(token)))
        if token == config.end_id:
            break
        tokens.append(token)
    return runtime.tokenizer.decode(tokens)


def _metrics(group: Sequence[_Measured]) -> Metrics:
    tokens = sum(entry.tokens for entry in group)
    loss = sum(entry.loss for entry in group)
    scores = mean_rouge(entry.rouge for entry in group if entry.rouge is not None)
    return {
        "n": len(group),
        "perplexity": math.exp(min(loss / tokens, 700.0)),
        **(scores.to_dict() if scores else {}),
    }
