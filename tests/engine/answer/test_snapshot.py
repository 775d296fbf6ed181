"""An answer or a summary under way does not change when writers change its documents."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from torch import Tensor

from drt_engine.answer.ask import ask, stream
from drt_engine.answer.options import AskOptions
from drt_engine.errors import LockTimeout
from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.retrieval.library import LibrarySource
from drt_engine.retrieval.sources import Retrieval
from drt_engine.store import Store
from drt_engine.summary import candidates
from drt_engine.summary.options import SummaryOptions
from drt_engine.summary.summarize import summarize
from tests.model_folder import LETTERS, MANUAL, library, read_text, runtime
from tests.sampling import sampled

QUESTION = "How long is the notice period for a keeper?"
ANY = AskOptions(threshold=0.0)
Change = Callable[[Store, Path], None]


def remove(store: Store, folder: Path) -> None:
    store.remove_document(store.document("manual.md").id)


def replace(store: Store, folder: Path) -> None:
    read_text(store, folder, name="manual.md", text="Nothing is said of any keeper.\n" * 20)


def remove_and_compact(store: Store, folder: Path) -> None:
    remove(store, folder)
    with pytest.raises(LockTimeout):  # joins segments, but a reader keeps the log in use
        store.compact()


CHANGES = pytest.mark.parametrize("change", sampled([remove, replace, remove_and_compact], {1}))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with library(tmp_path / "library") as opened:
        read_text(opened, tmp_path, name="manual.md", text=MANUAL)
        read_text(opened, tmp_path, name="letters.txt", text=LETTERS)
        yield opened
        assert [f for f in opened.check() if f.severity == "error"] == []


def once(work: Callable[[], None]) -> Callable[[], None]:
    """What does the work when it is called for the first time."""
    left = [work]
    return lambda: left.pop()() if left else None


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("change", "mode"),
    sampled(
        itertools.product([remove, replace, remove_and_compact], ["quote", "free"]),
        {3, 4},
        thorough={0},
        unpack=True,
    ),
)
def test_an_answer_under_way_keeps_its_documents(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, mode: str
) -> None:
    options = AskOptions(threshold=0.0, mode=mode, max_tokens=8)  # type: ignore[arg-type]
    wanted = ask(runtime(), store, QUESTION, options)
    find = LibrarySource.find
    with library(tmp_path / "library", lock_timeout=0.1) as other:
        disturb = once(lambda: change(other, tmp_path))

        def found(
            self: LibrarySource, query: Tensor, scorer: LandmarkScorer, query_chunk: ChunkMemory
        ) -> Retrieval | None:
            disturb()
            return find(self, query, scorer, query_chunk)

        monkeypatch.setattr(LibrarySource, "find", found)
        assert ask(runtime(), store, QUESTION, options) == wanted
    monkeypatch.undo()
    later = ask(runtime(), store, QUESTION, options)
    assert wanted.trace != later.trace  # of the documents as they are now


@pytest.mark.thorough
@CHANGES
def test_a_stream_that_waits_for_its_reader_keeps_them(
    store: Store, tmp_path: Path, change: Change
) -> None:
    wanted = ask(runtime(), store, QUESTION, ANY)
    steps = stream(runtime(), store, QUESTION, ANY)
    assert next(steps) == wanted.text
    with library(tmp_path / "library", lock_timeout=0.1) as other:
        change(other, tmp_path)
    assert list(steps) == [wanted]


@pytest.mark.thorough
@CHANGES
def test_a_summary_under_way_keeps_its_documents(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    ids = [row.id for row in store.documents()]
    wanted = summarize(runtime(), store, ids, SummaryOptions())
    score = candidates.chunk_centrality
    with library(tmp_path / "library", lock_timeout=0.1) as other:
        disturb = once(lambda: change(other, tmp_path))

        def scored(*given: object) -> Tensor:
            disturb()
            return score(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(candidates, "chunk_centrality", scored)
        assert summarize(runtime(), store, ids, SummaryOptions()) == wanted
    assert ids != [row.id for row in store.documents()]
