"""Whatever is done in whatever order, the library holds what a dictionary in memory holds."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from drt_engine.store import Store
from drt_engine.store.catalogue.index_text import indexed_text
from drt_engine.store.segments import landmark_files
from tests.engine.store.helpers import (
    INT8,
    add_document,
    errors,
    make_batch,
    make_texts,
    open_store,
    text_id,
)

PLACES = st.integers(0, 3)
SIZES = st.integers(1, 5)


class LibraryMachine(RuleBasedStateMachine):
    """Documents stand at a few places; each has a word of its own to be found by."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="drt-test-"))
        self.held: dict[int, tuple[int, list[str]]] = {}  # by place: number and texts
        self.said: dict[str, int] = {}
        self.numbers = 0

    @initialize()
    def start(self) -> None:
        self.store = open_store(self.folder / "library")

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers

    @rule(place=PLACES, size=SIZES, per_segment=st.integers(1, 5))
    def ingest(self, place: int, size: int, per_segment: int) -> None:
        """Also replaces what stands there."""
        number = self._number()
        texts = [f"word{number} piece {i}. " for i in range(size)]
        add_document(self.store, number, texts, source=f"/{place}", per_segment=per_segment)
        self.held[place] = (number, texts)

    @rule(place=PLACES, size=SIZES, keep=st.integers(0, 5))
    def append(self, place: int, size: int, keep: int) -> None:
        """A newer version that takes over the first chunks of the older one."""
        if place not in self.held:
            return
        _, texts = self.held[place]
        number = self._number()
        new = texts[:keep] + [f"word{number} line {i}. " for i in range(size)]
        with self.store.begin_document(
            document_id=text_id(new), title="A", source=f"/{place}", media_type="text/plain"
        ) as writer:
            kept = len(texts[:keep])
            if kept:
                writer.adopt(text_id(texts), make_texts(new[:kept]))
            start = sum(map(len, new[:kept]))
            writer.append(make_batch(INT8, [4] * size), make_texts(new[kept:], start=start))
            writer.finish(places=[(0, None, None)])
        self.held[place] = (number, new)

    @rule(place=PLACES, forget=st.booleans())
    def remove(self, place: int, forget: bool) -> None:
        if place in self.held:
            _, texts = self.held.pop(place)
            if forget:
                self.store.forget_document(text_id(texts))
            else:
                self.store.remove_document(text_id(texts))

    @rule(place=PLACES)
    def remove_and_undo(self, place: int) -> None:
        if place in self.held:
            _, texts = self.held[place]
            assert self.store.remove_document(text_id(texts), undoable=True)
            assert self.store.document_at(f"/{place}") is None
            assert self.store.undo_remove(text_id(texts)).source == f"/{place}"

    @rule(place=PLACES)
    def abandon(self, place: int) -> None:
        """A reading that stops after its first chunk, and is removed again."""
        id = text_id([f"unseen {self._number()} "])
        with self.store.begin_document(
            document_id=id, title="P", source=f"/{place}", media_type="text/plain"
        ) as writer:
            writer.append(make_batch(INT8, [4]), make_texts(["unseen "]))
        assert self.store.search_text("unseen") == []
        self.store.remove_document(id)

    @rule()
    def compact(self) -> None:
        self.store.compact()

    @rule()
    def check(self) -> None:
        """Nothing is wrong in between, either; a reading that was abandoned is no error."""
        assert errors(self.store) == []

    @rule(name=st.sampled_from("ab"), turns=st.integers(0, 2))
    def say(self, name: str, turns: int) -> None:
        self.store.save_session(name, transcript=[{}] * turns, meta={}, state=b"s")
        self.said[name] = turns

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.folder / "library")

    @rule()
    def move(self) -> None:
        """Into an archive and out of it again, somewhere else."""
        archive = self.folder / "all.drtlib"
        self.store.export_archive(archive)
        self.store.close()
        shutil.rmtree(self.folder / "library")
        self.store = Store.open(self.folder / "library", create=True)
        self.store.import_archive(archive)
        self.reopen()

    @rule(place=PLACES)
    def ask(self, place: int) -> None:
        if place not in self.held:
            return
        number, texts = self.held[place]
        ids = self.store.chunk_ids([text_id(texts)])
        found = {chunk for chunk, _ in self.store.search_text(f"word{number}")}
        around = zip(ids, ["", *texts], texts, [*texts[1:], ""], strict=False)
        expected = {chunk for chunk, *near in around if f"word{number} " in indexed_text(*near)}
        assert found == expected
        scanned = [i for some, _ in self.store.scan_landmarks() for i in some]
        assert sorted(scanned) == sorted(self.store.chunk_ids())
        assert self.store.read_chunks(ids).lengths.tolist() == [4] * len(ids)

    @invariant()
    def holds_what_memory_holds(self) -> None:
        if not hasattr(self, "store"):
            return
        rows = self.store.documents()
        texts = {row.source: "".join(self.store.iter_text(row.id)) for row in rows}
        assert texts == {f"/{place}": "".join(text) for place, (_, text) in self.held.items()}
        assert {info.name: info.turns for info in self.store.sessions()} == self.said

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert errors(self.store) == []
            self.store.close()
        shutil.rmtree(self.folder)


def run(examples: int, steps: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landmark_files, "MIN_LOOSE_SEGMENTS", 3)
        machine = LibraryMachine.TestCase
        machine.settings = settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        machine("runTest").runTest()


def test_any_order_of_operations() -> None:
    run(examples=6, steps=15)


@pytest.mark.stress
def test_many_orders_of_operations() -> None:
    run(examples=300, steps=60)
