"""``drt eval needle``: is a fact found that was hidden in a text of a given length.

A document holds several needles on different entities, at most one in 1,024 tokens, each in its
own stretch of the text, so that reading one document serves many questions; to each question the
other needles are distractors. Both hops of a two-hop needle stand in the same stretch.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.result import AnswerResult
from drt_engine.errors import ConfigError
from drt_engine.ingest.temporary import library_of
from drt_engine.retrieval.candidates import RetrieverName
from drt_engine.runtime import Runtime
from drt_engine.text.sentences import Span, split_sentences
from drt_lab.data.needles import (
    NeedleCase,
    NeedleOptions,
    gather_haystack,
    make_needle,
    proper_names,
)
from drt_lab.data.schema import read_corpus
from drt_lab.evaluate.library import mean, overlaps, progress
from drt_lab.evaluate.metrics.qa_f1 import normalize_answer
from drt_lab.evaluate.metrics.summary_baselines import SentenceIndex
from drt_lab.evaluate.qa import best_quote, check_quoting
from drt_lab.evaluate.report import EvalReport, Metrics

TOKENS_PER_NEEDLE = 1024
LONGEST_QUOTE = 4  # times the answer: a whole passage that happens to hold it is no answer
_DRAWS = 50
_SPARE = 1.6  # characters to take a stretch from, over those it should need


@dataclass(frozen=True)
class NeedleEvaluation:
    """How many ``needles`` of each of the ``lengths``, in tokens, and where the text is from."""

    corpus: Path
    lengths: tuple[int, ...] = (4096, 16384)
    needles: int = 20
    hops: int = 1
    seed: int = 0
    retriever: RetrieverName = "hybrid"
    reread: bool = True

    def __post_init__(self) -> None:
        if not self.lengths or min(self.lengths) < 128:
            raise ConfigError(f"lengths are {self.lengths}, expected one or more of 128 or above")
        if self.needles < 1:
            raise ConfigError(f"needles is {self.needles}, expected 1 or more")
        if self.hops not in (1, 2):
            raise ConfigError(f"hops is {self.hops}, expected 1 or 2")


@dataclass(frozen=True)
class HiddenFact:
    """A needle in a finished document: ``text[start:end] == answer`` for its evidence."""

    question: str
    answer: str
    evidence: Span


@dataclass(frozen=True)
class _Outcome:
    answer_found: bool
    contained: bool
    retrieved: bool
    sentence: bool


def evaluate_needle(runtime: Runtime, options: NeedleEvaluation) -> EvalReport:
    """Hide needles at every length and ask for them; raises ConfigError for a corpus too short."""
    started = time.monotonic()
    check_quoting(runtime, reread=False)
    metrics: dict[str, Metrics] = {}
    sentences: dict[str, Metrics] = {}
    for length in options.lengths:
        outcomes: list[_Outcome] = []
        documents = list(_shares(options.needles, length))
        hidden = _Documents(runtime, options, length, max_needles=max(documents))
        for number, count in progress(list(enumerate(documents)), length_name(length)):
            text, facts = hidden.make(number, count)
            outcomes += _ask_facts(runtime, text, facts, options)
        metrics[length_name(length)] = _metrics(outcomes, max_needles=max(documents))
        accuracy = mean(float(o.sentence) for o in outcomes)
        sentences[length_name(length)] = {"accuracy": accuracy, "n": len(outcomes)}
    return EvalReport(
        task="needle",
        data=options.corpus.name,
        n=options.needles * len(options.lengths),
        metrics=metrics,
        baselines={"bm25 sentence": sentences},
        seconds=time.monotonic() - started,
        model=runtime.name,
    )


def length_name(tokens: int) -> str:
    """Return a length as it is given: 4k, 1m, or a plain number."""
    for size, unit in ((1024 * 1024, "m"), (1024, "k")):
        if tokens % size == 0:
            return f"{tokens // size}{unit}"
    return str(tokens)


def _shares(needles: int, length: int) -> Iterator[int]:
    """Yield the number of needles of each document of a length."""
    max_needles = max(1, length // TOKENS_PER_NEEDLE)
    for at in range(0, needles, max_needles):
        yield min(max_needles, needles - at)


class _Documents:
    """Makes documents of one length out of the corpus, a new stretch of it for every needle."""

    def __init__(
        self, runtime: Runtime, options: NeedleEvaluation, length: int, *, max_needles: int
    ) -> None:
        self._options, self._length, self._max_needles = options, length, max_needles
        self._count: Callable[[str], int] = lambda text: len(runtime.tokenizer.encode(text))
        texts = (document.text for document in read_corpus(options.corpus))
        sample = gather_haystack(
            (document.text for document in read_corpus(options.corpus)), characters=20_000
        )[:20_000]
        per_token = len(sample) / max(1, self._count(sample))
        self._needed = per_token * length * _SPARE
        self._text = gather_haystack(
            texts, characters=self._size(1) + self._size(max_needles) * max_needles
        )

    def _size(self, count: int) -> int:
        """Characters to draw each of ``count`` stretches of a document from."""
        return round(self._needed / count) + 2000

    def make(self, number: int, count: int) -> tuple[str, list[HiddenFact]]:
        """Return document ``number`` with ``count`` needles, one in each of its equal stretches."""
        parts: list[str] = []
        facts: list[HiddenFact] = []
        used_keys: set[tuple[str, frozenset[str]]] = set()
        at = 0
        for part in range(count):
            stretch = self._stretch(number * self._max_needles + part, self._size(count))
            case = self._case(
                number * self._max_needles + part, self._length // count, stretch, used_keys
            )
            facts += [
                HiddenFact(case.question, case.answer, (at + start, at + end))
                for start, end in case.evidence
            ]
            parts.append(case.text)
            at += len(case.text) + 2
        return "\n\n".join(parts), facts

    def _case(
        self, place: int, tokens: int, stretch: str, used_keys: set[tuple[str, frozenset[str]]]
    ) -> NeedleCase:
        """Draw needles until one asks for nothing that the document already says of its entity."""
        options = self._options
        for draw in range(_DRAWS):
            seed = crc32(f"{options.seed} {self._length} {place} {draw}".encode())
            case_options = NeedleOptions(tokens, depth=seed % 1000 / 999, hops=options.hops)
            case = make_needle(stretch, case_options, seed=seed, count_tokens=self._count)
            keys = {(case.kind, _names(case, span)) for span in case.needles}
            if not keys & used_keys:
                used_keys |= keys
                return case
        raise ConfigError(
            f"a text of {self._length} tokens has no room for more needles that differ, "
            "expected fewer needles"
        )

    def _stretch(self, place: int, size: int) -> str:
        start = place * size % max(1, len(self._text) - size + 1)
        return self._text[start : start + size]


def _names(case: NeedleCase, span: Span) -> frozenset[str]:
    """Return the proper names of a needle's statement, its answer left out."""
    statement = case.text[slice(*span)].replace(case.answer, " ")
    return frozenset(re.findall(r"\w+", statement)) & proper_names("eval")


def _ask_facts(
    runtime: Runtime, text: str, facts: Sequence[HiddenFact], options: NeedleEvaluation
) -> list[_Outcome]:
    how = AskOptions(retriever=options.retriever, reread=options.reread)
    index = SentenceIndex(split_sentences(text))
    outcomes = []
    with library_of(runtime, [text], name="needles") as (store, _):
        for fact in facts:
            result = ask(runtime, store, fact.question, how)
            best = index.ranked(fact.question)
            outcomes.append(
                _Outcome(
                    answer_found=result.found,
                    contained=quotes_answer(best_quote(result), fact.answer),
                    retrieved=_retrieved(result, fact.evidence),
                    sentence=bool(best) and _holds(best[0][0].text, fact.answer),
                )
            )
    return outcomes


def quotes_answer(quote: str, answer: str) -> bool:
    """Say whether a quote holds the normalised answer and little else."""
    return len(quote) < LONGEST_QUOTE * len(answer) and _holds(quote, answer)


def _holds(text: str, answer: str) -> bool:
    return f" {normalize_answer(answer)} " in f" {normalize_answer(text)} "


def _retrieved(result: AnswerResult, evidence: Span) -> bool:
    groups = result.trace.groups
    return bool(groups) and any(overlaps(e.start, e.text, [evidence]) for e in groups[-1].entries)


def _metrics(outcomes: Sequence[_Outcome], *, max_needles: int) -> Metrics:
    return {
        "accuracy": mean(float(o.answer_found and o.contained) for o in outcomes),
        "accuracy_unthresholded": mean(float(o.contained) for o in outcomes),
        "retrieved": mean(float(o.retrieved) for o in outcomes),
        "n": len(outcomes),
        "needles_per_document": max_needles,
    }
