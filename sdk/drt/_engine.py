"""The one door to the engine: each function imports what it calls on first use.

Most of the engine brings torch, which takes seconds to import; listing a library must not.
Tests replace these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from drt_engine.answer.ask import AnswerResult, AskOptions
    from drt_engine.answer.session import SessionState
    from drt_engine.diagnosis import Check
    from drt_engine.documents import Format, PathExpansion, Source
    from drt_engine.documents.formats import BrokenPlugin
    from drt_engine.documents.source_map import SourcePlace
    from drt_engine.ingest.pipeline import IngestProgress
    from drt_engine.runtime import Runtime
    from drt_engine.store import DocumentRow, Finding, Store
    from drt_engine.summary.result import SummaryResult


def load_runtime(
    model: str | Path, *, device: str, threads: int | None, dtype: str = "auto"
) -> Runtime:
    """A loaded model, by name or folder."""
    from drt_engine.runtime import Runtime

    return Runtime.load(model, device=device, threads=threads, dtype=dtype)


def open_catalogue(path: Path, *, lock_timeout: float) -> Store:
    """The library at `path` as far as it can be used without a model."""
    from drt_engine.store import Store

    return Store.open(path, lock_timeout=lock_timeout)


def open_library(path: Path, runtime: Runtime, *, lock_timeout: float) -> Store:
    """The library at `path` for `runtime`'s model, made where there is none."""
    from drt_engine.store import Store

    return Store.open(
        path,
        fingerprint=runtime.fingerprint,
        layout=runtime.layout,
        vocabulary=runtime.config.vocab,
        create=True,
        lock_timeout=lock_timeout,
    )


def expand(argument: str) -> PathExpansion:
    """The documents an argument names: a file, a folder, a glob, or "-" for standard input."""
    from drt_engine.documents import expand_paths

    return expand_paths([argument])


def formats() -> tuple[tuple[Format, ...], tuple[BrokenPlugin, ...]]:
    """The formats that can be read, and the plug-ins that could not be loaded."""
    from drt_engine.documents import all_formats, plugins

    return all_formats(), plugins().broken


def ingest(
    runtime: Runtime,
    store: Store,
    source: Source,
    *,
    progress: Callable[[IngestProgress], None] | None,
    skipped: Callable[[tuple[str, ...]], None],
    described: Callable[[str, str], None],
) -> tuple[DocumentRow, bool]:
    """Reads one document; the flag says whether anything was read."""
    from drt_engine.ingest.pipeline import ingest_source

    return ingest_source(
        runtime, store, source, progress=progress, skipped=skipped, described=described
    )


def place_in_source(store: Store, document: DocumentRow, start: int, end: int) -> SourcePlace:
    """Where in a document's file a passage of its text comes from, as far as is known."""
    from drt_engine.documents.source_map import place_in_source

    return place_in_source(store, document, start, end)


def sentence_around(store: Store, document: DocumentRow, start: int, end: int) -> str:
    """The sentence or sentences that hold a passage of a document."""
    from drt_engine.answer.sentences import sentence_around

    return sentence_around(store, document, start, end)


def ask_options(**options: Any) -> AskOptions:
    """Checked options of a question."""
    from drt_engine.answer.ask import AskOptions

    return AskOptions(**options)


def ask(
    runtime: Runtime,
    store: Store,
    question: str,
    *,
    options: AskOptions,
    session: SessionState | None = None,
) -> AnswerResult:
    """Answers one question."""
    from drt_engine.answer.ask import ask

    return ask(runtime, store, question, options, session=session)


def stream(
    runtime: Runtime,
    store: Store,
    question: str,
    *,
    options: AskOptions,
    session: SessionState | None = None,
) -> Iterator[str | AnswerResult]:
    """Answers one question piece by piece; the result comes last."""
    from drt_engine.answer.ask import stream

    return stream(runtime, store, question, options, session=session)


def trace_page(trace: dict[str, Any]) -> str:
    """A trace, as its JSON, drawn as a page."""
    from drt_engine.trace.page import trace_page

    return trace_page(trace)


def summarize(
    runtime: Runtime,
    store: Store,
    documents: Sequence[str],
    *,
    length: Literal["short", "medium", "long"] | None,
    since: str | None,
    **options: Any,
) -> SummaryResult:
    """Summarises documents, by their ids, or what changed in one since an older file."""
    from drt_engine.summary.changes import summarize_changes
    from drt_engine.summary.options import SummaryOptions
    from drt_engine.summary.summarize import summarize

    if since is not None:
        chosen = SummaryOptions(length=length, **options)
        return summarize_changes(runtime, store, documents, Path(since), chosen)
    chosen = SummaryOptions(length=length or "short", **options)
    return summarize(runtime, store, documents, chosen)


def repair(runtime: Runtime, store: Store, findings: Sequence[Finding]) -> None:
    """Restores what a check found, reading damaged chunk memory again from the kept text."""
    from drt_engine.ingest.rebuild import repair

    repair(runtime, store, findings)


def rebuild(
    runtime: Runtime,
    path: Path,
    *,
    lock_timeout: float,
    progress: Callable[[IngestProgress], None] | None,
) -> list[DocumentRow]:
    """Reads all documents of a library again for another model; returns them."""
    from drt_engine.ingest.rebuild import rebuild

    return rebuild(runtime, path, lock_timeout=lock_timeout, progress=progress)


def make_library(path: Path, *, lock_timeout: float) -> Store:
    """The library at `path`, made without a model where there is none."""
    from drt_engine.store import Store

    return Store.open(path, create=True, lock_timeout=lock_timeout)


def new_session(runtime: Runtime, store: Store, name: str) -> SessionState:
    """An empty conversation, stored under `name` once it is saved."""
    from drt_engine.answer.session import SessionState

    return SessionState.new(runtime, store, name)


def restore_session(runtime: Runtime, store: Store, name: str) -> SessionState:
    """A stored conversation, as it was when it was saved."""
    from drt_engine.answer.session import SessionState

    return SessionState.restore(runtime, store, name)


def session_turns(store: Store, name: str) -> list[dict[str, Any]]:
    """What was said in a saved session; raises the engine's error where these are no turns."""
    from drt_engine.errors import SessionError
    from drt_engine.store.turns import expect_turns

    turns = store.load_session(name).transcript
    try:
        expect_turns(turns)
    except ValueError as error:
        raise SessionError(f"session {name!r} is damaged ({error}); delete it") from error
    return turns


def train(config: Path, overrides: Sequence[str]) -> Path:
    """Trains from a config file; returns the run folder."""
    from drt_engine.train.run import train

    return train(config, overrides)


def train_tokenizer(corpus: Sequence[Path], out: Path, *, vocab_size: int) -> Path:
    """Makes a byte-level BPE tokenizer; returns its file."""
    from drt_engine.train.tokenizer import train_tokenizer

    return train_tokenizer(corpus, out, vocab_size)


def evaluate(runtime: Runtime, task: str, options: dict[str, object]) -> dict[str, Any]:
    """Runs one evaluation; returns its documented JSON."""
    from drt_engine.evaluate.run import evaluate

    return evaluate(runtime, task, options)


def bench(name: str, options: dict[str, object]) -> dict[str, Any]:
    """Runs one benchmark; returns its documented JSON."""
    from drt_engine.bench.run import bench

    return bench(name, options)


def report_table(result: dict[str, Any]) -> str:
    """An evaluation's or benchmark's JSON as a table."""
    from drt_engine.evaluate.report import BenchReport, BenchRow, EvalReport

    if "task" in result:
        return EvalReport(**result).as_table()
    rows = [BenchRow(**row) for row in result["rows"]]
    return BenchReport(**(result | {"rows": rows})).as_table()


def convert(source: str | Path, out: Path, dtype: Literal["bf16", "fp32"]) -> Path:
    """Converts a model into drt's form or out of it; returns the new folder."""
    from drt_engine.model.convert import convert

    return convert(source, out, dtype=dtype)


def diagnose(library: Path, **options: Any) -> Iterator[Check]:
    """The checks of this machine, as they are made; what may crash runs in another process."""
    from drt_engine.diagnosis import diagnose

    return diagnose(library, **options)


def weights_folder() -> Path:
    """Where the models that come with the package are."""
    import drt_engine

    return Path(drt_engine.__path__[0]) / "weights"
