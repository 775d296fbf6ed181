"""Answers that are streamed or written freely, by a model that knows nothing."""

from __future__ import annotations

import pytest
import torch

from drt_engine.answer.ask import ask, stream
from drt_engine.answer.options import AskOptions
from drt_engine.answer.result import AnswerResult
from drt_engine.answer.support import UNSUPPORTED
from drt_engine.store import Store
from drt_engine.text.sentences import split_sentences
from tests.engine.answer.asking import QUESTION, QUESTIONS, assert_exact
from tests.model_folder import quoting, runtime


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("threshold", "mode"),
    [(0.0, "quote"), (0.0, "free"), (1.0, "quote")],
)
def test_pieces_join_to_the_answer(store: Store, mode: str, threshold: float) -> None:
    options = AskOptions(mode=mode, threshold=threshold, max_tokens=30)  # type: ignore[arg-type]
    model = quoting() if threshold else runtime()
    *pieces, result = stream(model, store, QUESTION, options)
    assert isinstance(result, AnswerResult)
    assert all(isinstance(piece, str) and piece for piece in pieces)
    assert "".join(str(piece) for piece in pieces) == result.text
    assert result == ask(model, store, QUESTION, options)
    assert bool(pieces) == result.found == (threshold == 0)


@pytest.mark.thorough
def test_a_stream_leaves_its_callers_thread_as_it_was(store: Store) -> None:
    options = AskOptions(mode="free", threshold=0.0, max_tokens=10)
    alone = list(stream(runtime(), store, QUESTION, options))
    one, other = (stream(runtime(), store, QUESTION, options) for _ in range(2))
    pieces = []
    for piece in one:
        next(other)
        pieces.append(piece)
        assert not torch.is_inference_mode_enabled()
        assert not torch.is_autocast_enabled("cpu")
        assert torch.is_grad_enabled()
    assert pieces == alone


@pytest.mark.thorough
def test_free_text_ends_and_is_marked(store: Store) -> None:
    for question in QUESTIONS:
        options = AskOptions(mode="free", threshold=0.0, max_tokens=25)
        answer = ask(runtime(), store, question, options)
        assert answer.mode == "free" and answer.text
        unmarked = answer.text.replace(UNSUPPORTED, "")
        assert len(runtime().tokenizer.encode(unmarked)) <= 3 * options.max_tokens
        sentences = len(split_sentences(unmarked))
        assert answer.text.count(UNSUPPORTED) <= sentences
        for citation in answer.citations:
            assert_exact(store, citation)


def test_max_tokens_limits_what_is_written(store: Store) -> None:
    lengths = []
    for count in (1, 5):
        options = AskOptions(mode="free", threshold=0.0, max_tokens=count)
        text = ask(runtime(), store, QUESTION, options).text
        lengths.append(len(text.replace(UNSUPPORTED, "").strip()))
    # The tiny decoder's tokens are bytes; those of the quote's sentence do not count.
    assert lengths[0] <= lengths[1] <= lengths[0] + 4
