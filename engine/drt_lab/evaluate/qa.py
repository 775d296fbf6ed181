"""``drt eval qa``: quotes against reference answers, and whether absence is noticed.

Every question is asked of a library that holds just its document, by the function that ``drt ask``
calls. ``f1`` and ``em`` judge the best span of extractive questions whether or not the model would
have said "not found"; ``f1_found`` counts what it would not have shown as empty.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.result import AnswerResult
from drt_engine.errors import ConfigError
from drt_engine.ingest.temporary import library_of
from drt_engine.model.calibration import NO_EVIDENCE, QuoteFeatures, Signals
from drt_engine.retrieval.candidates import RetrieverName
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow, Store
from drt_engine.text.sentences import split_sentences
from drt_lab.data.schema import QADocument, Question, load_qa
from drt_lab.evaluate.library import (
    ALL,
    by_document,
    chunk_rows,
    file_names,
    grouped,
    mean,
    overlaps,
    progress,
    select_cases,
)
from drt_lab.evaluate.metrics.auroc import auroc, auroc_within
from drt_lab.evaluate.metrics.qa_f1 import AnswerScore, is_right, score_answer
from drt_lab.evaluate.metrics.summary_baselines import SentenceIndex
from drt_lab.evaluate.report import EvalReport, Groups, Metrics

# The forms of one quote, its words and what is around them, and whether each is right.
JudgedForms = tuple[tuple[QuoteFeatures, bool], ...]
STORED, GIVEN, SENTENCE = "stored", "given chunk", "bm25 sentence"


@dataclass(frozen=True)
class QAOptions:
    """Questions, at most ``limit`` of each source, asked with the reader pass or without it.

    ``qa`` and ``docs`` are files; a question's document may be in any of ``docs``.

    ``both`` adds the answers without a reader pass as the baseline "stored"; ``given_chunk`` adds
    those of extractive questions where the evidence's chunk is all there is to retrieve, as "given
    chunk". ``keep`` is a folder for the libraries of the documents, which are not read again.
    """

    qa: tuple[Path, ...]
    docs: tuple[Path, ...]
    limit: int | None = None
    source: str | None = None
    retriever: RetrieverName = "hybrid"
    reread: bool = True
    both: bool = False
    given_chunk: bool = False
    keep: Path | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit is {self.limit}, expected 1 or more")
        if self.both and not self.reread:
            raise ConfigError("both compares re-reading with none; give it without reread = false")


@dataclass(frozen=True)
class Judged:
    """One answer: its scores against the references, and what the model thought of it.

    ``candidates`` are the features of the quotes that might be shown, and whether each is right;
    ``verdict`` is the log-odds of yes, where the question wants a ``yes_no``; ``among`` says that
    other documents were asked, too.
    """

    source: str
    kind: str
    score: AnswerScore
    answer_found: bool
    confidence: float
    signals: Signals = NO_EVIDENCE
    document: str = ""
    type: str = ""
    candidates: tuple[JudgedForms, ...] = ()
    yes_no: str = ""
    verdict: float = 0.0
    among: bool = False


def evaluate_qa(runtime: Runtime, options: QAOptions) -> EvalReport:
    """Ask every question; raises ConfigError for a model that cannot be asked so."""
    started = time.monotonic()
    check_quoting(runtime, reread=options.both)
    questions, documents = load_qa(options.qa, options.docs)
    selected_questions = select_cases(
        questions, lambda q: q.source, source=options.source, limit=options.limit
    )
    judged: dict[str, list[Judged]] = {name: [] for name in _systems(options)}
    for doc_id, document_questions in progress(
        list(by_document(selected_questions).items()), "documents"
    ):
        document = documents[doc_id]
        kept = library_of(runtime, [document.text], name=doc_id, keep=options.keep)
        with kept as (store, (row,)):
            index = SentenceIndex(split_sentences(document.text))
            given_chunk = _Given(runtime, store, row, document)
            for question in document_questions:
                for name, answers in judged.items():
                    if name == SENTENCE:
                        answers.append(_sentence(index, question))
                    elif name != GIVEN:
                        how = _ask_options(options, reread=options.reread and name != STORED)
                        answers.append(answer_to(runtime, store, question, how))
                    elif question.kind == "extractive":
                        answers.append(given_chunk.answer(question, options))
    baselines = {
        name: _groups(answers, _scores_only if name in (GIVEN, SENTENCE) else _metrics)
        for name, answers in judged.items()
        if name and answers
    }
    return EvalReport(
        task="qa",
        data=file_names(options.qa),
        n=len(selected_questions),
        metrics=_groups(judged[""], _metrics),
        baselines=baselines,
        seconds=time.monotonic() - started,
        model=runtime.name,
    )


def check_quoting(runtime: Runtime, *, reread: bool) -> None:
    """Raise ConfigError for a model without a quote head, or without a reader pass if needed."""
    if not runtime.config.quote_head:
        raise ConfigError(f"the model {runtime.name} has no quote head, expected one that quotes")
    if reread and not runtime.config.reads_passages:
        raise ConfigError(f"the model {runtime.name} cannot re-read, so there are no two modes")


def answer_to(runtime: Runtime, store: Store, question: Question, how: AskOptions) -> Judged:
    """Ask one question of the library and judge the best span."""
    result = ask(runtime, store, question.question, how)
    judged = _judged(question, best_quote(result), result.found, result.confidence)
    answerable = question.kind != "unanswerable"
    candidates = judged_forms(
        result, lambda quote: answerable and is_right(quote, question.answers)
    )
    return replace(
        judged,
        signals=result.signals,
        candidates=candidates,
        yes_no=question.yes_no if result.answer_type == "yesno" else "",
        verdict=result.verdict_score,
    )


def judged_forms(
    result: AnswerResult,
    is_right_quote: Callable[[str], bool],
    *,
    own: Collection[str] | None = None,
) -> tuple[JudgedForms, ...]:
    """Return the forms of each quote that might have been shown, and which of them are right.

    Those of another document than its ``own`` are wrong.
    """
    return tuple(
        tuple(
            (form.features, (own is None or form.document in own) and is_right_quote(form.quote))
            for form in forms
        )
        for forms in result.candidates
    )


def best_quote(result: AnswerResult) -> str:
    """Return the best span, found or not, without the sentence it may be shown in."""
    return result.citations[0].span if result.citations else ""


class _Given:
    """Questions asked of a library that holds nothing but the chunks of their evidence."""

    def __init__(self, runtime: Runtime, store: Store, row: DocumentRow, document: QADocument):
        self._runtime, self._document = runtime, document
        self._chunks = [(chunk.start, chunk.text) for chunk in chunk_rows(store, row)]

    def answer(self, question: Question, options: QAOptions) -> Judged:
        first = question.evidence[:1]
        text = "".join(text for start, text in self._chunks if overlaps(start, text, first))
        how = _ask_options(options, reread=options.reread)
        with library_of(self._runtime, [text], name=self._document.doc_id) as (store, _):
            return answer_to(self._runtime, store, question, how)


def _systems(options: QAOptions) -> list[str]:
    """Return the systems: the model as asked for is "", others are baselines by name."""
    extra = [STORED] * options.both + [GIVEN] * options.given_chunk
    return ["", *extra, SENTENCE]


def _ask_options(options: QAOptions, *, reread: bool) -> AskOptions:
    return AskOptions(retriever=options.retriever, reread=reread)


def _sentence(index: SentenceIndex, question: Question) -> Judged:
    best = index.ranked(question.question)
    text, score = (best[0][0].text, best[0][1]) if best else ("", 0.0)
    return _judged(question, text, True, score)


def _judged(question: Question, quote: str, answer_found: bool, confidence: float) -> Judged:
    score = score_answer(quote, question.answers)
    return Judged(
        question.source,
        question.kind,
        score,
        answer_found,
        confidence,
        document=question.doc_id,
        type=question.type,
    )


def _groups(answers: Sequence[Judged], measure: object) -> Groups:
    assert callable(measure)
    groups = grouped(answers, lambda a: a.source, measure)
    typed = [a for a in answers if a.type]
    if not typed:
        return groups
    by_type = grouped(typed, lambda a: f"type {a.type}", measure)
    return {**{name: by_type[name] for name in sorted(by_type) if name != ALL}, **groups}


def _scores_only(answers: Sequence[Judged]) -> Metrics:
    extractive = [a for a in answers if a.kind == "extractive"]
    abstractive = [a for a in answers if a.kind == "abstractive"]
    return {
        "f1": mean(a.score.f1 for a in extractive),
        "em": mean(a.score.em for a in extractive),
        "f1_abstractive": mean(a.score.f1 for a in abstractive),
    }


def _metrics(answers: Sequence[Judged]) -> Metrics:
    extractive = [a for a in answers if a.kind == "extractive"]
    answerable = [a.kind != "unanswerable" for a in answers]
    right = (a.answer_found == yes for a, yes in zip(answers, answerable, strict=True))
    return {
        **_scores_only(answers),
        "f1_found": mean(a.score.f1 * a.answer_found for a in extractive),
        "found_auroc": auroc([a.confidence for a in answers], answerable),
        "found_auroc_within": auroc_within(
            [a.confidence for a in answers], answerable, [a.document for a in answers]
        ),
        "found_accuracy": mean(map(float, right)),
        "n_answerable": sum(answerable),
        "n_unanswerable": len(answers) - sum(answerable),
        "n_extractive": len(extractive),
    }
