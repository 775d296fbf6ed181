"""``drt eval retrieval``: is a chunk with evidence among the best 1 and 8 of its own document.

Every question is asked of a library that holds just its document. ``landmark`` and ``hybrid`` are
the model's own scores, as asking uses them, without and with BM25; ``lexical`` is BM25 alone, which
is the baseline too. ``judged`` are the best of ``hybrid`` in the reader's order.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from drt_engine.errors import ConfigError
from drt_engine.generate.prompt_run import open_prompt
from drt_engine.ingest.temporary import library_of
from drt_engine.retrieval.candidates import RetrieverName
from drt_engine.retrieval.library import SearchOptions
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_lab.data.schema import Question, load_qa
from drt_lab.evaluate.library import (
    by_document,
    chunk_rows,
    file_names,
    grouped,
    mean,
    overlaps,
    progress,
    select_cases,
)
from drt_lab.evaluate.report import EvalReport, Metrics, Number

RETRIEVERS: tuple[RetrieverName, ...] = ("landmark", "lexical", "hybrid")
BEST = 8
JUDGED = "judged"


@dataclass(frozen=True)
class RetrievalOptions:
    """Questions with evidence, at most ``limit`` of each source; one ``retriever`` or all three.

    ``judged`` adds the best chunks of hybrid retrieval in the reader's order. ``keep`` is a folder
    for the libraries of the documents, which are not read again.
    """

    qa: tuple[Path, ...]
    docs: tuple[Path, ...]
    limit: int | None = None
    source: str | None = None
    retriever: RetrieverName | None = None
    judged: bool = False
    keep: Path | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit is {self.limit}, expected 1 or more")


@dataclass(frozen=True)
class _Case:
    """Where the evidence came first in each retriever's order, from 0; None beyond the best."""

    source: str
    ranks: dict[str, int | None]


def evaluate_retrieval(runtime: Runtime, options: RetrievalOptions) -> EvalReport:
    """Ask every question that has evidence.

    Raises ConfigError for files without any, and for a model without a reader that is to judge.
    """
    started = time.monotonic()
    if options.judged and runtime.config.reader is None:
        raise ConfigError(f"the model {runtime.name} has no reader, expected one that judges")
    questions, documents = load_qa(options.qa, options.docs)
    selected_questions = select_cases(
        [q for q in questions if q.evidence],
        lambda q: q.source,
        source=options.source,
        limit=options.limit,
    )
    names: list[str] = list(RETRIEVERS if options.retriever is None else (options.retriever,))
    names += [JUDGED] * options.judged
    cases: list[_Case] = []
    for doc_id, document_questions in progress(
        list(by_document(selected_questions).items()), "documents"
    ):
        kept = library_of(runtime, [documents[doc_id].text], name=doc_id, keep=options.keep)
        with kept as (store, (row,)):
            spans = [(chunk.id, chunk.start, chunk.text) for chunk in chunk_rows(store, row)]
            for question in document_questions:
                right = {i for i, start, text in spans if overlaps(start, text, question.evidence)}
                cases.append(_case(runtime, store, question, names, right))
    return EvalReport(
        task="retrieval",
        data=file_names(options.qa),
        n=len(cases),
        metrics=_groups(cases, names),
        baselines={"bm25": _groups(cases, ["lexical"])},
        seconds=time.monotonic() - started,
        model=runtime.name,
    )


def _case(
    runtime: Runtime,
    store: Store,
    question: Question,
    names: Sequence[str],
    right: set[int],
) -> _Case:
    ranks: dict[str, int | None] = {}
    for name in dict.fromkeys((*names, "lexical")):
        text = question.question
        order = (
            judged(runtime, store, text) if name == JUDGED else ranked(runtime, store, text, name)
        )
        ranks[name] = next((at for at, chunk in enumerate(order) if chunk in right), None)
    return _Case(question.source, ranks)


def ranked(runtime: Runtime, store: Store, question: str, retriever: str) -> list[int]:
    """Return the ids of the best chunks for a question, best first, without a reader pass.

    ``lexical`` is BM25 alone; the others are what the last group of the model retrieves at the
    landmark of the question's last chunk.
    """
    if retriever == "lexical":
        return [chunk for chunk, _ in store.search_text(question, limit=BEST)]
    options = SearchOptions(
        top_k=BEST,
        retriever="landmark" if retriever == "landmark" else "hybrid",
        reader_pass=False,
    )
    with runtime.computing():
        run = open_prompt(runtime, store, question, options)
    return [passage.row.id for passage in run.question_passages]


def judged(runtime: Runtime, store: Store, question: str) -> list[int]:
    """Return the ids of the best chunks of hybrid retrieval in the reader's order, best first.

    The evidence of a chunk's own tokens counts, with the retrieval probability, as where it chooses
    a quote; what stands in the margins is of the neighbours.
    """
    reader = runtime.config.reader
    with runtime.computing():
        retrieval = open_prompt(runtime, store, question, SearchOptions(top_k=BEST)).retrieval
    if retrieval is None or retrieval.passage_logits is None or reader is None:
        return []
    passages = retrieval.passages
    log_probability = torch.tensor([passage.probability for passage in passages]).log()
    own = torch.stack(
        [(p.starts >= p.row.start) & (p.starts < p.row.start + len(p.row.text)) for p in passages]
    )
    logits = replace(
        retrieval.passage_logits,
        start=retrieval.passage_logits.start.masked_fill(~own, float("-inf")),
        end=retrieval.passage_logits.end.masked_fill(~own, float("-inf")),
    )
    worth = logits.evidence() + reader.prior * log_probability
    return [passages[place].row.id for place in worth.argsort(descending=True).tolist()]


def _groups(cases: Sequence[_Case], names: Sequence[str]) -> dict[str, Metrics]:
    def measure(group: Sequence[_Case]) -> Metrics:
        return {"n": len(group)} | {name: _hit_rates(group, name) for name in names}

    return grouped(cases, lambda case: case.source, measure)


def _hit_rates(cases: Sequence[_Case], name: str) -> dict[str, Number]:
    ranks = [case.ranks[name] for case in cases]
    return {
        "hit@1": mean(float(rank == 0) for rank in ranks),
        "hit@8": mean(float(rank is not None) for rank in ranks),
    }
