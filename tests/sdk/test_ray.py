"""Libraries with Ray actors beside them: the answers of one process, to the last bit.

The actors are in this process, but for the slow tests, which start a Ray and kill its workers.
"""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drt import Assistant, ConfigError, LibraryError, LibraryModelMismatchError, NotFoundError
from tests.engine.cluster.fake_actors import Clock, FakeCluster
from tests.engine.cluster.listening import other_addresses
from tests.model_folder import model_folder
from tests.sdk.test_federated import FEW, QUESTIONS, TEXTS, plain

# As in the shipped model, one landmark of a question retrieves: one group, long chunks.
HOW: dict[str, Any] = {"model": model_folder(groups=1, chunk=32), "device": "cpu", "dtype": "fp32"}


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three libraries; the first and the second have a document in common."""
    root = tmp_path_factory.mktemp("shards")
    names = sorted(TEXTS)
    paths = [root / f"{number}.library" for number in range(3)]
    for number, path in enumerate(paths):
        own = names[number::3] + (names[:1] if number == 1 else [])
        for name in own:
            (root / name).write_text(TEXTS[name])
        with Assistant(path, **HOW) as one:
            one.ingest_many([root / name for name in own])
    return paths


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """A cluster of actors in this process, at the address "fake:1"; no time passes there."""
    clock = Clock()
    cluster = FakeCluster(clock)
    monkeypatch.setattr("drt_engine.cluster.shard_actors.time", clock)
    monkeypatch.setattr("drt_engine.cluster.connection.connect", lambda *_, **__: cluster)
    yield cluster
    assert cluster.is_closed and not any(handle.is_alive for handle in cluster.handles)


@pytest.mark.thorough
def test_answers_are_those_of_one_process_and_one_call_of_each_library(
    shards: list[Path], fake: FakeCluster
) -> None:
    with Assistant(shards, ray="fake:1", **HOW) as many, Assistant(shards, **HOW) as one:
        many.search("key", top_k=1)  # opens the actors
        for question in FEW:  # found, looked up in a table or in the head, not found
            fake.clear()
            answer = many.ask(question)
            assert fake.calls("lookup") == [str(path) for path in shards]
            assert plain(answer) == plain(one.ask(question))
            assert answer.unread_libraries == ()
        for options in (
            {"retriever": "landmark"},
            {"retriever": "lexical"},
            {"types": ["md"], "section": "Fog"},
            {"documents": ["letters.txt", "manual.md"]},
            {"mode": "free", "max_tokens": 4},
        ):
            expected = one.ask(QUESTIONS[0], **options)  # type: ignore[arg-type]
            assert plain(many.ask(QUESTIONS[0], **options)) == plain(expected)  # type: ignore[arg-type]
        assert plain(many.ask_all(QUESTIONS[0], threshold=0.0)) == plain(
            one.ask_all(QUESTIONS[0], threshold=0.0)
        )
        for retriever in ("hybrid", "lexical"):
            fake.clear()
            hits = many.search("bell of the store", retriever=retriever)  # type: ignore[arg-type]
            assert len(fake.calls("lookup")) == len(shards)
            expected_hits = one.search("bell of the store", retriever=retriever)  # type: ignore[arg-type]
            assert plain(hits) == plain(expected_hits)
        summary = many.summarize(["letters.txt", "storm.txt"])
        assert plain(summary) == plain(one.summarize(["letters.txt", "storm.txt"]))
        stream = many.stream(QUESTIONS[0])
        assert "".join(stream) == one.ask(QUESTIONS[0]).text
        answers = []
        for each in (many, one):  # which keep it in the same library
            answers.append(plain(each.session("talk").ask(QUESTIONS[1])))
            each.library.delete_session("talk")
        assert answers[0] == answers[1]
        with pytest.raises(LibraryError, match="cannot be changed"):
            many.ingest(shards[0].with_name("manual.md"))


@pytest.mark.thorough
def test_a_late_library_is_named_and_the_next_answer_is_whole(
    shards: list[Path], fake: FakeCluster
) -> None:
    with Assistant(shards, ray="fake:1", deadline=3, **HOW) as many:
        whole = many.ask(QUESTIONS[0])
        fake.trouble("lookup", shards[1], "late", "late")
        answer = many.ask(QUESTIONS[0])
        assert [entry.library for entry in answer.unread_libraries] == [str(shards[1])]
        assert "has not answered within 3 s" in answer.unread_libraries[0].reason
        with Assistant([shards[0], shards[2]], **HOW) as others:
            rest = replace(answer, unread_libraries=())
            assert plain(rest) == plain(others.ask(QUESTIONS[0]))
        named = {"documents": "letters.txt"}  # which is in the library that was late
        assert many.ask(QUESTIONS[0], **named).unread_libraries == ()  # type: ignore[arg-type]
        fake.trouble("lookup", shards[1], "late", "late")
        with pytest.raises(NotFoundError, match=f"not looked for in {shards[1]}, which cannot"):
            many.ask(QUESTIONS[0], **named)  # type: ignore[arg-type]
        with pytest.raises(NotFoundError, match="'none' in the library: [^;]*$"):
            many.ask(QUESTIONS[0], documents="none")
        fake.trouble("lookup", shards[0], "dead", "dead")
        stream = many.stream(QUESTIONS[0])
        assert "".join(stream) and stream.answer is not None
        assert "its actor has ended" in stream.answer.unread_libraries[0].reason
        again = many.ask(QUESTIONS[0])
        assert plain(again) == plain(whole) and again.unread_libraries == ()
    with Assistant(shards, ray="fake:1", require_all=True, **HOW) as strict:
        fake.is_closed = False
        strict.search("key")
        fake.trouble("lookup", shards[1], "late", "late")
        with pytest.raises(LibraryError, match="has not answered within 10 s"):
            strict.ask(QUESTIONS[0])


@pytest.mark.thorough
def test_one_plain_library_is_asked_and_read_into_without_ray(
    shards: list[Path], fake: FakeCluster, tmp_path: Path
) -> None:
    with Assistant(shards[0], ray="fake:1", **HOW) as alone, Assistant(shards[0], **HOW) as one:
        # By words alone first: then neither a model nor an actor is there.
        by_words, expected = (a.search("bell", retriever="lexical") for a in (alone, one))
        assert by_words.hits and plain(by_words) == plain(expected)
        assert plain(alone.ask(QUESTIONS[0])) == plain(one.ask(QUESTIONS[0]))
        assert fake.calls("lookup") == [str(shards[0])]
        for read in (alone.ingest, alone.ingest_many, lambda path: next(alone.watch(path))):
            with pytest.raises(LibraryError, match="with ray the library is only asked"):
                read(tmp_path)


def test_what_cannot_be_is_one_sentence(
    shards: list[Path], fake: FakeCluster, tmp_path: Path
) -> None:
    fake.is_closed = True
    (tmp_path / "new.txt").write_text("A new text of the island.")
    strange = tmp_path / "strange.library"
    with Assistant(strange, **HOW | {"model": model_folder(seed=1, groups=1)}) as other:
        other.ingest(tmp_path / "new.txt")
    with (
        pytest.raises(LibraryModelMismatchError, match="other model|different model|another"),
        Assistant([shards[0], strange], ray="fake:1", **HOW) as mixed,
    ):
        mixed.ask(QUESTIONS[0])
    for deadline in (0, -1.0, float("nan"), 1e9):
        with pytest.raises(ConfigError, match="the deadline is .* seconds, expected more than 0"):
            Assistant(shards, ray="local", deadline=deadline)
    with pytest.raises(ConfigError, match="name the address"):
        Assistant(shards, deadline=3)


def test_an_address_that_is_none_is_one_sentence(shards: list[Path]) -> None:
    pytest.importorskip("ray")
    for address in ("nowhere", "127.0.0.1:1"):
        with (
            pytest.raises(ConfigError, match=r"no address of a Ray|can be joined at") as caught,
            Assistant(shards, ray=address, **HOW) as many,
        ):
            many.ask(QUESTIONS[0])
        assert "\n" not in str(caught.value)


def actor_processes() -> list[int]:
    """The processes of this user's actors."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                name = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if name.startswith(b"ray::ShardServer"):
                found.append(int(entry.name))
    return found


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra cluster")
@pytest.mark.filterwarnings("ignore")  # of Ray's own
def test_a_killed_actor_costs_one_answer_its_library(shards: list[Path]) -> None:
    before, shards = set(actor_processes()), shards[:2]
    with (
        Assistant(shards, ray="local", deadline=60, **HOW) as many,
        Assistant(shards, **HOW) as one,
    ):
        for question in QUESTIONS[:2]:
            assert plain(many.ask(question)) == plain(one.ask(question))
        assert other_addresses(os.getpid()) == []
        store: Any = many._opened._store
        store._actors._deadline = 0.5  # too short for a new actor to start
        killed = set(actor_processes()) - before
        assert len(killed) == len(shards)
        os.kill(min(killed), signal.SIGKILL)
        answer = many.ask(QUESTIONS[0])
        assert len(answer.unread_libraries) == 1, answer.unread_libraries
        missing = answer.unread_libraries[0]
        assert missing.library in map(str, shards) and "not answered within" in missing.reason
        others = [path for path in shards if str(path) != missing.library]
        with Assistant(others, **HOW) as two:
            assert answer.text == two.ask(QUESTIONS[0]).text
        store._actors._deadline = 60.0
        whole = many.ask(QUESTIONS[0])
        assert whole.unread_libraries == () and plain(whole) == plain(one.ask(QUESTIONS[0]))
