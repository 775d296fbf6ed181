"""Libraries that live as long as the work on them: for evaluation, benchmarks and training.

Evaluations may keep them, since reading takes longer than asking and a new reader or calibration
needs no new reading.

A document is read through the ordinary pipeline into a temporary folder, and its stored text must
be the text that was given: evidence is counted in its characters.
"""

from __future__ import annotations

import contextlib
import hashlib
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
def kept_folder(keep: Path | None, runtime: Runtime, contents: Sequence[bytes]) -> Iterator[Path]:
    """Return the folder in ``keep`` for what a model reads of ``contents``; without, one that goes.

    Another fingerprint or way to keep records has another folder; another version of the program
    does not. Raises ConfigError where it cannot be made.
    """
    if keep is None:
        with temporary_folder() as path:
            yield path
        return
    key = hashlib.sha256()
    for part in (runtime.fingerprint, repr(runtime.layout)):
        key.update(part.encode() + b"\0")
    for content in contents:
        key.update(hashlib.sha256(content).digest())
    path = keep / key.hexdigest()[:32]
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds texts
    except OSError as error:
        raise ConfigError(
            f"{keep} cannot keep libraries ({error.strerror}); name another folder, or none"
        ) from error
    yield path


@contextlib.contextmanager
def library_of(
    runtime: Runtime, texts: Sequence[str], *, name: str, keep: Path | None = None
) -> Iterator[tuple[Store, list[DocumentRow]]]:
    """Read texts into a library that is removed afterwards; yield it and its documents in order.

    ``name`` is what a message calls them. With ``keep``, the library stays in that folder, and what
    is in it is not read again. Raises ConfigError for a text that reading would change,
    DocumentError for one that cannot be read at all.
    """
    contents = [text.encode("utf-8") for text in texts]
    with (
        kept_folder(keep, runtime, contents) as path,
        open_library(runtime, path / "library") as store,
    ):
        rows = []
        for number, (text, content) in enumerate(zip(texts, contents, strict=True)):
            file = path / f"{number}.txt"
            file.write_bytes(content)
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
