"""Reading documents into an open library, by this process or by workers beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from drt_engine import errors as engine

from .. import _convert, _engine
from .._errors import ConfigError, DocumentError, engine_errors, translate
from .._filters import listed
from .._paths import StrPath, listed_paths
from .._types import DocumentInfo, IngestProgress, IngestResult, Progress
from .._web.fetch import expect_address, fetch
from .library import OpenLibrary

if TYPE_CHECKING:
    from drt_engine.documents import PathExpansion, Source
    from drt_engine.ingest.identity import DocumentText
    from drt_engine.ingest.parallel import Turn, Workers
    from drt_engine.ingest.reading import SourceReading
    from drt_engine.store import DocumentRow, Store


class Ingestion:
    """Reads documents into a library; the methods are those of ``Assistant``."""

    def __init__(self, opened: OpenLibrary) -> None:
        self._opened = opened

    def document(
        self, path: StrPath, *, tags: str | Iterable[str], progress: Progress | None
    ) -> DocumentInfo:
        """Read one document, as ``Assistant.ingest``."""
        self._opened.expect_one()
        paths = _engine.expand_paths([os.fspath(path)])
        sources = list(islice(self._opened.steps(paths), 2))
        if len(sources) != 1:
            content = "several documents" if sources else "no documents"
            raise DocumentError(
                f"{os.fspath(path)} holds {content}, one was expected; "
                "use ingest_many to read a folder or a pattern."
            )
        return self._read(sources[0], checked_tags(tags), progress)[0]

    def address(
        self, url: str, *, private: bool, tags: str | Iterable[str], progress: Progress | None
    ) -> DocumentInfo:
        """Fetch and read one address, as ``Assistant.ingest_address``."""
        self._opened.expect_one()
        checked = checked_tags(tags)
        expect_address(url)
        fetched = fetch(url, private=private)
        source = _engine.Source.from_pieces([fetched.data], fetched.url)
        return self._read(source, checked, progress)[0]

    def each(
        self,
        paths: StrPath | Iterable[StrPath],
        *,
        tags: str | Iterable[str],
        workers: int | None,
        progress: Progress | None,
    ) -> Iterator[IngestResult]:
        """Read files, folders and patterns, as ``Assistant.ingest_each``."""
        self._opened.expect_one()
        checked = checked_tags(tags)
        with self._workers(workers) as pool:
            for path in listed_paths(paths):
                name = os.fspath(path)
                expansion = _engine.expand_paths([name])
                yield from self._read_all(expansion, pool, name, checked, progress)

    @contextmanager
    def _workers(self, count: int | None) -> Iterator[Workers | None]:
        """Yield so many processes that read ahead, or None where this one reads."""
        if count is None:
            yield None
            return
        if count < 1:
            raise ConfigError(f"workers is {count}, expected 1 or more.")
        with self._opened.working() as (runtime, _):
            pool = _engine.Workers(runtime, count, threads=self._opened.threads or 1)
        with pool:
            yield pool

    def _turns(self, expansion: PathExpansion, pool: Workers | None) -> Iterator[Turn]:
        """Yield what a path names, each source with its reading by a worker, if there are any."""
        if pool is None:
            yield from ((source, None) for source in self._opened.steps(expansion))
            return
        with self._opened.working() as (_, opened):
            store = cast("Store", opened)  # one library, as ``expect_one`` said
            readings = pool.readings(store, expansion)
        with closing(readings):
            yield from self._opened.steps(readings)

    def _read_all(
        self,
        expansion: PathExpansion,
        pool: Workers | None,
        path: str,
        tags: Sequence[str],
        progress: Progress | None,
    ) -> Iterator[IngestResult]:
        """Read what a path names; a path that names nothing is a failure, too."""
        nothing = True
        for source, reading in self._turns(expansion, pool):
            nothing = False
            try:
                document, seconds, tokens = self._read(source, tags, progress, reading=reading)
            except DocumentError as error:
                name = path if isinstance(source, engine.DocumentError) else source.name
                yield IngestResult(name, None, error)
            else:
                # a copy's document stays at the file that was read first
                place = _place(source) or document.source
                yield IngestResult(place, document, None, seconds, tokens)
        if nothing:
            empty = DocumentError(f"{path} holds no file that can be read as a document.")
            yield IngestResult(path, None, empty)
        if expansion.skipped or expansion.notes.skipped:
            yield IngestResult(
                path, None, None, skipped=expansion.skipped, notes=expansion.notes.skipped
            )

    def _read(
        self,
        source: Source | engine.DocumentError,
        tags: Sequence[str],
        progress: Progress | None,
        *,
        reading: SourceReading | None = None,
    ) -> tuple[DocumentInfo, float, int]:
        """Read one document; return it, its seconds without loading the model, its new tokens."""
        if isinstance(source, engine.DocumentError):
            raise translate(source)
        self._opened.expect_one()
        text = None
        if not self._opened.loaded and reading is None:
            unchanged = self._unchanged(source, tags)
            if unchanged is not None:
                return unchanged
            text = self._identified(source, progress)
        with self._opened.working() as (runtime, opened):
            store = cast("Store", opened)
            began = time.perf_counter()
            skipped: list[str] = []
            tokens = 0
            begun: dict[str, Any] = {"text": text} if reading is None else {"reading": reading}

            def report(step: IngestProgress) -> None:
                nonlocal tokens
                tokens = step.tokens
                if progress is not None:
                    progress(step)

            try:
                row, new = _engine.ingest_source(
                    runtime,
                    store,
                    source,
                    progress=report,
                    skipped=skipped.extend,
                    **begun,
                )
            finally:
                source.close()
            row = _tagged(store, row, tags)
            seconds = time.perf_counter() - began
            document = _convert.document(row, new=new, skipped=tuple(skipped))
            return document, seconds, tokens

    def _identified(self, source: Source, progress: Progress | None) -> DocumentText:
        """Return a document's text, which is parsed before the model is loaded.

        So that a wrong document needs no model, and that the pages of a long one are told at once.
        """
        try:
            with self._opened.locked():
                tokenizer = _engine.load_tokenizer(self._opened.model)
                return _engine.identify(source, tokenizer, progress)
        except BaseException:
            source.close()
            raise

    def _unchanged(
        self, source: Source, tags: Sequence[str]
    ) -> tuple[DocumentInfo, float, int] | None:
        """Return what ``_read`` does for an unchanged file, for which no model is loaded."""
        began = time.perf_counter()
        try:
            if not self._opened.library.exists():
                with engine_errors():
                    _engine.look_up(None, source)
                return None
            with self._opened.cataloguing() as (_, opened):
                store = cast("Store", opened)
                row = _engine.look_up(store, source)
                if row is None:
                    return None
                row = _tagged(store, row, tags)
        except DocumentError:
            source.close()
            raise
        source.close()
        return _convert.document(row), time.perf_counter() - began, 0


def _place(source: Source | engine.DocumentError) -> str | None:
    """Return where a file is; None for what is no file."""
    if isinstance(source, engine.DocumentError) or source.path is None:
        return None
    return source.location


def _tagged(store: Store, row: DocumentRow, tags: Sequence[str]) -> DocumentRow:
    """Return a document once it has the tags."""
    if set(tags) <= set(row.tags):
        return row
    return row._replace(tags=store.change_tags(row.id, add=tags))


def checked_tags(tags: str | Iterable[str]) -> tuple[str, ...]:
    """Return checked tags, before anything is read."""
    with engine_errors():
        return _engine.checked_tags(listed(tags))
