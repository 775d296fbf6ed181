"""Reading a document where any call to the operating system fails: one sentence, nothing lost."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from drt_engine.documents import Source, expand_paths
from drt_engine.errors import EngineError
from drt_engine.ingest import pipeline
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.store import Store
from tests.engine.store.disks import ERRORS
from tests.engine.store.failing_calls import FailingCalls
from tests.model_folder import LETTERS, MANUAL, errors, library, read_text, runtime

NEW = MANUAL.replace("Captain Vera Holm", "Captain Ada Holm")


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "SEGMENT_CHUNKS", 5)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with two documents, one of whose files has changed since."""
    folder = tmp_path_factory.mktemp("faults")
    with library(folder / "library") as store:
        for name, text in (("manual.md", MANUAL), ("letters.txt", LETTERS)):
            read_text(store, folder, name=name, text=text)
    (folder / "manual.md").write_text(NEW, encoding="utf-8")
    return folder


def read_again(base: Path, path: Path) -> None:
    """As ``drt ingest manual.md``, which replaces the document."""
    model = runtime()
    with Store.open(path, fingerprint=model.fingerprint, layout=model.layout) as store:
        for source in expand_paths([str(base / "manual.md")]):
            if isinstance(source, Exception):
                raise source
            ingest_source(model, store, source)


def texts(store: Store) -> dict[str, str]:
    return {row.source: "".join(store.iter_text(row.id)) for row in store.documents()}


def fail_every_call(base: Path, folder: Path, codes: list[int], *, every: int) -> int:
    shutil.copytree(base / "library", folder / "whole")
    with library(folder / "whole") as store:
        before = texts(store)
    read_again(base, folder / "whole")
    with library(folder / "whole") as store:
        after = texts(store)
    assert before.keys() == after.keys() and before != after
    for at in range(1, 3_000, every):
        path = folder / f"faults-{at}"
        shutil.copytree(base / "library", path)
        calls, failed = FailingCalls(folder, at, codes[at // every % len(codes)]), False
        try:
            with calls.running():
                read_again(base, path)
        except EngineError as error:
            failed = True
            assert str(error).count("\n") == 0
        with library(path) as store:
            now = texts(store)
            assert now == after or (failed and now == before)
            assert errors(store) == []
        read_again(base, path)
        with library(path) as store:
            assert texts(store) == after and store.partial_documents() == []
        shutil.rmtree(path)
        if calls.left > 0:
            assert not failed
            return at
    raise AssertionError("it never got through")


@pytest.mark.thorough
def test_reading_may_fail_at_some_calls(base: Path, tmp_path: Path) -> None:
    assert fail_every_call(base, tmp_path, list(ERRORS), every=41) > 10


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS, ids=lambda code: errno.errorcode[code])
def test_reading_may_fail_at_any_call(base: Path, tmp_path: Path, error: int) -> None:
    calls = fail_every_call(base, tmp_path, [error], every=1)
    print(f"a reading, {errno.errorcode[error]}: each of {calls - 1} calls failed once")


def test_a_document_that_cannot_be_read_to_its_end(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network drive that is gone in the middle of a file."""
    shutil.copytree(base / "library", tmp_path / "library")
    real = Source.open

    def breaking(source: Source) -> object:
        file = real(source)
        reads = iter(range(100))

        class Breaking:
            def read(self, size: int = -1) -> bytes:
                if next(reads) > 0:
                    raise OSError(errno.ESTALE, "Stale file handle")
                return file.read(64 if size < 0 else min(size, 64))

            def __getattr__(self, name: str) -> object:
                return getattr(file, name)

            def __enter__(self) -> object:
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

        return Breaking()

    with library(tmp_path / "library") as store:
        before = texts(store)
        monkeypatch.setattr(Source, "open", breaking)
        with pytest.raises(EngineError, match="Stale file handle") as caught:
            ingest_source(runtime(), store, Source.from_path(base / "manual.md"))
        assert "\n" not in str(caught.value)
        assert texts(store) == before
