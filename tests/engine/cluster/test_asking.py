"""Shards with actors beside them, asked as one: the values of one process, one call of each shard.

The actors are in this process: late, dead, or with a wrong answer where a test says so.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from drt_engine.cluster.messages import ShardFailure, ShardSettings
from drt_engine.cluster.shard_actors import ShardActors
from drt_engine.cluster.store import ClusterStore
from drt_engine.cluster.view import ShardsUnavailable
from drt_engine.errors import ConfigError, FingerprintMismatch, LibraryUnavailable, StoreError
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.retrieval.candidates import Candidates, bm25_matches, find_candidates, scan_scope
from drt_engine.retrieval.filters import Scope
from drt_engine.store import Store
from drt_engine.store.catalogue import search
from drt_engine.store.federation import FederatedStore
from drt_engine.store.federation.vocabulary import Terms, Vocabulary
from drt_engine.store.lookup import Lookup
from drt_engine.store.view import LibraryView
from tests.engine.cluster.fake_actors import Clock, FakeCluster
from tests.engine.model.factories import tiny
from tests.engine.store.helpers import FINGERPRINT, INT8, add_document, document_id, open_store
from tests.engine.store.test_federation import QUERIES, SHARDS, fill, text_hits
from tests.sampling import sampled
from tests.tables import each_row

COUNT = 8
open_one = partial(Store.open, fingerprint=FINGERPRINT, layout=INT8, lock_timeout=1.0)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        for name, numbers in zip("abc", SHARDS, strict=True):
            fill(root / name, numbers)
        fill(root / "overlap", [2, 4, 5, 7])
    return [root / name for name in ("a", "b", "c", "overlap")]


CLOCK = Clock()


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drt_engine.cluster.shard_actors.time", CLOCK)


@contextmanager
def cluster_of(
    paths: Sequence[Path], *, deadline: float = 10.0, require_all: bool = False
) -> Iterator[tuple[ClusterStore, FakeCluster]]:
    fake = FakeCluster(CLOCK)
    settings = ShardSettings("", FINGERPRINT, INT8, 1 << 20)
    actors = ShardActors(fake, settings, deadline=deadline)
    store = ClusterStore.connect(paths[0], paths, open_one, actors, require_all=require_all)
    with store:
        yield store, fake
    assert fake.is_closed and not any(handle.is_alive for handle in fake.handles)


def candidates(view: LibraryView, words: str, query: Tensor, scope: Scope) -> Candidates:
    """What a retrieval finds: its BM25 scores count with the scorer's weight."""
    lookup = Lookup(words, 64, query, COUNT, scope.document_ids, scope.chunk_ids)
    found = view.looked_up(lookup)
    scorer = LandmarkScorer(tiny(lexical_scores=True))
    bm25 = bm25_matches(found, words, scope)
    return find_candidates(query, scorer, scan_scope(found, scope), bm25, count=COUNT)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("numbers", "few"),
    sampled(
        itertools.product([(0, 1, 3, 2), (0, 1, 2), (1,)], [20, 4096]),
        {3},
        thorough={0, 4},
        unpack=True,
    ),
    ids=str,
)
@torch.inference_mode()
def test_a_retrieval_is_that_of_one_process_and_one_call_of_each_shard(
    folders: list[Path], numbers: Sequence[int], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_FEW", few)  # below it all words are ranked, else the rarer
    torch.manual_seed(0)
    paths = [folders[number] for number in numbers]
    some = tuple(document_id(n) for n in (4, 5))
    with (
        FederatedStore.open(paths[0], paths, open_one) as one,
        cluster_of(paths) as (many, fake),
        one.snapshot() as expected,
        many.snapshot() as view,
    ):
        chunks = frozenset(expected.chunk_ids(some)[::2])
        for words in (*QUERIES, "w3 w17 w40 w0", "w5 w90 w2"):
            for scope in (Scope(), Scope(some), Scope(some, {}, chunks)):
                query = torch.randn(INT8.landmark_size)
                fake.clear()
                found = candidates(view, words, query, scope)
                asked = paths if scope.document_ids is None else fake.calls("lookup")
                assert fake.calls("lookup") == [str(path) for path in asked]
                assert len(set(asked)) == len(asked) >= 1
                best = candidates(expected, words, query, scope)
                assert found.chunk_ids == best.chunk_ids
                assert torch.equal(found.scores.total, best.scores.total)
            assert text_hits(view, words) == text_hits(expected, words)
            assert view.holds_words(words) == bool(expected.search_text(words, limit=1))
        assert many.unread == ()


def test_words_are_counted_from_tables_until_a_shard_changes(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "a", folders[1]]
    shutil.copytree(folders[0], paths[0])
    counted: list[str] = []
    counts = search.count
    with cluster_of(paths) as (store, fake), open_store(paths[0]) as writer:
        for _ in range(2):
            with store.snapshot() as view:
                before = view.search_text("lighthouse w1")
        assert sorted(fake.calls("vocabulary")) == sorted(map(str, paths))  # once each
        with monkeypatch.context() as patch, store.snapshot() as view:
            patch.setattr(
                "drt_engine.store.federation.shard_words.count",
                lambda catalog, word: counted.append(str(catalog.database.path)) or 1,
            )
            view._words.statistics(view.shards, view._states, ['"lighthouse"', '"w1"'])  # type: ignore[attr-defined]
            assert counted == []
        add_document(writer, 9, ["lighthouse at last"] * 3)
        for _ in range(2):  # counted in the catalogue, then from the new table
            with (
                store.snapshot() as view,
                FederatedStore.open(paths[0], paths, open_one) as one,
            ):
                assert view.search_text("lighthouse w1") == one.search_text("lighthouse w1")
                assert view.search_text("lighthouse w1") != before
        assert fake.calls("vocabulary").count(str(paths[0])) == 2
        with store.snapshot() as view:  # whoever writes while a question is asked
            add_document(writer, 10, ["lighthouse again"])
            assert view.search_text("lighthouse w1") == text_of(paths, before=10)
    assert counts is search.count


def text_of(paths: Sequence[Path], *, before: int) -> list[tuple[int, float]]:
    """The hits without the last document, which is removed again for them."""
    with open_store(paths[0]) as writer:
        writer.remove_document(document_id(before))
    with FederatedStore.open(paths[0], paths, open_one) as one:
        return one.search_text("lighthouse w1")


def test_terms_and_their_counts_are_those_of_the_index(folders: list[Path]) -> None:
    words = [f'"{word}"' for word in ("w1", "w299", "lighthouse", "zebra", "Lighthouses", "w1 w2")]
    terms = Terms()
    with open_one(folders[1]) as store, store.snapshot() as view:
        table = Vocabulary.read(view.catalog)
        for word, term in terms.of(words).items():
            assert table.count(term) == search.count(view.catalog, word), word
        assert terms.of(words).keys() == set(words[:5]) and table.count("zz") == 0
        assert table.count(terms.of(words)[words[2]]) > 0
    terms.close()


def test_a_late_shard_is_asked_a_second_time(folders: list[Path]) -> None:
    paths = folders[:3]
    with cluster_of(paths) as (store, fake):
        late = paths[1]
        fake.trouble("lookup", late, "late")
        with store.snapshot() as view:
            hits = view.search_text("w1")
        assert fake.calls("lookup").count(str(late)) == 2
        assert [handle.path for handle in fake.handles].count(str(late)) == 2
        with FederatedStore.open(paths[0], paths, open_one) as one:
            assert hits == one.search_text("w1")
        fake.clear()
        with store.snapshot() as view:  # the actor that has answered is asked first
            assert view.search_text("w1") == hits
        assert len(fake.calls("lookup")) == 3 and len(fake.handles) == 4


@pytest.mark.thorough
@each_row(
    ("troubles", "reason"),
    [
        (("late", "late"), "has not answered within 10 s (its actor is late)"),
        (("dead", "dead"), "its actor has ended (its process was killed)"),
        (("dead", "late"), "within 10 s (its actor has ended (its process was killed))"),
        (("wrong",), "has answered with str, expected what was looked up"),
        (("broken",), "has failed: KeyError: 3"),
    ],
    ids=str,
)
def test_a_shard_without_an_answer_is_left_out_of_one_question(
    folders: list[Path], troubles: tuple[str, ...], reason: str
) -> None:
    paths = folders[:3]
    with cluster_of(paths) as (store, fake):
        fake.trouble("lookup", paths[1], *troubles)
        with pytest.raises(ShardsUnavailable) as caught, store.snapshot() as view:
            view.search_text("w1")
        store.leave_out(caught.value)
        with store.snapshot() as view:
            others = view.search_text("w1")
        assert [entry.library for entry in store.unread] == [str(paths[1])]
        assert reason in store.unread[0].reason and "\n" not in store.unread[0].reason
        with FederatedStore.open(paths[0], paths[::2], open_one) as two:
            assert others == two.search_text("w1")
        with store.snapshot() as view, FederatedStore.open(paths[0], paths, open_one) as all_three:
            assert view.search_text("w1") == all_three.search_text("w1")
        assert store.unread == ()


def test_two_stuck_actors_are_replaced(folders: list[Path]) -> None:
    with cluster_of(folders[:1]) as (store, fake):
        fake.trouble("lookup", folders[0], *["late"] * 4)
        for _ in range(2):
            with pytest.raises(StoreError) as caught, store.snapshot() as view:
                view.search_text("w1")
            assert isinstance(caught.value, LibraryUnavailable)
            with pytest.raises(StoreError, match="none of the 1 libraries has an answer"):
                store.leave_out(caught.value)
        with store.snapshot() as view:
            assert view.search_text("w1")
        assert sum(handle.is_alive for handle in fake.handles) == 2 < len(fake.handles)


def test_a_missing_answer_is_an_error_where_all_are_required(folders: list[Path]) -> None:
    with cluster_of(folders[:2], require_all=True) as (store, fake):
        fake.trouble("lookup", folders[1], "late", "late")
        with pytest.raises(LibraryUnavailable) as caught, store.snapshot() as view:
            view.search_text("w1")
        with pytest.raises(LibraryUnavailable, match="has not answered within"):
            store.leave_out(caught.value)


def test_what_cannot_be_opened_is_named_and_comes_back(folders: list[Path], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with cluster_of([folders[0], gone]) as (store, fake):
        assert "there is no library at" in store.unread[0].reason and len(fake.handles) == 1
        fill(gone, [9])
        with store.snapshot() as view:
            assert len(view.documents()) == len(SHARDS[0]) + 1
            assert view.search_text("w1")
        assert store.unread == () and len(fake.handles) == 2
    with Store.open(tmp_path / "other", fingerprint="another", layout=INT8, create=True):
        pass
    with pytest.raises(FingerprintMismatch), cluster_of([folders[0], tmp_path / "other"]):
        pass


def test_a_node_with_another_drt_is_one_sentence(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeCluster, "next_trouble", lambda self, method, path: "old")
    with pytest.raises(ConfigError, match="has drt 0.1"), cluster_of(folders[:1]):
        pass


def test_after_an_error_only_what_was_opened_has_an_actor(folders: list[Path]) -> None:
    fake = FakeCluster(CLOCK)
    actors = ShardActors(fake, ShardSettings("", FINGERPRINT, INT8, 1 << 20))
    paths = folders[:3]
    fake.trouble("version", paths[1], "old")
    with pytest.raises(ConfigError, match="has drt 0.1"):
        actors.open(paths)
    assert [actors.has(path) for path in paths] == [True, False, False]
    assert [handle.path for handle in fake.handles if handle.is_alive] == [str(paths[0])]
    assert actors.open(paths[1:]) == {}
    assert all(actors.has(path) for path in paths)
    actors.close()


def test_an_actor_that_cannot_read_its_library_is_left_out(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(self: object) -> Store:
        raise StoreError("there is no library here: its folder is of another machine")

    monkeypatch.setattr("drt_engine.cluster.shard_server.ShardServer._opened", opened)
    none = "none of the 2 libraries can be read; of the first: there is no library here"
    with pytest.raises(StoreError, match=none), cluster_of(folders[:2]):
        pass


def test_a_table_of_words_that_a_worker_fails_to_make_is_a_failure_of_its_shard() -> None:
    class Connection:
        def ready(self, references: list[object], timeout: float) -> list[object]:
            return references

        def result(self, reference: object) -> object:
            raise RuntimeError("in a worker of the Ray cluster: MemoryError")

    actors = ShardActors(Connection(), None)  # type: ignore[arg-type]
    failure = actors.words("reference")
    assert isinstance(failure, ShardFailure) and "MemoryError" in str(failure.reason)
