"""``drt eval summary``: ROUGE of summaries against the ones that came with the documents.

A summary may have as many words as its reference, and one sentence at least. The baselines get the
same budget.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from drt_engine.errors import ConfigError, EmptyDocument
from drt_engine.ingest.temporary import library_of
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow, Store
from drt_engine.summary.options import SummaryOptions
from drt_engine.summary.summarize import summarize
from drt_lab.data.schema import SummaryItem, read_summaries
from drt_lab.evaluate.library import grouped, progress, select_cases
from drt_lab.evaluate.metrics.rouge import RougeScore, mean_rouge, rouge
from drt_lab.evaluate.metrics.summary_baselines import joined, lead_summary, textrank_summary
from drt_lab.evaluate.report import EvalReport, Metrics

Mode = Literal["auto", "extractive", "abstractive"]
LEAD, TEXTRANK = "lead", "textrank"


@dataclass(frozen=True)
class SummaryEvaluation:
    """Documents, at most ``limit`` of each source; ``both`` adds the other mode."""

    data: Path
    limit: int | None = None
    source: str | None = None
    mode: Mode = "auto"
    both: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit is {self.limit}, expected 1 or more")

    @property
    def other_mode(self) -> Mode:
        """The mode that ``both`` compares with."""
        return "extractive" if self.mode == "abstractive" else "abstractive"


@dataclass(frozen=True)
class _Scored:
    source: str
    scores: dict[str, RougeScore]


def evaluate_summary(runtime: Runtime, options: SummaryEvaluation) -> EvalReport:
    """Summarise every document; raises ConfigError for a file without any."""
    started = time.monotonic()
    items = select_cases(
        read_summaries(options.data),
        lambda item: item.source,
        source=options.source,
        limit=options.limit,
    )
    scored = [_scored(runtime, item, options) for item in progress(items, "summaries")]
    baselines = [name for name in scored[0].scores if name != options.mode]
    return EvalReport(
        task="summary",
        data=options.data.name,
        n=len(scored),
        metrics=_groups(scored, options.mode),
        baselines={name: _groups(scored, name) for name in baselines},
        seconds=time.monotonic() - started,
        model=runtime.name,
    )


def _scored(runtime: Runtime, item: SummaryItem, options: SummaryEvaluation) -> _Scored:
    words = len(item.summary.split())
    texts = {
        LEAD: joined(lead_summary(item.document, word_budget=words)),
        TEXTRANK: joined(textrank_summary(item.document, word_budget=words)),
    }
    modes: list[Mode] = [options.mode, options.other_mode] if options.both else [options.mode]
    with library_of(runtime, [item.document], name=item.id) as (store, (row,)):
        for mode in modes:
            how = SummaryOptions(mode=mode, words=words, first_whole=True)
            texts[mode] = _summary(runtime, store, row, how)
    return _Scored(item.source, {name: rouge(text, item.summary) for name, text in texts.items()})


def _summary(runtime: Runtime, store: Store, row: DocumentRow, options: SummaryOptions) -> str:
    try:
        return summarize(runtime, store, row.id, options).text
    except EmptyDocument:  # nothing but headings and tables: it earns no point, as it should
        return ""


def _groups(scored: Sequence[_Scored], name: str) -> dict[str, Metrics]:
    def measure(group: Sequence[_Scored]) -> Metrics:
        best = mean_rouge(entry.scores[name] for entry in group)
        return {"n": len(group)} | (best.to_dict() if best else {})

    return grouped(scored, lambda entry: entry.source, measure)
