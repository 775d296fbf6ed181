"""Libraries that live as long as the work on them: for evaluation, benchmarks and training.

A document is read through the ordinary pipeline into a temporary folder, and its stored text must
be the text that was given: evidence is counted in its characters.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from drt_engine.documents import Source
from drt_engine.errors import ConfigError
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow, Store


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="drt-") as folder:
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
