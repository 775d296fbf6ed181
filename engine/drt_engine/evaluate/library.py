"""Libraries that live as long as one evaluation of a document, and the choice of cases by source.

A document is read through the ordinary pipeline into a temporary folder, and its stored text must
be the text that was given: evidence is counted in its characters. Knows no task and no metric.
"""

from __future__ import annotations

import contextlib
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from drt_engine.data.schema import Question
from drt_engine.documents import Source
from drt_engine.errors import ConfigError
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.progress import is_silenced
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkRow, DocumentRow, Store
from drt_engine.text.sentences import Span

ALL = "all"
Item = TypeVar("Item")
Value = TypeVar("Value")


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="drt-eval-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def library_of(
    runtime: Runtime, texts: Sequence[str], *, name: str
) -> Iterator[tuple[Store, list[DocumentRow]]]:
    """Read texts into a library that is removed afterwards; yield it and its documents in order.

    ``name`` is what a message calls them. Raises ConfigError for a text that reading would change,
    DocumentError for one that cannot be read at all.
    """
    with temporary_folder() as path, open_library(runtime, path / "library") as store:
        rows = []
        for number, text in enumerate(texts):
            file = path / f"{number}.txt"
            file.write_bytes(text.encode("utf-8"))
            rows.append(ingest_source(runtime, store, Source.from_path(file))[0])
            _check_text(store, rows[-1], text, name=name)
        yield store, rows


def open_library(runtime: Runtime, folder: Path) -> Store:
    """Open or make the library of a model in ``folder``."""
    return Store.open(
        folder,
        fingerprint=runtime.fingerprint,
        layout=runtime.layout,
        vocabulary=runtime.config.vocab,
        create=True,
    )


def _check_text(store: Store, row: DocumentRow, text: str, *, name: str) -> None:
    if "".join(store.iter_text(row.id)) != text:
        raise ConfigError(
            f"the document '{name}' is not stored as it was given, so its offsets would be wrong; "
            "expected text without carriage returns and byte order marks"
        )


def chunk_rows(store: Store, row: DocumentRow) -> list[ChunkRow]:
    """Return the chunks of a document in order."""
    return store.chunk_rows(store.chunk_ids([row.id]))


def overlaps(start: int, text: str, spans: Iterable[Span]) -> bool:
    """Say whether a chunk that begins at ``start`` shares a character with one of the spans."""
    return any(start < stop and first < start + len(text) for first, stop in spans)


def select_cases(
    items: Iterable[Item],
    source_of: Callable[[Item], str],
    *,
    source: str | None,
    limit: int | None,
) -> list[Item]:
    """Return the items of a source, or of all, at most ``limit`` of each, drawn by chance.

    Raises ConfigError where nothing is left, naming the sources there are.
    """
    by_source: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        by_source[source_of(item)].append(item)
    if source is not None and source not in by_source:
        source_names = ", ".join(by_source) or "none"
        raise ConfigError(
            f"no case of source '{source}' can be asked; the sources are {source_names}"
        )
    cases = [
        item
        for name, source_items in by_source.items()
        if source in (None, name)
        for item in sample(source_items, limit)
    ]
    if not cases:
        raise ConfigError("the data holds no case for this evaluation, expected at least one")
    return cases


def sample(items: Sequence[Item], limit: int | None) -> list[Item]:
    """Return at most ``limit`` items in order, always the same ones, drawn by chance."""
    if limit is None or len(items) <= limit:
        return list(items)
    return [items[at] for at in sorted(random.Random(0).sample(range(len(items)), limit))]


def file_names(files: Sequence[Path]) -> str:
    """Return the names of data files as a report gives them."""
    return ", ".join(file.name for file in files)


def by_document(questions: Iterable[Question]) -> dict[str, list[Question]]:
    """Return the questions of each document, so that it is read once."""
    out: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        out[question.doc_id].append(question)
    return dict(out)


def grouped(
    cases: Sequence[Item],
    group_of: Callable[[Item], str],
    measure: Callable[[Sequence[Item]], Value],
) -> dict[str, Value]:
    """Return the measure of each group in order of appearance, and of ``all`` cases last."""
    groups: dict[str, list[Item]] = defaultdict(list)
    for case in cases:
        groups[group_of(case)].append(case)
    out = {name: measure(members) for name, members in groups.items()}
    out[ALL] = measure(cases)
    return out


def mean(values: Iterable[float]) -> float | None:
    """Return the mean, or None of nothing."""
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None


def progress(items: Sequence[Item], label: str) -> Iterator[Item]:
    """Yield the items; a terminal on stderr sees a bar unless progress is silenced."""
    hidden = is_silenced() or not sys.stderr.isatty()
    yield from tqdm(items, desc=label, file=sys.stderr, disable=hidden, leave=False)
