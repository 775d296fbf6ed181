"""An answer that a decoder writes from chunk memory: its sources, its conversation, its trace."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

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
from drt_engine.decoder.saved import save_decoder
from drt_engine.generate.memory_writer import WrittenPiece
from drt_engine.retrieval.passages import Passage
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from tests.engine.decoder.tiny import tiny_decoder, tiny_tokenizer
from tests.model_folder import MANUAL, library, model_folder, read

QUESTION = "Who keeps the key of the store?"
FREE = AskOptions(mode="free", threshold=0.0, max_tokens=12)


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    folder = tmp_path / "model"
    shutil.copytree(model_folder(), folder)
    save_decoder(tiny_decoder(), tiny_tokenizer(), folder / "decoder", dtype=torch.float32)
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
