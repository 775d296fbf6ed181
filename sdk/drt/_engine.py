"""The one way from the SDK into the engine: what it calls, imported on first use.

Most of the engine imports torch, which takes seconds; listing a library must not. Names that need
no adapting are looked up in ``_FORWARDED``; the functions below choose or build something.
Tests replace both.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from drt_engine.answer.ask import ask as ask
    from drt_engine.answer.ask import stream as stream
    from drt_engine.answer.follow_up import in_context as in_context
    from drt_engine.answer.hint import requested_summary as requested_summary
    from drt_engine.answer.options import AskOptions as AskOptions
    from drt_engine.answer.places import ask_all as ask_all
    from drt_engine.answer.preview import watch_reading as watch_reading
    from drt_engine.answer.sentences import sentence_around as sentence_around
    from drt_engine.answer.session import SessionState as SessionState
    from drt_engine.answer.support import supported_by as supported_by
    from drt_engine.blocks.lookup import page_label as page_label
    from drt_engine.cluster.ingest import ingest_shards as ingest_shards
    from drt_engine.cluster.ingest import model_setting as model_setting
    from drt_engine.cluster.shard_reader import ModelSettings as ModelSettings
    from drt_engine.cluster.sharded_reading import ReadingOptions as ReadingOptions
    from drt_engine.cluster.shards import ShardedLibrary as ShardedLibrary
    from drt_engine.diagnosis import diagnose as diagnose
    from drt_engine.documents import Format as Format
    from drt_engine.documents import Source as Source
    from drt_engine.documents import expand_paths as expand_paths
    from drt_engine.documents import holds_library as holds_library
    from drt_engine.documents.formats import BrokenPlugin
    from drt_engine.documents.sandbox.picture import page_picture as page_picture
    from drt_engine.documents.source_map import place_in_source as place_in_source
    from drt_engine.files import descriptor_limit as descriptor_limit
    from drt_engine.files import lock as lock
    from drt_engine.files import unlock as unlock
    from drt_engine.generate.passage_memory import decoder_parameters as decoder_parameters
    from drt_engine.ingest.identity import has_changed as has_changed
    from drt_engine.ingest.identity import identify as identify
    from drt_engine.ingest.identity import is_gone as is_gone
    from drt_engine.ingest.identity import look_up as look_up
    from drt_engine.ingest.identity import original_file as original_file
    from drt_engine.ingest.identity import other_files as other_files
    from drt_engine.ingest.parallel import Workers as Workers
    from drt_engine.ingest.pipeline import ingest_source as ingest_source
    from drt_engine.ingest.rebuild import read_salvaged as read_salvaged
    from drt_engine.ingest.rebuild import rebuild as rebuild
    from drt_engine.ingest.rebuild import repair as repair
    from drt_engine.model.convert import convert as convert
    from drt_engine.model.folder import load_tokenizer as load_tokenizer
    from drt_engine.preloaded import model_path as model_path
    from drt_engine.preloaded import preload as preload
    from drt_engine.preloaded import was_missed as was_missed
    from drt_engine.progress import silenced as silenced
    from drt_engine.retrieval.filters import Filters as Filters
    from drt_engine.retrieval.filters import resolve_scope as resolve_scope
    from drt_engine.retrieval.index import IndexOptions as IndexOptions
    from drt_engine.retrieval.index import make_index as make_index
    from drt_engine.runtime import Runtime
    from drt_engine.search.recall import index_recall as index_recall
    from drt_engine.search.search import SearchRequest as SearchRequest
    from drt_engine.search.search import search as search
    from drt_engine.store import Store
    from drt_engine.store.federation import FederatedStore
    from drt_engine.store.federation import is_list as is_list
    from drt_engine.store.federation import library_folders as library_folders
    from drt_engine.store.federation import write_list as write_list
    from drt_engine.store.filesystem.library_folder import expect_outside as expect_outside
    from drt_engine.store.filesystem.library_folder import folder_bytes as folder_bytes
    from drt_engine.store.salvage import free_name as free_name
    from drt_engine.store.salvage import salvage as salvage
    from drt_engine.store.tags import checked_tags as checked_tags
    from drt_engine.store.transfer.backup import copy_library as copy_library
    from drt_engine.store.view import LibraryView
    from drt_engine.summary.result import SummaryResult
    from drt_engine.text.sentences import sentence_spans as sentence_spans
    from drt_engine.threads import choose_threads as choose_threads
    from drt_engine.threads import set_threads as set_threads
    from drt_engine.threads import use_threads as use_threads
    from drt_engine.trace.page import trace_page as trace_page
    from drt_engine.trace.text import trace_text as trace_text
    from drt_lab.bench.run import bench as bench
    from drt_lab.evaluate.run import evaluate as evaluate
    from drt_lab.stream_trace import stream_page as stream_page
    from drt_lab.stream_trace import stream_text as stream_text
    from drt_lab.stream_trace import trace_stream as trace_stream
    from drt_lab.study.run import study as study
    from drt_lab.train.run import train as train
    from drt_lab.train.tokenizer import train_tokenizer as train_tokenizer

_FORWARDED = {
    "AskOptions": "answer.options",
    "Format": "documents",
    "Filters": "retrieval.filters",
    "IndexOptions": "retrieval.index",
    "ModelSettings": "cluster.shard_reader",
    "ReadingOptions": "cluster.sharded_reading",
    "SearchRequest": "search.search",
    "Source": "documents",
    "SessionState": "answer.session",
    "ShardedLibrary": "cluster.shards",
    "Workers": "ingest.parallel",
    "ask": "answer.ask",
    "ask_all": "answer.places",
    "checked_tags": "store.tags",
    "convert": "model.convert",
    "copy_library": "store.transfer.backup",
    "descriptor_limit": "files",
    "lock": "files",
    "unlock": "files",
    "diagnose": "diagnosis",
    "expect_outside": "store.filesystem.library_folder",
    "expand_paths": "documents",
    "holds_library": "documents",
    "in_context": "answer.follow_up",
    "index_recall": "search.recall",
    "ingest_source": "ingest.pipeline",
    "has_changed": "ingest.identity",
    "is_gone": "ingest.identity",
    "identify": "ingest.identity",
    "load_tokenizer": "model.folder",
    "look_up": "ingest.identity",
    "other_files": "ingest.identity",
    "ingest_shards": "cluster.ingest",
    "is_list": "store.federation",
    "library_folders": "store.federation",
    "make_index": "retrieval.index",
    "model_setting": "cluster.ingest",
    "model_path": "preloaded",
    "original_file": "ingest.identity",
    "page_label": "blocks.lookup",
    "page_picture": "documents.sandbox.picture",
    "place_in_source": "documents.source_map",
    "folder_bytes": "store.filesystem.library_folder",
    "free_name": "store.salvage",
    "read_salvaged": "ingest.rebuild",
    "decoder_parameters": "generate.passage_memory",
    "preload": "preloaded",
    "rebuild": "ingest.rebuild",
    "repair": "ingest.rebuild",
    "requested_summary": "answer.hint",
    "salvage": "store.salvage",
    "search": "search.search",
    "resolve_scope": "retrieval.filters",
    "sentence_around": "answer.sentences",
    "silenced": "progress",
    "choose_threads": "threads",
    "set_threads": "threads",
    "sentence_spans": "text.sentences",
    "stream": "answer.ask",
    "supported_by": "answer.support",
    "trace_page": "trace.page",
    "trace_text": "trace.text",
    "use_threads": "threads",
    "was_missed": "preloaded",
    "watch_reading": "answer.preview",
    "write_list": "store.federation",
}
# What train, eval, bench, study and ``trace --stream`` call; nothing else imports the laboratory.
_LABORATORY = {
    "bench": "bench.run",
    "evaluate": "evaluate.run",
    "stream_page": "stream_trace",
    "stream_text": "stream_trace",
    "study": "study.run",
    "trace_stream": "stream_trace",
    "train": "train.run",
    "train_tokenizer": "train.tokenizer",
}


def __getattr__(name: str) -> Any:
    """Import a forwarded name from its module of the engine or the laboratory."""
    for package, modules in (("drt_engine", _FORWARDED), ("drt_lab", _LABORATORY)):
        if name in modules:
            return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_runtime(
    model: str | Path,
    *,
    device: str,
    threads: int | None,
    dtype: str = "auto",
    task: str | None = None,
) -> Runtime:
    """Return a loaded model, by name or folder, as the evaluation ``task`` needs it."""
    from drt_engine.preloaded import take
    from drt_engine.runtime import Runtime
    from drt_engine.threads import set_threads

    if task is None:
        if (preloaded := take(model, device=device, dtype=dtype)) is not None:
            set_threads(threads)
            return preloaded
        return Runtime.load(model, device=device, threads=threads, dtype=dtype)
    from drt_lab.evaluate.run import load_for

    return load_for(task, model, device=device, threads=threads, dtype=dtype)  # type: ignore[return-value]


def open_catalogue(path: Path, *, lock_timeout: float) -> Store:
    """Open the library at ``path`` as far as it can be used without a model."""
    from drt_engine.store import Store

    return Store.open(path, lock_timeout=lock_timeout)


def open_library(path: Path, runtime: Runtime, *, lock_timeout: float) -> Store:
    """Open the library at ``path`` for ``runtime``'s model, or make it there."""
    from drt_engine.store import Store

    return Store.open(
        path,
        fingerprint=runtime.fingerprint,
        layout=runtime.layout,
        vocabulary=runtime.config.vocab,
        create=True,
        lock_timeout=lock_timeout,
    )


def open_federation(
    library: Path,
    paths: Sequence[Path],
    runtime: Runtime | None,
    *,
    lock_timeout: float,
    require_all: bool,
) -> FederatedStore:
    """Open several libraries as one, which ``library`` names, for a model where there is one."""
    from drt_engine.store import Store
    from drt_engine.store.federation import FederatedStore, library_folders

    bound: dict[str, Any] = {}
    if runtime is not None:
        bound = {"fingerprint": runtime.fingerprint, "layout": runtime.layout}
        bound["vocabulary"] = runtime.config.vocab

    def open_one(path: Path) -> Store:
        return Store.open(path, lock_timeout=lock_timeout, **bound)

    folders = library_folders(paths)
    return FederatedStore.open(library, folders, open_one, require_all=require_all)


def open_cluster(
    library: Path,
    paths: Sequence[Path],
    runtime: Runtime,
    ray: str,
    *,
    deadline: float | None,
    lock_timeout: float,
    require_all: bool,
) -> FederatedStore:
    """Open libraries, or one, for a model, with an actor of the Ray at an address beside each."""
    from drt_engine.cluster.connection import connect
    from drt_engine.cluster.messages import ShardSettings
    from drt_engine.cluster.shard_actors import DEADLINE, MOST_ACTORS, ShardActors
    from drt_engine.cluster.store import ClusterStore
    from drt_engine.store import Store
    from drt_engine.store.federation import library_folders

    folders = library_folders(paths)
    vocabulary = runtime.config.vocab
    bound = {"fingerprint": runtime.fingerprint, "layout": runtime.layout, "vocabulary": vocabulary}

    def open_one(path: Path) -> Store:
        return Store.open(path, lock_timeout=lock_timeout, **bound)  # type: ignore[arg-type]

    settings = ShardSettings(
        "", runtime.fingerprint, runtime.layout, vocabulary, lock_timeout=lock_timeout
    )
    connection = connect(ray, cpus=MOST_ACTORS * len(folders))
    actors = ShardActors(connection, settings, deadline=DEADLINE if deadline is None else deadline)
    return ClusterStore.connect(library, folders, open_one, actors, require_all=require_all)


def make_library(path: Path, *, lock_timeout: float) -> Store:
    """Open the library at ``path`` without a model, or make it there."""
    from drt_engine.store import Store

    return Store.open(path, create=True, lock_timeout=lock_timeout)


def formats() -> tuple[tuple[Format, ...], tuple[BrokenPlugin, ...]]:
    """Return the formats that can be read, and the plug-ins that could not be loaded."""
    from drt_engine.documents import all_formats, plugins

    return all_formats(), plugins().broken


def summarize(
    runtime: Runtime,
    store: LibraryView,
    documents: Sequence[str],
    *,
    length: Literal["short", "medium", "long"] | None,
    since: str | None,
    **options: Any,
) -> SummaryResult:
    """Summarise documents, by their ids, or what changed in one since an older file."""
    from drt_engine.summary.changes import summarize_changes
    from drt_engine.summary.options import SummaryOptions
    from drt_engine.summary.summarize import summarize

    if since is not None:
        summary_options = SummaryOptions(length=length, **options)
        return summarize_changes(runtime, store, documents, Path(since), summary_options)
    summary_options = SummaryOptions(length=length or "short", **options)
    return summarize(runtime, store, documents, summary_options)


def session_turns(store: LibraryView, name: str) -> list[dict[str, Any]]:
    """Return the turns of a saved session; raises the engine's error where they are damaged."""
    from drt_engine.errors import SessionError
    from drt_engine.store.turns import expect_turns

    turns = store.load_session(name).transcript
    try:
        expect_turns(turns)
    except ValueError as error:
        raise SessionError(f"session {name!r} is damaged ({error}); delete it") from error
    return turns


def report_table(result: dict[str, Any]) -> str:
    """Return an evaluation's or benchmark's JSON as a table."""
    from drt_lab.evaluate.report import BenchReport, BenchRow, EvalReport

    if "task" in result:
        return EvalReport(**result).as_table()
    rows = [BenchRow(**row) for row in result["rows"]]
    return BenchReport(**(result | {"rows": rows})).as_table()


def weights_folder() -> Path:
    """Return the folder of the models that come with the package."""
    import drt_engine

    return Path(drt_engine.__path__[0]) / "weights"
