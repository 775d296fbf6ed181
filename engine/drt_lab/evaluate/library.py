"""The choice of cases by source, groups of them, and where evidence is. Knows no task or metric."""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from drt_engine.errors import ConfigError
from drt_engine.progress import is_silenced
from drt_engine.store import ChunkRow, DocumentRow, Store
from drt_engine.text.sentences import Span
from drt_lab.data.schema import Question

ALL = "all"
Item = TypeVar("Item")
Value = TypeVar("Value")


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
