"""`drt eval calibrate`: turns the found score into a confidence, and chooses the default threshold.

For answers with re-reading and from stored memory apart, a logistic map is fitted to the scores of
answerable and unanswerable questions. The threshold is the confidence that separates them with
the best balanced accuracy, the mean of the shares of answerable and unanswerable questions that
are told right: unlike plain accuracy, it does not depend on how many of each the data holds. Where
several do equally well, the middle of the widest such gap between scores is taken.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from drt_engine.answer.ask import AskOptions
from drt_engine.errors import ConfigError
from drt_engine.evaluate.answers import Judged, answer_to, check_quoting
from drt_engine.evaluate.auroc import auroc, calibration_error, fit_calibration
from drt_engine.evaluate.data import Question, load_qa
from drt_engine.evaluate.library import by_document, chosen, library_of, progress
from drt_engine.evaluate.report import EvalReport, Metrics
from drt_engine.retrieval.library import RetrieverName
from drt_engine.runtime import Calibration, Runtime

FILE = "calibration.json"
_EXTREME = 60.0  # scores beyond are all alike, and infinite ones cannot be fitted


@dataclass(frozen=True)
class CalibrateOptions:
    """Questions to fit on, at most `limit` of each source, and the model folder to write to."""

    qa: Path
    docs: Path
    out: Path
    limit: int | None = None
    source: str | None = None
    retriever: RetrieverName = "hybrid"

    def __post_init__(self) -> None:
        if not self.out.is_dir():
            raise ConfigError(f"{self.out} is no folder, expected the model folder to write to")
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit is {self.limit}, expected 1 or more")


def evaluate_calibrate(runtime: Runtime, options: CalibrateOptions) -> EvalReport:
    """Fit both calibrations and write calibration.json.

    Only sources that hold unanswerable questions count, or the score would be asked to tell
    sources apart. Raises ConfigError where there are none, or the score says nothing.
    """
    started = time.monotonic()
    check_quoting(runtime, reread=False)
    questions, documents = load_qa(options.qa, options.docs)
    asked = _chosen(questions, options)
    neutral = replace(runtime, calibration={})
    modes = {"reread": True, "stored": False} if runtime.config.reread else {"stored": False}
    judged: dict[str, list[Judged]] = {name: [] for name in modes}
    for doc_id, some in progress(list(by_document(asked).items()), "documents"):
        with library_of(runtime, [documents[doc_id].text], name=doc_id) as (store, _):
            for name, reread in modes.items():
                how = AskOptions(retriever=options.retriever, reread=reread)
                judged[name] += [answer_to(neutral, store, question, how) for question in some]
    fitted, metrics = {}, {}
    for name, answers in judged.items():
        scores = [found_score(a.confidence) for a in answers]
        labels = [a.kind != "unanswerable" for a in answers]
        fitted[name] = calibrate(scores, labels, name=name)
        metrics[name] = _metrics(fitted[name], scores, labels)
    write_calibration(options.out, fitted)
    return EvalReport(
        task="calibrate",
        data=options.qa.name,
        n=len(asked),
        metrics=metrics,
        seconds=time.monotonic() - started,
        model=runtime.name,
    )


def _chosen(questions: Sequence[Question], options: CalibrateOptions) -> list[Question]:
    both = {q.source for q in questions if q.kind == "unanswerable"}
    both &= {q.source for q in questions if q.kind != "unanswerable"}
    kept = [q for q in questions if q.source in both]
    return chosen(kept, lambda q: q.source, source=options.source, limit=options.limit)


def found_score(confidence: float) -> float:
    """Return the score that an uncalibrated confidence came from."""
    if confidence <= 0 or confidence >= 1:
        return math.copysign(_EXTREME, confidence - 0.5)
    return max(-_EXTREME, min(_EXTREME, math.log(confidence) - math.log1p(-confidence)))


def calibrate(scores: Sequence[float], labels: Sequence[bool], *, name: str) -> Calibration:
    """Fit scale and shift and choose the threshold.

    Raises ConfigError where one class is absent or a higher score does not mean "found".
    """
    area = auroc(scores, labels)
    if area is None:
        raise ConfigError(f"{name}: all questions are of one kind, expected answerable and not")
    fit = fit_calibration(scores, labels)
    if area <= 0.5 or fit.slope <= 0:
        raise ConfigError(
            f"{name}: the score does not tell what is found (AUROC {area:.2f}), expected above "
            "0.5; train the model further"
        )
    border = best_border(scores, labels)
    return Calibration(fit.slope, fit.offset, fit.probability(border))


def best_border(scores: Sequence[float], labels: Sequence[bool]) -> float:
    """Return the score from which on "found" gives the best balanced accuracy; two must differ."""
    pairs = sorted(zip(scores, map(bool, labels), strict=True))
    positives = sum(label for _, label in pairs)
    shares = (1 / positives, 1 / (len(pairs) - positives))
    best = (-1.0, 0.0, 0.0)  # balanced accuracy less a constant, gap, border
    balance = 0.0
    for (low, label), (high, _) in zip(pairs, pairs[1:], strict=False):
        balance += -shares[0] if label else shares[1]
        if high > low:
            best = max(best, (balance, high - low, (low + high) / 2))
    return best[2]


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


def _metrics(fit: Calibration, scores: Sequence[float], labels: Sequence[bool]) -> Metrics:
    logits = [max(-_EXTREME, min(_EXTREME, fit.scale * s + fit.shift)) for s in scores]
    probabilities = [1 / (1 + math.exp(-z)) for z in logits]
    return {
        "scale": fit.scale,
        "shift": fit.shift,
        "threshold": fit.threshold,
        "found_auroc": auroc(scores, labels),
        "balanced_accuracy": balanced_accuracy(probabilities, labels, fit.threshold),
        "calibration_error": calibration_error(probabilities, labels),
        "n_answerable": sum(labels),
        "n_unanswerable": len(labels) - sum(labels),
    }
