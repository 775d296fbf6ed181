"""Several libraries as one: equal, value for value, to one library with all their documents."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from functools import partial
from itertools import accumulate
from pathlib import Path

import pytest
import torch

from drt_engine.errors import FingerprintMismatch, LibraryUnavailable, NotFound, StoreError
from drt_engine.store import Store
from drt_engine.store.catalogue import search
from drt_engine.store.federation import FederatedStore, library_folders, write_list
from drt_engine.store.federation.shard_words import varints
from drt_engine.store.federation.view import FederatedView
from drt_engine.store.view import LibraryView
from tests.engine.store.helpers import (
    BF16,
    FINGERPRINT,
    INT8,
    add_document,
    document_id,
    open_store,
)
from tests.sampling import sampled
from tests.tables import each_row

SHARDS = ([1, 2, 3], [4, 5], [6, 7])  # the numbers of documents


def pieces_of(number: int) -> list[str]:
    """A document of words of every frequency; documents 2 and 5 are of one subject."""
    chance = random.Random(number)
    names = [f"w{i}" for i in range(300)]
    weights = list(accumulate(1 / (i + 1) for i in range(300)))
    subject = ["lighthouse"] * 6 if number in (2, 5) else []
    return [
        " ".join([*chance.choices(names, cum_weights=weights, k=chance.randrange(3, 30)), *subject])
        + "\n"
        for _ in range(chance.randrange(5, 60))
    ]


def fill(path: Path, numbers: Sequence[int]) -> None:
    with open_store(path) as store:
        for number in numbers:
            add_document(store, number, pieces_of(number))


@contextmanager
def federation(paths: Sequence[Path], *, require_all: bool = False) -> Iterator[FederatedStore]:
    open_one = partial(Store.open, fingerprint=FINGERPRINT, layout=INT8, lock_timeout=1.0)
    with FederatedStore.open(paths[0], paths, open_one, require_all=require_all) as store:
        yield store


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One library of all documents, then those that share them."""
    root = tmp_path_factory.mktemp("federation")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        fill(root / "whole", [number for numbers in SHARDS for number in numbers])
        for name, numbers in zip("abc", SHARDS, strict=True):
            fill(root / name, numbers)
        fill(root / "overlap", [2, 4, 5, 7])
    return [root / name for name in ("whole", "a", "b", "c", "overlap")]


@pytest.fixture(params=["shards", "overlapping"])
def pair(
    request: pytest.FixtureRequest, folders: list[Path]
) -> Iterator[tuple[LibraryView, LibraryView]]:
    """A snapshot of one library, and one of several with the same documents in the same order."""
    whole, a, b, c, overlap = folders
    parts = [a, b, c] if request.param == "shards" else [a, b, overlap, c]
    with ExitStack() as stack:
        if request.param == "overlapping":  # which brings 7 before 6
            whole = whole.with_name("reordered")
            if not whole.exists():
                fill(whole, [1, 2, 3, 4, 5, 7, 6])
        one = stack.enter_context(open_store(whole))
        many = stack.enter_context(federation(parts))
        yield stack.enter_context(one.snapshot()), stack.enter_context(many.snapshot())


QUERIES = [
    "w1",
    "lighthouse",
    "w1 w2 lighthouse",
    "w250 w3 w1 w0",
    "w17 w40 w0",
    "w0",
    "zebra",
    "?",
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("few", "drawn"), sampled([(4096, 30), (20, 30), (20, 8)], {2}, unpack=True)
)
def test_the_same_words_have_the_same_scores(
    pair: tuple[LibraryView, LibraryView], monkeypatch: pytest.MonkeyPatch, few: int, drawn: int
) -> None:
    monkeypatch.setattr(search, "_FEW", few)  # below it all words are ranked, else the rarer
    one, many = pair
    chance = random.Random(3)
    queries = [
        *QUERIES,
        *(" ".join(f"w{int(300 ** chance.random())}" for _ in range(4)) for _ in range(drawn)),
    ]
    for query in queries:
        for limit in (1, 8, 64):
            assert text_hits(many, query, limit=limit) == text_hits(one, query, limit=limit), query
    some = [document_id(n) for n in (2, 5, 6)]
    chunks = {i for i, _ in one.search_text("w1", limit=1000)}
    for query in QUERIES:
        assert text_hits(many, query, documents=some) == text_hits(one, query, documents=some)
        of_chunks = {place_of(one, i) for i in chunks}
        ids = {i for i in many.chunk_ids() if place_of(many, i) in of_chunks}
        assert text_hits(many, query, chunks=ids) == text_hits(one, query, chunks=chunks)


def place_of(view: LibraryView, chunk_id: int) -> tuple[str, int]:
    row = view.chunk_rows([chunk_id])[0]
    return row.document_id, row.ordinal


def text_hits(view: LibraryView, query: str, **only: object) -> list[tuple[str, int, float]]:
    hits = view.search_text(query, **only)  # type: ignore[arg-type]
    rows = view.chunk_rows([chunk_id for chunk_id, _ in hits])
    return [
        (row.document_id, row.ordinal, score) for row, (_, score) in zip(rows, hits, strict=True)
    ]


def test_the_same_chunks_in_the_same_order(pair: tuple[LibraryView, LibraryView]) -> None:
    one, many = pair
    assert [row.id for row in many.documents()] == [row.id for row in one.documents()]
    assert many.count_documents() >= one.count_documents() == len(one.documents())
    ids, others = one.chunk_ids(), many.chunk_ids()
    assert others == sorted(others) and len(others) == len(ids)
    for mine, its in zip(one.chunk_rows(ids), many.chunk_rows(others), strict=True):
        assert (its.document_id, its.ordinal, its.text) == (
            mine.document_id,
            mine.ordinal,
            mine.text,
        )
    some = random.Random(0).sample(range(len(ids)), 40)
    batch = one.read_chunks([ids[i] for i in some])
    other = many.read_chunks([others[i] for i in some])
    tokens = many.read_tokens([others[i] for i in some])
    for field in fields(batch):
        assert torch.equal(getattr(batch, field.name), getattr(other, field.name))
    assert torch.equal(tokens.ids, batch.ids)
    back = dict(zip(others, ids, strict=True)) | {None: None}
    neighbours = many.neighbours_of(others)
    assert one.neighbours_of(ids) == {
        back[i]: (back[before], back[after]) for i, (before, after) in neighbours.items()
    }
    named = [document_id(n) for n in (6, 5, 1)]
    for documents in (None, named):
        scanned = {back[i] for part, _ in many.scan_landmarks(documents) for i in part}
        assert scanned == {i for part, _ in one.scan_landmarks(documents) for i in part}
        rows = torch.cat([part.rows for _, part in many.scan_coded_landmarks(documents)])
        assert torch.equal(
            rows, torch.cat([p.rows for _, p in one.scan_coded_landmarks(documents)])
        )
    for number in (1, 5, 7):
        name = document_id(number)
        assert many.text(name, 3, 90) == one.text(name, 3, 90)
        assert list(many.iter_text(name)) == list(one.iter_text(name))
        assert many.document(name[:6]).title == one.document(name[:6]).title
        between = [back[i] for i in many.chunk_ids_between(name, 5, 200)]
        assert between == one.chunk_ids_between(name, 5, 200)
    with pytest.raises(NotFound, match="no document has the id"):
        many.search_text("w1", documents=["0" * 16])
    with pytest.raises(NotFound, match="no document 'nothing of the kind'"):
        many.document("nothing of the kind")


def test_a_view_of_several_replaces_all_that_a_view_has() -> None:
    public = {name for name in vars(LibraryView) if not name.startswith("_")}
    assert public <= set(vars(FederatedView))


def test_a_document_of_two_libraries_has_the_tags_of_both(tmp_path: Path) -> None:
    for name, tags in (("a", ["red"]), ("b", ["blue"])):
        with open_store(tmp_path / name) as store:
            add_document(store, 1, pieces_of(1))
            store.change_tags(document_id(1), add=tags)
    with federation([tmp_path / "a", tmp_path / "b"]) as store:
        assert [row.tags for row in store.documents()] == [("blue", "red")]
        assert store.library_of(document_id(1)) == tmp_path / "a"


def test_a_missing_library_is_named_and_comes_back(folders: list[Path], tmp_path: Path) -> None:
    a, gone = folders[1], tmp_path / "share"
    with federation([a, gone]) as store:
        assert [entry.library for entry in store.unread] == [str(gone)]
        assert "there is no library at" in store.unread[0].reason
        with store.snapshot() as view:
            assert len(view.documents()) == len(SHARDS[0])
        fill(gone, [9])
        with store.snapshot() as view:
            assert len(view.documents()) == len(SHARDS[0]) + 1 == view.count_documents()
        assert store.unread == ()
    with (
        pytest.raises(StoreError, match="there is no library at"),
        federation([a, tmp_path / "none"], require_all=True),
    ):
        pass
    with (
        pytest.raises(StoreError, match="none of the 2 libraries"),
        federation([tmp_path / "none", tmp_path / "nothing"]),
    ):
        pass


def test_damage_found_while_reading_names_the_library(tmp_path: Path) -> None:
    for name, number in (("a", 1), ("b", 2)):
        fill(tmp_path / name, [number])
    for file in (tmp_path / "b" / "segments").iterdir():
        file.write_bytes(b"no segment")
    with federation([tmp_path / "a", tmp_path / "b"]) as store:
        with pytest.raises(LibraryUnavailable) as caught, store.snapshot() as view:
            list(view.scan_landmarks())
        assert caught.value.path == tmp_path / "b"
        store.leave_out(caught.value)
        with store.snapshot() as view:
            assert len(list(view.scan_landmarks())) == 1
        assert [entry.library for entry in store.unread] == [str(tmp_path / "b")]
        with pytest.raises(StoreError, match="none of the 2"):
            store.leave_out(LibraryUnavailable("it is gone", tmp_path / "a"))


def test_libraries_of_two_models_are_one_sentence(tmp_path: Path) -> None:
    fill(tmp_path / "a", [1])
    with Store.open(tmp_path / "b", fingerprint="another", layout=INT8, create=True):
        pass
    with Store.open(tmp_path / "c", fingerprint=FINGERPRINT, layout=BF16, create=True):
        pass
    for other in "bc":
        with pytest.raises(FingerprintMismatch), federation([tmp_path / "a", tmp_path / other]):
            pass
    with pytest.raises(FingerprintMismatch, match="made with different models"):
        FederatedStore.open(tmp_path / "a", [tmp_path / "a", tmp_path / "b"], Store.open)


def test_an_older_catalogue_that_cannot_be_changed_is_left_out(
    folders: list[Path], tmp_path: Path
) -> None:
    import sqlite3

    fill(tmp_path / "old", [9])
    with sqlite3.connect(tmp_path / "old" / "catalog.db") as connection:
        connection.execute("PRAGMA user_version = 5")
        connection.execute("DROP TABLE blocks")
        connection.execute("DROP INDEX documents_partial")
        connection.execute("ALTER TABLE documents DROP COLUMN tags")
    connection.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "drt_engine.store.catalogue.database.is_writable", lambda path: "old" not in str(path)
        )
        with federation([folders[1], tmp_path / "old"]) as store:
            assert "older version" in store.unread[0].reason


def test_conversations_are_kept_in_the_first_library(folders: list[Path], tmp_path: Path) -> None:
    fill(tmp_path / "home", [9])
    with federation([tmp_path / "home", folders[1]]) as store:
        store.save_session("talk", transcript=[], meta={}, state=b"")
        assert [info.name for info in store.sessions()] == ["talk"]
        store.rename_session("talk", "chat")
        assert store.load_session("chat").state == b""
        store.delete_session("chat")
    with (
        federation([tmp_path / "none", folders[1]]) as store,
        pytest.raises(StoreError, match="conversations are kept in the first library"),
    ):
        store.sessions()


def test_a_list_names_libraries_and_lists(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner.json", tmp_path / "deep" / "outer.json"
    outer.parent.mkdir()
    write_list(inner, [tmp_path / "a", tmp_path / "b"])
    assert json.loads(inner.read_text())["libraries"] == ["a", "b"]
    write_list(outer, [inner, outer.parent / "c"])
    assert library_folders([outer, tmp_path / "a"]) == [
        tmp_path / "a",
        tmp_path / "b",
        outer.parent / "c",
    ]
    (moved := tmp_path / "moved").mkdir()
    os.rename(inner, moved / "inner.json")
    assert library_folders([moved / "inner.json"]) == [moved / "a", moved / "b"]


@each_row(
    ("text", "expected"),
    [
        ("", "nor a whole list"),
        ("SQLite format 3", "nor a whole list"),
        ("[" * 10_000, "nor a whole list"),
        ('{"kind": "other"}', "nor a whole list"),
        ('{"kind": "drt libraries", "version": 2, "libraries": ["a"]}', "has version 2"),
        ('{"kind": "drt libraries", "version": 1, "libraries": []}', "is damaged"),
        ('{"kind": "drt libraries", "version": 1, "libraries": [3]}', "3 is no path"),
        ('{"kind": "drt libraries", "version": 1, "libraries": ["list"]}', "lists itself"),
    ],
)
def test_a_list_that_is_none_is_one_sentence(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "list").write_text(text)
    with pytest.raises(StoreError, match=expected):
        library_folders([tmp_path / "list"])
    if "itself" not in expected:
        with pytest.raises(StoreError):
            write_list(tmp_path / "list", [tmp_path])
        assert (tmp_path / "list").read_text() == text


def test_numbers_of_sqlite() -> None:
    assert varints(bytes([5, 0x81, 0x00, 0x7F])) == [5, 128, 127]
    assert varints(b"\xff" * 9) == [2**64 - 1]
