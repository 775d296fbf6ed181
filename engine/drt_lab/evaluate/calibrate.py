"""``drt eval calibrate``: turns what the model says about an answer into two probabilities.

Confidence: a logistic map is fitted to the signals of answerable and unanswerable questions,
separately for answers with a reader pass and from stored memory, and then moved to even odds: it is
the probability that the document says it where as many questions have an answer as have none, so
it does not depend on how many of each the data holds. Its threshold is below one half: a passage
that is likely to hold the answer costs a reader less than one that is held back.

Quote probability: how likely the quote that is shown is right, and from where on it is shown as an
answer; see ``quote_fit.py``.
"""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from drt_engine.answer.judge import calibration_name
from drt_engine.answer.options import AskOptions
from drt_engine.errors import ConfigError
from drt_engine.ingest.temporary import library_of
from drt_engine.model.calibration import NO_EVIDENCE, Calibration, Signals, log_odds
from drt_engine.retrieval.candidates import RetrieverName
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_lab.data.schema import FileQuestion, Question, load_qa, read_file_questions
from drt_lab.evaluate.files import FILES, judged_question, library_of_files, with_documents
from drt_lab.evaluate.library import by_document, file_names, progress, select_cases
from drt_lab.evaluate.metrics.auroc import auroc, auroc_within
from drt_lab.evaluate.metrics.logistic import fit_logistic
from drt_lab.evaluate.metrics.reliability import (
    Bin,
    check_plot,
    expected_error,
    plot_reliability,
    reliability,
)
from drt_lab.evaluate.qa import Judged, answer_to, check_quoting
from drt_lab.evaluate.quote_fit import (
    LEAST_TYPED,
    JudgedQuestion,
    fit_quotes,
    quote_metrics,
)
from drt_lab.evaluate.report import EvalReport, Metrics

FILE = "calibration.json"
THRESHOLD = 0.35
_CHANCE = 0.55  # what five weights fitted to noise may reach


@dataclass(frozen=True)
class CalibrateOptions:
    """Questions to fit on, at most ``limit`` of each source, and the model folder to write to.

    ``also`` are further pairs of files with questions and documents; ``files`` are pairs of a file
    with questions and the folder of the files they are about, as ``drt eval files`` takes them;
    ``among`` is a library that holds these files and others, which is asked in their place, each
    file by itself and all of it. ``plot`` is a file to draw the reliability to. ``keep`` is a
    folder for the libraries of the documents, which are not read again. ``quotes_only`` fits the
    quote probability alone and keeps the model's confidence.
    ``only`` fits one calibration (reread, stored or decoder) and keeps the model's others.
    """

    qa: tuple[Path, ...]
    docs: tuple[Path, ...]
    out: Path
    limit: int | None = None
    source: str | None = None
    retriever: RetrieverName = "hybrid"
    plot: Path | None = None
    also: tuple[tuple[Path, ...], ...] = ()
    files: tuple[tuple[Path, ...], ...] = ()
    among: Path | None = None
    keep: Path | None = None
    quotes_only: bool = False
    only: str | None = None

    def __post_init__(self) -> None:
        if self.plot is not None:
            check_plot(self.plot)
        if not self.out.is_dir():
            raise ConfigError(f"{self.out} is not a folder, expected the model folder to write to")
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit is {self.limit}, expected 1 or more")
        if any(len(pair) != 2 for pair in self.also):
            raise ConfigError("also must name pairs of files, questions and their documents")
        if any(len(pair) != 2 or not pair[1].is_dir() for pair in self.files):
            raise ConfigError("files must name pairs of a file of questions and a folder")


def evaluate_calibrate(runtime: Runtime, options: CalibrateOptions) -> EvalReport:
    """Fit both calibrations, write calibration.json, and report how reliable they are.

    What is written is fitted on all questions; what is reported was measured on documents that the
    fit had not seen, by fitting on one half of the documents and measuring on the other. For the
    confidence only sources that hold unanswerable questions count, or the score would be asked to
    tell sources apart; for the quotes all sources do. Raises ConfigError where there are none, or
    the score says nothing.
    """
    started = time.monotonic()
    check_quoting(runtime, reread=False)
    questions, documents = load_qa(options.qa, options.docs)
    for qa, docs in options.also:
        more_questions, more_documents = load_qa([qa], [docs])
        questions, documents = questions + more_questions, documents | more_documents
    selected_questions = _select_questions(questions, options)
    reads = (True, False) if runtime.config.reads_passages else (False,)
    modes = {calibration_name(runtime, reads_passages=reread): reread for reread in reads}
    if options.only is not None and options.only not in modes:
        raise ConfigError(f"only is {options.only!r}, expected {' or '.join(modes)}")
    modes = {n: reread for n, reread in modes.items() if options.only in (None, n)}
    judged: dict[str, list[Judged]] = {name: [] for name in modes}
    for doc_id, document_questions in progress(
        list(by_document(selected_questions).items()), "documents"
    ):
        kept = library_of(runtime, [documents[doc_id].text], name=doc_id, keep=options.keep)
        with kept as (store, _):
            for name, reread in modes.items():
                how = AskOptions(retriever=options.retriever, reread=reread)
                judged[name] += [
                    answer_to(runtime, store, question, how) for question in document_questions
                ]
    for asked, folder in options.files:
        for name, answers in _judged_files(runtime, asked, folder, modes, options).items():
            judged[name] += answers
    fitted: dict[str, Calibration] = {}
    metrics: dict[str, Metrics] = {}
    tables: dict[str, list[Bin]] = {}
    sources = _sources_with_both(selected_questions) | ({FILES} if options.files else set())
    for name, all_answers in judged.items():
        if options.quotes_only:
            fitted[name] = runtime.calibration.get(name, Calibration())
        else:
            # What was looked up was not always read, which says nothing of reading.
            answers = [a for a in all_answers if a.source in sources and a.signals != NO_EVIDENCE]
            signals = [a.signals for a in answers]
            labels = [a.kind != "unanswerable" for a in answers]
            before = runtime.calibration.get(name, Calibration())
            fitted[name] = replace(calibrate(signals, labels, name=name), enough=before.enough)
            confidences = _held_out(answers)
            tables[name] = reliability(_at_odds(confidences, _odds(labels)), labels)
            metrics[name] = _metrics(fitted[name], confidences, answers, tables[name])
        fit = fit_quotes(_judged_questions(all_answers, fitted[name]))
        if fit is not None:
            fitted[name] = replace(fitted[name], quote=fit.calibration, verdict=fit.verdict)
            metrics[f"{name} quote"] = quote_metrics(fit)
            tables[f"{name} quote"] = reliability(fit.probabilities, fit.right)
    metrics |= {f"{name} {b.name}": b.row for name, bins in tables.items() for b in bins}
    others = {} if options.only is None else runtime.calibration
    write_calibration(options.out, {**others, **fitted})
    if options.plot is not None:
        plot_reliability(tables, options.plot, title=f"confidence of {runtime.name}")
    return EvalReport(
        task="calibrate",
        data=file_names(options.qa),
        n=len(next(iter(judged.values()))),
        metrics=metrics,
        seconds=time.monotonic() - started,
        model=runtime.name,
    )


def _judged_files(
    runtime: Runtime,
    asked: Path,
    folder: Path,
    modes: Mapping[str, bool],
    options: CalibrateOptions,
) -> dict[str, list[Judged]]:
    """Return the judged answers to questions about files in their own formats, by mode."""
    judged: dict[str, list[Judged]] = {name: [] for name in modes}
    file_questions = list(read_file_questions(asked))
    if options.among is not None:
        with Store.open(options.among) as store:
            for question, own in with_documents(store, file_questions):
                for name, reread in modes.items():
                    how = AskOptions(retriever=options.retriever, reread=reread)
                    alone = replace(how, documents=own)
                    judged[name].append(judged_question(runtime, store, question, alone, own=own))
                    answer = judged_question(runtime, store, question, how, own=own)
                    judged[name].append(replace(answer, among=True))
        return judged
    by_file: dict[str, list[FileQuestion]] = {}
    for question in file_questions:
        by_file.setdefault(question.file, []).append(question)
    for file, questions in progress(list(by_file.items()), "files"):
        with library_of_files(runtime, [folder / file], keep=options.keep) as (store, _):
            for name, reread in modes.items():
                how = AskOptions(retriever=options.retriever, reread=reread)
                judged[name] += [judged_question(runtime, store, q, how) for q in questions]
    return judged


def _sources_with_both(questions: Sequence[Question]) -> set[str]:
    """Return the sources that hold answerable and unanswerable questions."""
    unanswerable = {q.source for q in questions if q.kind == "unanswerable"}
    return unanswerable & {q.source for q in questions if q.kind != "unanswerable"}


def _select_questions(questions: Sequence[Question], options: CalibrateOptions) -> list[Question]:
    sources = _sources_with_both(questions)
    usable_questions = [
        q for q in questions if q.source in sources or (sources and q.kind == "extractive")
    ]
    selected = select_cases(
        usable_questions, lambda q: q.source, source=options.source, limit=options.limit
    )
    if sum(bool(q.type) for q in selected) < LEAST_TYPED:
        return selected
    return [q for q in selected if q.source in sources or q.type]  # no fit counts the others


def calibrate(signals: Sequence[Signals], labels: Sequence[bool], *, name: str) -> Calibration:
    """Fit the weights of the signals and the shift, at even odds.

    Raises ConfigError where one class is absent or the signals do not tell what is found.
    """
    if len(set(labels)) < 2:
        raise ConfigError(f"{name}: all questions are of one kind, expected answerable and not")
    fit = _fit(signals, labels)
    area = auroc([fit.confidence(signal) for signal in signals], labels)
    assert area is not None
    if area <= _CHANCE:
        raise ConfigError(
            f"{name}: nothing the model says tells what is found (AUROC {area:.2f}), expected "
            f"above {_CHANCE}; train the model further"
        )
    return fit


def _fit(signals: Sequence[Signals], labels: Sequence[bool]) -> Calibration:
    rows = [signal.bounded() for signal in signals]
    (span, retrieval, relevance, null, chunk_null), offset = fit_logistic(rows, labels)
    return Calibration(
        scale=span,
        shift=offset - _odds(labels),
        threshold=THRESHOLD,
        retrieval=retrieval,
        relevance=relevance,
        null=null,
        each=chunk_null,
    )


def _judged_questions(answers: Sequence[Judged], fit: Calibration) -> list[JudgedQuestion]:
    """Return the questions whose right answer is known, with the confidence of the new fit."""
    questions = []
    for answer in answers:
        if not answer.candidates or answer.kind == "abstractive":
            continue
        answerable = log_odds(fit.confidence(answer.signals))
        candidates = tuple(
            tuple((features._replace(answerable=answerable), right) for features, right in forms)
            for forms in answer.candidates
        )
        questions.append(
            JudgedQuestion(
                answer.document,
                candidates,
                answer.yes_no,
                answer.verdict,
                typed=bool(answer.type),
                among=answer.among,
            )
        )
    return questions


def _odds(labels: Sequence[bool]) -> float:
    """Return the logarithm of how many answerable questions come to one that is not."""
    positives = sum(labels)
    return math.log(positives / (len(labels) - positives))


def balanced_accuracy(scores: Sequence[float], labels: Sequence[bool], border: float) -> float:
    """Return the mean of the shares of both classes that stand on their side of the border."""
    positives = sum(labels)
    above = sum(label for score, label in zip(scores, labels, strict=True) if score >= border)
    below = sum(not label for score, label in zip(scores, labels, strict=True) if score < border)
    return (above / positives + below / (len(labels) - positives)) / 2


def write_calibration(folder: Path, fitted: dict[str, Calibration]) -> None:
    """Write calibration.json beside the weights, under a new name and then renamed."""
    part = folder / (FILE + ".part")
    data = {name: asdict(calibration) for name, calibration in fitted.items()}
    try:
        part.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        part.replace(folder / FILE)
    except OSError as error:
        message = f"{folder / FILE} cannot be written ({error}); name another folder"
        raise ConfigError(message) from error


def _held_out(answers: Sequence[Judged]) -> list[float]:
    """Return confidences by fits that have not seen the answer's document.

    Documents are halved by a hash of their ids; where a half cannot be fitted, all are.
    """
    halves = [zlib.crc32(answer.document.encode()) % 2 for answer in answers]
    fits: list[Calibration] = []
    for half in (0, 1):
        training_answers = [
            a for a, answer_half in zip(answers, halves, strict=True) if answer_half != half
        ]
        labels = [a.kind != "unanswerable" for a in training_answers]
        if len(set(labels)) < 2:
            training_answers, labels = list(answers), [a.kind != "unanswerable" for a in answers]
        fits.append(_fit([a.signals for a in training_answers], labels))
    return [fits[h].confidence(a.signals) for a, h in zip(answers, halves, strict=True)]


def _at_odds(confidences: Sequence[float], odds: float) -> list[float]:
    """Confidences at even odds as they are at the odds of the data, where they can be measured."""
    return [p * math.exp(odds) / (p * math.exp(odds) + 1 - p) for p in confidences]


def _metrics(
    fit: Calibration, probabilities: Sequence[float], answers: Sequence[Judged], bins: Sequence[Bin]
) -> Metrics:
    labels = [a.kind != "unanswerable" for a in answers]
    weights = {
        k: v for k, v in asdict(fit).items() if k not in ("threshold", "quote", "verdict", "enough")
    }
    return {
        **weights,
        "threshold": fit.threshold,
        "found_auroc": auroc(probabilities, labels),
        "found_auroc_within": auroc_within(probabilities, labels, [a.document for a in answers]),
        "balanced_accuracy": balanced_accuracy(probabilities, labels, fit.threshold),
        "calibration_error": expected_error(bins),
        "n_answerable": sum(labels),
        "n_unanswerable": len(labels) - sum(labels),
    }
