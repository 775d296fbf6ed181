"""``drt eval files``: natural questions about files in their own formats, judged by patterns.

Each file is read through the ordinary readers into a library of its own and asked its questions;
or all of them are read into one library, where a question has to find its file, too; or a library
that holds them among others is asked.
An answer is right where the question's pattern matches what is shown; a pattern of None says that
the file does not hold an answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Literal, cast

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.support import UNSUPPORTED
from drt_engine.documents import Source, expand_paths
from drt_engine.errors import ConfigError, DocumentError
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.temporary import kept_folder, open_library
from drt_engine.results import ORIGINS, SOURCES, AnswerState, Origin
from drt_engine.results import Source as AnswerSource
from drt_engine.retrieval.candidates import RetrieverName
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow, Store
from drt_engine.text.lexical import LexicalIndex
from drt_engine.text.sentences import sentence_spans
from drt_lab.data.schema import FileQuestion, read_file_questions
from drt_lab.evaluate.library import ALL, mean, progress, sample
from drt_lab.evaluate.metrics.auroc import auroc
from drt_lab.evaluate.metrics.qa_f1 import AnswerScore
from drt_lab.evaluate.metrics.reliability import reliability
from drt_lab.evaluate.qa import Judged, best_quote, check_quoting, judged_forms
from drt_lab.evaluate.report import EvalReport, Groups, Metrics

FILES = "files"  # their source
NEARBY = 300  # characters on each side of the first citation that a reader sees at a glance
PARAGRAPH = "bm25 paragraph"
_ENDLESS_PARAGRAPH = 1200  # characters; longer ones are cut, as in a table without blank lines


@dataclass(frozen=True)
class FilesOptions:
    """A file of questions, and the folder that holds the files they are about.

    ``joint`` asks all of these files as one library, and not each by itself. ``among`` asks a
    library that holds them and others, without reading them: all of it where ``joint`` is set, else
    each file by itself. A quote of another document is wrong then.
    At most ``limit`` questions of each type are asked; ``lexical`` also asks with BM25 as the only
    retriever. ``keep`` is a folder for the libraries of the files, which are not read again.
    ``without`` names sources of answers that are switched off, ``only`` the one that is not.
    ``mode`` is "quote", or "free" for text that the decoder writes.
    """

    questions: Path
    folder: Path
    limit: int | None = None
    file: str | None = None
    retriever: RetrieverName = "hybrid"
    reread: bool = True
    lexical: bool = False
    joint: bool = False
    among: Path | None = None
    keep: Path | None = None
    without: tuple[str, ...] = ()
    only: str | None = None
    mode: Literal["quote", "free"] = "quote"

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit is {self.limit}, expected 1 or more")
        if not self.folder.is_dir():
            raise ConfigError(f"{self.folder} is not a folder, expected the files' folder")
        if self.without and self.only is not None:
            raise ConfigError("without and only cannot be combined; name one of them")
        AskOptions(sources=self.sources)  # checks the names

    @property
    def how(self) -> AskOptions:
        """How to ask."""
        return AskOptions(
            mode=self.mode, retriever=self.retriever, reread=self.reread, sources=self.sources
        )

    @property
    def sources(self) -> frozenset[AnswerSource]:
        """The sources that may propose an answer."""
        if self.only is not None:
            return frozenset({cast("AnswerSource", self.only)})
        unknown = set(self.without) - set(SOURCES)
        return frozenset(SOURCES) - set(self.without) | cast("set[AnswerSource]", unknown)


@dataclass(frozen=True)
class FileAnswer:
    """One judged answer: whether the quote and the text around it match, and how sure it was.

    ``right_shown`` judges the sentence and the passage of the first citation, ``right_nearby`` the
    ``NEARBY`` characters on each side of it. ``right_shown_either`` and ``right_nearby_either``
    count every place that is shown: a second likely or close one, which ``shows_second`` tells, and
    further quotes in their sentences. ``supported`` is the share of written sentences that a source
    supports, ``None`` for quotes.
    """

    question: FileQuestion
    format: str
    quote: str
    right_quote: bool
    right_shown: bool
    right_nearby: bool
    state: AnswerState
    confidence: float
    quote_probability: float | None  # ``None`` for what was looked up
    right_shown_either: bool
    right_nearby_either: bool
    shows_second: bool = False
    origin: Origin = "reader"
    supported: float | None = None

    @property
    def answer_found(self) -> bool:
        """Whether the quote is shown as an answer."""
        return self.state == "answer"


def evaluate_files(runtime: Runtime, options: FilesOptions) -> EvalReport:
    """Ask the questions of every file; raises ConfigError for a file that cannot be read."""
    started = time.monotonic()
    check_quoting(runtime, reread=False)
    questions = _sampled(read_file_questions(options.questions), options)
    if options.among is not None:
        return _report(runtime, options, _answers_among(runtime, options, questions), started)
    systems: dict[str, list[FileAnswer]] = {runtime.name: [], PARAGRAPH: []}
    if options.lexical:
        systems["lexical"] = []
    by_file: dict[str, list[FileQuestion]] = {}
    for question in questions:
        by_file.setdefault(question.file, []).append(question)
    libraries = [list(by_file)] if options.joint else [[name] for name in by_file]
    for names in libraries if options.joint else progress(libraries, "files"):
        paths = [options.folder / name for name in names]
        with library_of_files(runtime, paths, keep=options.keep) as (store, documents):
            paragraphs = _ParagraphIndex(store, documents)
            asked = [question for name in names for question in by_file[name]]
            for question in progress(asked, "questions") if options.joint else asked:
                suffix = Path(question.file).suffix.lstrip(".").lower()
                how = options.how
                systems[runtime.name].append(_answer(runtime, store, question, suffix, how))
                systems[PARAGRAPH].append(paragraphs.answer(question, suffix))
                if options.lexical:
                    how = replace(how, retriever="lexical")
                    systems["lexical"].append(_answer(runtime, store, question, suffix, how))
    answers = systems.pop(runtime.name)
    return _report(runtime, options, answers, started, systems)


def _report(
    runtime: Runtime,
    options: FilesOptions,
    answers: Sequence[FileAnswer],
    started: float,
    others: Mapping[str, Sequence[FileAnswer]] = MappingProxyType({}),
) -> EvalReport:
    """Return the report of answers, with those of other systems as baselines."""
    baselines = {
        name: _groups(system_answers, _shown_right) for name, system_answers in others.items()
    }
    return EvalReport(
        task="files",
        data=options.questions.name,
        n=len(answers),
        metrics={
            **_groups(answers, _metrics),
            **_by_state(answers),
            **_by_origin(answers),
            **_reliability(answers),
        },
        baselines=baselines,
        seconds=time.monotonic() - started,
        model=runtime.name,
        sources=[name for name in SOURCES if name in options.sources],
    )


def _answers_among(
    runtime: Runtime, options: FilesOptions, questions: Sequence[FileQuestion]
) -> list[FileAnswer]:
    """Ask a library that holds the files and others; ConfigError for a file that is not there."""
    assert options.among is not None
    answers: list[FileAnswer] = []
    how = options.how
    with Store.open(options.among) as store:
        for question, own in with_documents(store, questions):
            asked = how if options.joint else replace(how, documents=own)
            suffix = Path(question.file).suffix.lstrip(".").lower()
            answers.append(_answer(runtime, store, question, suffix, asked, own=own))
    return answers


def with_documents(
    store: Store, questions: Sequence[FileQuestion]
) -> Iterator[tuple[FileQuestion, tuple[str, ...]]]:
    """Yield questions with the documents of their files; ConfigError for a file without one."""
    by_file: dict[str, list[str]] = {}
    for row in store.documents():
        by_file.setdefault(_file_name(row), []).append(row.id)
    for question in progress(questions, "questions"):
        if question.file not in by_file:
            raise ConfigError(f"{store.path} holds no document of {question.file}")
        yield question, tuple(by_file[question.file])


def _file_name(row: DocumentRow) -> str:
    """Return the name of a document's file, or of the archive that it is in."""
    return PurePath(row.source.partition("!/")[0]).name


@contextmanager
def library_of_files(
    runtime: Runtime, paths: Sequence[Path], *, keep: Path | None
) -> Iterator[tuple[Store, list[DocumentRow]]]:
    """Yield a library of files, kept in the folder ``keep``; ConfigError for an unreadable one."""
    with (
        kept_folder(keep, runtime, [c for path in paths for c in _content(path)]) as folder,
        open_library(runtime, folder / "library") as store,
    ):
        yield store, [row for path in paths for row in _read(runtime, store, path)]


def judged_question(
    runtime: Runtime,
    store: Store,
    question: FileQuestion,
    how: AskOptions,
    *,
    own: Sequence[str] | None = None,
) -> Judged:
    """Ask a question of a library, and judge every quote that might be shown by its pattern.

    A quote of a document that is not one of its ``own`` is wrong.
    """
    result = ask(runtime, store, question.question, how)
    right = _matches(question.pattern, best_quote(result))
    return Judged(
        FILES,
        "unanswerable" if question.pattern is None else "extractive",
        AnswerScore(float(right), float(right)),
        result.found,
        result.confidence,
        signals=result.signals,
        document=question.file,
        type=question.type,
        candidates=judged_forms(result, lambda text: _matches(question.pattern, text), own=own),
    )


def _sampled(questions: Iterable[FileQuestion], options: FilesOptions) -> list[FileQuestion]:
    by_type: dict[str, list[FileQuestion]] = {}
    for question in questions:
        if options.file is None or question.file == options.file:
            by_type.setdefault(question.type, []).append(question)
    if not by_type:
        raise ConfigError(
            f"{options.questions} holds no question"
            + (f" about {options.file!r}" if options.file else "")
            + ", expected at least one"
        )
    return [
        question
        for type_questions in by_type.values()
        for question in sample(type_questions, options.limit)
    ]


def _content(path: Path) -> list[bytes]:
    """Return what tells a file from others; nothing where it cannot be read, which reading says."""
    try:
        return [path.name.encode(), path.read_bytes()]
    except OSError:
        return [path.name.encode()]


def _read(runtime: Runtime, store: Store, path: Path) -> list[DocumentRow]:
    """Read a file, or the members of an archive, into a library."""
    rows: list[DocumentRow] = []
    for source in expand_paths([str(path)]):
        if not isinstance(source, Source):
            raise ConfigError(f"{path} cannot be asked: {source}")
        try:
            rows.append(ingest_source(runtime, store, source)[0])
        except DocumentError as error:
            raise ConfigError(f"{path} cannot be asked: {error}") from error
    return rows


def _answer(
    runtime: Runtime,
    store: Store,
    question: FileQuestion,
    suffix: str,
    how: AskOptions,
    *,
    own: Sequence[str] | None = None,
) -> FileAnswer:
    """Ask a question; a citation of a document that is not one of its ``own`` is wrong."""
    result = ask(runtime, store, question.question, how)
    quote = result.text  # a file's metadata are no quote
    if result.citations:
        quote = quote or result.citations[0].quote
    first = result.citations[0].document if result.citations else None
    pattern = question.pattern
    passages = [result.passage, result.second_passage]
    right_shown, right_nearby = [], []  # of each place
    for number, citation in enumerate(result.citations):
        words = citation.quote if number else quote
        passage = passages[number] if number < len(passages) else ""
        is_own = own is None or citation.document in own
        right_shown.append(is_own and _matches(pattern, f"{words}\n{citation.sentence}\n{passage}"))
        start, end = max(0, citation.start - NEARBY), citation.end + NEARBY
        text = store.text(citation.document, start, end)
        right_nearby.append(is_own and _matches(pattern, text))
    return FileAnswer(
        question,
        suffix,
        quote,
        right_quote=_matches(pattern, quote) and (own is None or first in own),
        right_shown=any(right_shown[:1]),
        right_nearby=any(right_nearby[:1]),
        state=result.state,
        confidence=result.confidence,
        quote_probability=result.quote_probability,
        right_shown_either=any(right_shown),
        right_nearby_either=any(right_nearby),
        shows_second=bool(result.second_passage),
        origin=result.origin,
        supported=_supported(result.text) if how.mode == "free" and result.text else None,
    )


def _supported(text: str) -> float:
    """Return the share of written sentences that are not marked as unsupported."""
    return 1 - text.count(UNSUPPORTED) / max(1, len(sentence_spans(text.replace(UNSUPPORTED, ""))))


def _matches(pattern: re.Pattern[str] | None, text: str) -> bool:
    """Return whether a right answer is in the text; in none where there is no right answer."""
    return pattern is not None and pattern.search(" ".join(text.split())) is not None


class _ParagraphIndex:
    """BM25 over the paragraphs of some documents, the baseline of what is shown."""

    def __init__(self, store: Store, documents: Sequence[DocumentRow]) -> None:
        self._paragraphs = [
            piece[at : at + _ENDLESS_PARAGRAPH]
            for row in documents
            for piece in re.split(r"\n\s*\n", "".join(store.iter_text(row.id)))
            for at in range(0, len(piece), _ENDLESS_PARAGRAPH)
        ]
        self._index = LexicalIndex(self._paragraphs)

    def answer(self, question: FileQuestion, suffix: str) -> FileAnswer:
        """Answer with the best paragraph."""
        ranking = self._index.search(question.question, 1)
        best = self._paragraphs[ranking[0][0]] if ranking else ""
        right = _matches(question.pattern, best)
        return FileAnswer(
            question,
            suffix,
            best,
            right_quote=right,
            right_shown=right,
            right_nearby=right,
            state="answer" if best else "none",
            confidence=1.0,
            quote_probability=1.0,
            right_shown_either=right,
            right_nearby_either=right,
        )


def _groups(
    answers: Sequence[FileAnswer], measure: Callable[[Sequence[FileAnswer]], Metrics]
) -> Groups:
    """Measure by type of question, by format, and over all."""
    groups: dict[str, list[FileAnswer]] = {}
    for answer in sorted(answers, key=lambda a: (a.question.type == "none", a.question.type)):
        groups.setdefault(answer.question.type, []).append(answer)
    for answer in sorted(answers, key=lambda a: a.format):
        groups.setdefault(f".{answer.format}", []).append(answer)
    groups[ALL] = list(answers)
    return {name: measure(group) for name, group in groups.items()}


def _metrics(answers: Sequence[FileAnswer]) -> Metrics:
    """Shares of the answerable and unanswerable questions, and the precision of what is shown."""
    answerable = [a for a in answers if a.question.pattern is not None]
    unanswerable = [a for a in answers if a.question.pattern is None]
    shown = [a for a in answers if a.answer_found]
    judged = [a for a in answers if a.quote_probability is not None]
    return {
        "right_quote": mean(float(a.right_quote and a.answer_found) for a in answerable),
        "right_any_threshold": mean(float(a.right_quote) for a in answerable),
        "right_shown": mean(float(a.right_shown) for a in answerable),
        "right_nearby": mean(float(a.right_nearby) for a in answerable),
        "right_shown_either": mean(float(a.right_shown_either) for a in answerable),
        "right_nearby_either": mean(float(a.right_nearby_either) for a in answerable),
        "shows_second": mean(float(a.shows_second) for a in answers),
        "wrongly_not_found": mean(float(not a.answer_found) for a in answerable),
        "said_absent": mean(float(a.state == "none") for a in answerable),
        "wrongly_found": mean(float(a.answer_found) for a in unanswerable),
        "wrongly_likely": mean(float(a.state == "likely") for a in unanswerable),
        "precision": mean(float(a.right_quote) for a in shown),
        **_written(shown),
        "found_auroc": auroc(
            [a.confidence for a in answers], [a.question.pattern is not None for a in answers]
        ),
        "right_auroc": auroc(
            [a.quote_probability for a in judged if a.quote_probability is not None],
            [a.right_quote for a in judged],
        ),
        "n_answerable": len(answerable),
        "n_unanswerable": len(unanswerable),
    }


def _written(shown: Sequence[FileAnswer]) -> Metrics:
    """Return how many written sentences have a source; nothing for quotes."""
    shares = [answer.supported for answer in shown if answer.supported is not None]
    return {"supported": mean(shares)} if shares else {}


def _shown_right(answers: Sequence[FileAnswer]) -> Metrics:
    answerable = [a for a in answers if a.question.pattern is not None]
    return {
        "right_any_threshold": mean(float(a.right_quote) for a in answerable),
        "right_shown": mean(float(a.right_shown) for a in answerable),
        "right_nearby": mean(float(a.right_nearby) for a in answerable),
    }


def _by_state(answers: Sequence[FileAnswer]) -> Groups:
    """How often each state was given, and how often what was shown with it held the answer."""
    groups: dict[str, Metrics] = {}
    for state in ("answer", "likely", "none"):
        members = [a for a in answers if a.state == state]
        groups[f"state {state}"] = {
            "share": len(members) / len(answers),
            "quote_holds": mean(float(a.right_quote) for a in members),
            "passage_holds": mean(float(a.right_shown) for a in members),
            "answerable": mean(float(a.question.pattern is not None) for a in members),
            "cases": len(members),
        }
    return groups


def _reliability(answers: Sequence[FileAnswer]) -> Groups:
    """How often a quote of a probability, and of a confidence, was right, in ten bins each."""
    scores: dict[str, list[tuple[float | None, bool]]] = {
        "probability": [(a.quote_probability, a.right_quote) for a in answers],
        "confidence": [(a.confidence, a.right_quote) for a in answers],
    }
    groups: dict[str, Metrics] = {}
    for name, pairs in scores.items():
        known = [(value, right) for value, right in pairs if value is not None]
        bins = reliability([value for value, _ in known], [right for _, right in known])
        groups.update({f"{name} {b.name}": b.row for b in bins})
    return groups


def _by_origin(answers: Sequence[FileAnswer]) -> Groups:
    """How often each source gave the answer that was shown, and how often that was right."""
    shown = [a for a in answers if a.answer_found]
    return {
        f"origin {origin}": {
            "share": len(members) / len(answers),
            "precision": mean(float(a.right_quote) for a in members),
            "cases": len(members),
        }
        for origin in ORIGINS
        if (members := [a for a in shown if a.origin == origin])
    }
