"""Conversations: stopped and restored, they go on as if they had never stopped."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save

from drt_engine.answer.ask import ask, stream
from drt_engine.answer.options import AskOptions
from drt_engine.answer.result import AnswerResult
from drt_engine.answer.session import SessionState
from drt_engine.errors import NotFound, QuestionError, SessionError
from drt_engine.model.weights import load_model, save_model
from drt_engine.retrieval.sources import StreamSource
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_engine.store.view import LibraryView
from tests.model_folder import (
    LETTERS,
    MANUAL,
    library,
    model_folder,
    quoting,
    read,
    read_text,
    runtime,
)
from tests.sampling import sampled

TURNS = ("Who keeps the key?", "And what does it burn?", "When does the boat come " * 2)
QUOTE = AskOptions(threshold=0.0)
FREE = AskOptions(threshold=0.0, mode="free", max_tokens=9)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with library(tmp_path / "library") as opened:
        read_text(opened, tmp_path, name="manual.md", text=MANUAL)
        read_text(opened, tmp_path, name="letters.txt", text=LETTERS)
        yield opened


def turn(store: Store, session: SessionState, question: str, options: AskOptions) -> AnswerResult:
    return ask(runtime(), store, question, options, session=session)


def logits(session: SessionState) -> torch.Tensor:
    decoder = session.decoder(StreamSource(2))
    ids = runtime().tokenizer.encode("Captain Holm keeps the lamp of the island.").ids
    with runtime().computing():
        return decoder.logits(decoder.feed(ids)).clone()


@pytest.mark.thorough
@pytest.mark.parametrize("options", sampled([QUOTE, FREE], {0}), ids=["quote", "free"])
def test_a_restored_session_goes_on_with_equal_bits(store: Store, options: AskOptions) -> None:
    kept = SessionState.new(runtime(), store, "kept")
    for question in TURNS:
        turn(store, kept, question, options)
        kept.save()
        with library(store.path) as reopened:
            restored = SessionState.restore(runtime(), reopened, "kept")
            assert restored.turns == kept.turns
            assert torch.equal(logits(restored), logits(kept))
            answer = turn(reopened, restored, "What is the rule in fog?", FREE)
            again = SessionState.restore(runtime(), reopened, "kept")
            assert turn(reopened, again, "What is the rule in fog?", FREE) == answer
    last = turn(store, kept, "What is the rule in fog?", FREE)
    assert last == answer


def test_what_was_said_before_matters(store: Store) -> None:
    session = SessionState.new(quoting(), store, "one")
    ask(quoting(), store, TURNS[0], QUOTE, session=session)
    later = ask(quoting(), store, TURNS[1], QUOTE, session=session)
    alone = ask(quoting(), store, TURNS[1], QUOTE)
    assert later.confidence != alone.confidence
    assert len(session.own_chunks) > 1


@pytest.mark.thorough
def test_streaming_records_the_turn_as_asking_does(store: Store) -> None:
    asked, streamed = (SessionState.new(runtime(), store, name) for name in ("a", "b"))
    for options in (QUOTE, FREE):
        turn(store, asked, TURNS[0], options)
        *_, result = stream(runtime(), store, TURNS[0], options, session=streamed)
        assert isinstance(result, AnswerResult)
    assert asked.turns == streamed.turns
    assert torch.equal(logits(asked), logits(streamed))


@pytest.mark.thorough
def test_an_abandoned_stream_leaves_the_session_as_it_was(store: Store) -> None:
    session = SessionState.new(runtime(), store, "one")
    turn(store, session, TURNS[0], QUOTE)
    before, chunks = logits(session), len(session.own_chunks)
    pieces = stream(runtime(), store, TURNS[1], FREE, session=session)
    next(pieces)
    del pieces
    assert len(session.turns) == 1 and len(session.own_chunks) == chunks
    assert torch.equal(logits(session), before)


def test_a_question_that_fails_leaves_the_session_as_it_was(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SessionState.new(runtime(), store, "one")
    turn(store, session, TURNS[0], QUOTE)
    before, chunks = logits(session), len(session.own_chunks)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(LibraryView, "read_chunks", _interrupt)
        turn(store, session, TURNS[2], QUOTE)
    with pytest.raises(QuestionError):
        turn(store, session, "?", QUOTE)
    assert len(session.turns) == 1 and len(session.own_chunks) == chunks
    assert torch.equal(logits(session), before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_turns_hold_what_was_said(store: Store) -> None:
    session = SessionState.new(runtime(), store, "one")
    answer = turn(store, session, TURNS[0], QUOTE)
    refused = ask(quoting(), store, TURNS[1], AskOptions(threshold=1.0), session=session)
    assert [one["question"] for one in session.turns] == list(TURNS[:2])
    first, second = session.turns
    assert first["answer"] == answer.text and first["found"]
    assert first["citations"] == [
        {name: value for name, value in dataclasses.asdict(c).items() if name != "library"}
        for c in answer.citations
    ]
    assert (second["answer"], second["found"]) == ("", False) == (refused.text, refused.found)


def test_an_empty_session_can_be_saved_and_restored(store: Store) -> None:
    SessionState.new(runtime(), store, "empty").save()
    restored = SessionState.restore(runtime(), store, "empty")
    assert restored.turns == [] and restored.own_chunks == []
    fresh = ask(runtime(), store, TURNS[0], QUOTE)
    assert turn(store, restored, TURNS[0], QUOTE) == fresh


@pytest.mark.thorough
def test_turns_that_another_program_stored_are_never_lost(store: Store) -> None:
    first = SessionState.new(runtime(), store, "talk")
    turn(store, first, TURNS[0], QUOTE)
    first.save()
    second = SessionState.restore(runtime(), store, "talk")
    for session in (first, second):
        turn(store, session, TURNS[1], QUOTE)
    second.save()
    with pytest.raises(SessionError, match="has 2 turns there, expected 1: open it again to go on"):
        first.save()
    assert SessionState.restore(runtime(), store, "talk").turns == second.turns
    with pytest.raises(SessionError, match="has 2 turns there, expected 0"):
        SessionState.new(runtime(), store, "talk").save()
    turn(store, second, TURNS[0], QUOTE)
    second.save()
    assert len(store.load_session("talk").transcript) == 3


@pytest.mark.thorough
def test_another_model_is_refused(store: Store) -> None:
    session = SessionState.new(runtime(), store, "one")
    turn(store, session, TURNS[0], QUOTE)
    session.save()
    other = Runtime.load(model_folder(seed=1), device="cpu", threads=1, dtype="fp32")
    with pytest.raises(SessionError, match="another model"):
        SessionState.restore(other, store, "one")


@pytest.mark.thorough
def test_a_model_that_only_answers_otherwise_is_refused(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads alike, so the library is its own; the window it left is not."""
    session = SessionState.new(runtime(), store, "one")
    turn(store, session, TURNS[0], QUOTE)
    session.save()
    model, tokenizer = load_model(runtime().folder)
    with torch.no_grad():
        model.norm.weight.add_(0.01)
    save_model(model, tokenizer, tmp_path / "other", dtype=torch.float32)
    other = Runtime.load(tmp_path / "other", device="cpu", threads=1, dtype="fp32")
    assert other.fingerprint == runtime().fingerprint
    with pytest.raises(SessionError, match="another model"):
        SessionState.restore(other, store, "one")


def damaged(store: Store, change: dict[str, torch.Tensor | None]) -> None:
    row = store.load_session("one")
    tensors = {k: v for k, v in (load(row.state) | change).items() if v is not None}
    store.save_session("one", transcript=row.transcript, meta=row.meta, state=save(tensors))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "change",
    sampled(
        [
            {"decoder.lower.keys": None},
            {"decoder.upper.values": torch.zeros(1)},
            {"decoder.position": torch.zeros(2)},
            {"own.keys": None},
            {"own.landmarks": torch.zeros(1, 2)},
            {"own.mask": torch.zeros(3)},
            {"decoder.strange": torch.zeros(1)},
        ],
        {0, 1, 4, 6},
    ),
    ids=lambda change: next(iter(change)),
)
def test_a_damaged_state_is_refused(store: Store, change: dict[str, torch.Tensor | None]) -> None:
    session = SessionState.new(runtime(), store, "one")
    turn(store, session, TURNS[0], QUOTE)
    session.save()
    damaged(store, change)
    with pytest.raises(SessionError, match="'one' is damaged"):
        SessionState.restore(runtime(), store, "one")


@pytest.mark.few(1)
@pytest.mark.parametrize("name", sampled(["own.mask", "own.keys", "decoder.lower.keys"], {0, 2}))
def test_numbers_of_another_kind_are_refused(store: Store, name: str) -> None:
    session = SessionState.new(runtime(), store, "one")
    turn(store, session, TURNS[0], QUOTE)
    session.save()
    saved = load(store.load_session("one").state)[name]
    changed = saved.int() if name == "own.mask" else torch.full_like(saved, float("nan"))
    damaged(store, {name: changed})
    with pytest.raises(SessionError, match="'one' is damaged"):
        SessionState.restore(runtime(), store, "one")


@pytest.mark.few(1)
@pytest.mark.parametrize("state", [b"", b"no safetensors", b"\0" * 100], ids=len)
def test_bytes_that_are_no_state_are_refused(store: Store, state: bytes) -> None:
    session = SessionState.new(runtime(), store, "one")
    turn(store, session, TURNS[0], QUOTE)
    session.save()
    row = store.load_session("one")
    store.save_session("one", transcript=row.transcript, meta=row.meta, state=state)
    with pytest.raises(SessionError, match="'one' is damaged"):
        SessionState.restore(runtime(), store, "one")


def test_a_session_without_its_tensors_is_refused(store: Store) -> None:
    session = SessionState.new(runtime(), store, "one")
    turn(store, session, TURNS[0], QUOTE)
    session.save()
    row = store.load_session("one")
    store.save_session("one", transcript=row.transcript, meta=row.meta, state=save({}))
    with pytest.raises(SessionError, match="'one' is damaged"):
        SessionState.restore(runtime(), store, "one")


@pytest.mark.parametrize("name", ["  ", "a\nb", "\x7f", "\u200b", "x" * 201])
def test_unusable_names(store: Store, name: str) -> None:
    with pytest.raises(SessionError, match="cannot name a session"):
        SessionState.new(runtime(), store, name)


@pytest.mark.thorough
def test_a_nameless_session_is_not_kept(store: Store) -> None:
    session = SessionState.new(runtime(), store, "")
    assert turn(store, session, TURNS[0], QUOTE).found
    with pytest.raises(SessionError, match="no name"):
        session.save()
    assert store.sessions() == []


def test_unknown_sessions_are_not_found(store: Store) -> None:
    SessionState.new(runtime(), store, "known").save()
    with pytest.raises(NotFound, match="did you mean 'known'"):
        SessionState.restore(runtime(), store, "knowm")


@pytest.mark.thorough
def test_a_removed_document_is_a_message_and_not_an_answer(store: Store) -> None:
    session = SessionState.new(runtime(), store, "one")
    answer = turn(store, session, TURNS[0], QUOTE)
    session.save()
    quoted = answer.citations[0]
    store.remove_document(quoted.document)
    restored = SessionState.restore(runtime(), store, "one")
    assert restored.turns[0]["citations"][0]["quote"] == quoted.quote
    before = len(restored.turns)
    with pytest.raises(SessionError, match=f"quotes '{quoted.title}', which was removed"):
        turn(store, restored, TURNS[1], QUOTE)
    assert len(restored.turns) == before
    other = SessionState.new(runtime(), store, "two")
    later = turn(store, other, TURNS[1], QUOTE)
    assert later.citations[0].document != quoted.document
    for row in store.documents():
        store.remove_document(row.id)
    with pytest.raises(QuestionError, match="no document"):
        turn(store, other, TURNS[1], QUOTE)
    with pytest.raises(NotFound):
        turn(store, other, TURNS[1], AskOptions(documents=(quoted.document,)))


@pytest.mark.thorough
def test_a_newer_version_of_a_document_is_no_removed_one(store: Store) -> None:
    session = SessionState.new(runtime(), store, "one")
    quoted = turn(store, session, TURNS[0], QUOTE).citations[0]
    text = "".join(store.iter_text(quoted.document))
    file = Path(quoted.source)
    file.write_text(text + "\nThe keeper adds a line.\n", encoding="utf-8")
    assert read(store, file).id != quoted.document
    assert store.document_by_id(quoted.document) is None
    assert turn(store, session, TURNS[1], QUOTE).found is not None


@pytest.mark.thorough
def test_a_summary_is_a_turn_that_no_decoder_reads(store: Store) -> None:
    session = SessionState.new(runtime(), store, "kept")
    answer = turn(store, SessionState.new(runtime(), store, ""), TURNS[0], QUOTE)
    session.record_summary("Summarize it", "All of it.", answer.citations)
    session.save()
    first = SessionState.restore(runtime(), store, "kept")
    assert [one["mode"] for one in first.turns] == ["summary"] and first.own_chunks == []
    plain = SessionState.new(runtime(), store, "plain")
    turn(store, plain, TURNS[0], QUOTE)
    turn(store, first, TURNS[0], QUOTE)
    first.record_summary("And what is it about?", "All of it.", answer.citations)
    first.save()
    restored = SessionState.restore(runtime(), store, "kept")
    assert torch.equal(logits(restored), logits(plain))
    assert turn(store, restored, TURNS[1], QUOTE) == turn(store, plain, TURNS[1], QUOTE)


@pytest.mark.thorough
def test_what_is_undone_leaves_no_trace(store: Store) -> None:
    kept, undone = (SessionState.new(runtime(), store, name) for name in ("kept", "undone"))
    first, second, third = TURNS
    for session in (kept, undone):
        turn(store, session, first, QUOTE)
    turn(store, undone, second, FREE)
    undone.record_summary("Summarize it", "text", [])
    assert undone.undo()["mode"] == "summary" and undone.undo()["question"] == second
    assert undone.turns == kept.turns and torch.equal(logits(undone), logits(kept))
    undone.save()
    for session in (kept, undone):
        turn(store, session, third, QUOTE)
    assert undone.turns == kept.turns and torch.equal(logits(undone), logits(kept))
    undone.undo()
    undone.save()
    restored = SessionState.restore(runtime(), store, "undone")
    assert [entry["question"] for entry in restored.turns] == [first]
    with pytest.raises(SessionError, match="since the conversation was opened"):
        restored.undo()
