"""An answer that a decoder writes from chunk memory: its sources, its conversation, its trace."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from drt_engine.answer import ask as asking
from drt_engine.answer import write
from drt_engine.answer.ask import ask, stream
from drt_engine.answer.candidates import Candidate
from drt_engine.answer.options import AskOptions
from drt_engine.answer.result import AnswerResult
from drt_engine.answer.session import SessionState
from drt_engine.answer.support import UNSUPPORTED
from drt_engine.decoder.prompt import START, control_id, encode
from drt_engine.decoder.writing import WrittenToken
from drt_engine.errors import ConfigError
from drt_engine.generate import memory_writer
from drt_engine.generate.memory_writer import WrittenPiece, write_from_memory
from drt_engine.generate.passage_memory import passage_reader
from drt_engine.retrieval.passages import Passage
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_engine.summary.options import SummaryOptions
from drt_engine.summary.summarize import summarize
from tests.engine.decoder.tiny import passages_of
from tests.model_folder import MANUAL, library, model_folder, quoting, read

QUESTION = "Who keeps the key of the store?"
FREE = AskOptions(mode="free", threshold=0.0, max_tokens=12)


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    folder = tmp_path / "model"
    shutil.copytree(model_folder(writes=True), folder)
    return Runtime.load(folder, device="cpu", threads=1, dtype="fp32")


@pytest.fixture
def store(tmp_path: Path, runtime: Runtime) -> Iterator[Store]:
    (tmp_path / "manual.md").write_text(MANUAL, encoding="utf-8")
    with library(tmp_path / "library", runtime) as opened:
        read(opened, tmp_path / "manual.md", runtime)
        yield opened


def write_instead(monkeypatch: pytest.MonkeyPatch, *texts: str, passage: int | None = None) -> None:
    """Have the decoder write some texts, all of them read from one passage."""

    def written(_: object, __: str, passages: Sequence[Passage], **___: int) -> Iterator[object]:
        shares = torch.zeros(len(passages))
        shares[passage or 0] = 0.5
        for text in texts:
            yield WrittenPiece(text, shares)

    monkeypatch.setattr(write, "write_from_memory", written)


def test_an_answer_begins_with_the_sentence_of_its_quote(runtime: Runtime, store: Store) -> None:
    quoted = ask(runtime, store, QUESTION, AskOptions(threshold=0.0)).citations[0]
    written = ask(runtime, store, QUESTION, FREE).text
    sentence = " ".join(quoted.sentence.split())
    assert written.replace(f" {UNSUPPORTED}", "").startswith(sentence)
    assert len(written) > len(sentence)


def test_the_decoder_writes_piece_by_piece(runtime: Runtime, store: Store) -> None:
    *pieces, result = stream(runtime, store, QUESTION, FREE)
    assert isinstance(result, AnswerResult)
    assert result.text == "".join(map(str, pieces)) != ""
    assert result.origin == "decoder"
    assert result == ask(runtime, store, QUESTION, FREE)


def test_a_sentence_is_cited_from_the_passage_that_it_was_read_from(
    runtime: Runtime, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    closest = ask(runtime, store, QUESTION, AskOptions(threshold=0.0)).trace.groups[-1].entries
    at = next(n for n, entry in enumerate(closest) if "key" in entry.text)
    write_instead(
        monkeypatch, closest[at].text.split(".")[0] + ".", " Purple cows fly.", passage=at
    )
    answer = ask(runtime, store, QUESTION, FREE)
    first, second = answer.text.split(". ", 1)
    assert UNSUPPORTED not in first and second.endswith(UNSUPPORTED)
    (citation,) = answer.citations
    entry = closest[at]
    assert citation.start < entry.start + len(entry.text) and entry.start < citation.end


def test_a_computed_answer_stays_as_it_is(
    runtime: Runtime, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = Candidate("12", True, 0.9, (), origin="table")
    monkeypatch.setattr(asking, "_best", lambda *_: computed)
    answer = ask(runtime, store, QUESTION, FREE)
    assert answer.text == "12" and answer.origin == "table"


def test_a_conversation_goes_on_after_a_written_answer(runtime: Runtime, store: Store) -> None:
    session = SessionState.new(runtime, store, "talk")
    first = ask(runtime, store, QUESTION, FREE, session=session)
    ask(runtime, store, "And where is it?", FREE, session=session)
    session.save()
    restored = SessionState.restore(runtime, store, "talk")
    assert restored.turns == session.turns
    assert restored.turns[0]["answer"] == first.text


def test_a_model_without_a_decoder_says_that_it_cannot_write(store: Store) -> None:
    model = quoting()
    with pytest.raises(ConfigError, match="has no decoder, so it quotes and does not write"):
        ask(model, store, QUESTION, FREE)
    (row,) = store.documents()
    with pytest.raises(ConfigError, match="has no decoder"):
        summarize(model, store, row.id, SummaryOptions(mode="abstractive"))


def test_words_are_settled_before_they_are_shown_and_no_control_token_is(
    runtime: Runtime, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = " The keeper's well-known rule\n  (of 1871) costs 5/day. Is it so?"
    reader = passage_reader(runtime)
    assert reader is not None
    never: list[int] = []

    def tokens(*_: object, **options: Any) -> Iterator[WrittenToken]:
        never.extend(options["never"])
        for number in encode(reader.tokenizer, said):
            yield WrittenToken(number, 0.0, torch.full((3,), 1 / 3))

    monkeypatch.setattr(memory_writer, "write_tokens", tokens)
    passages = passages_of("The keeper has a rule.", [0], [1.0])
    pieces = list(write_from_memory(reader, QUESTION, passages, max_tokens=96))
    assert "".join(piece.text for piece in pieces) == " ".join(said.split())
    # Each piece ends where a word does, and all of what was read is some piece's.
    assert all(piece.text[-1] in " ?" for piece in pieces)
    read = sum(float(piece.shares.sum()) for piece in pieces)
    assert read == pytest.approx(len(encode(reader.tokenizer, said)))
    assert {control_id(reader.tokenizer, START)} <= set(never)


@pytest.mark.parametrize("mode", ["quote", "free"])
def test_a_trace_has_what_each_word_was_read_from(
    runtime: Runtime, store: Store, mode: str
) -> None:
    options = AskOptions(mode=mode, threshold=0.0, max_tokens=12, record=True)  # type: ignore[arg-type]
    answer = ask(runtime, store, QUESTION, options)
    words = [token for token in answer.trace.tokens if token.part == "answer"]
    assert "".join(token.text for token in words) == answer.text
    count = len(answer.trace.groups[-1].entries)
    for token in words:
        assert len(token.mass[-1]) == count
        assert 0 < sum(token.mass[-1]) < 1
