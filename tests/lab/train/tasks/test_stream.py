"""Shuffled rows of a corpus: each piece once an epoch, each row elsewhere, resumed at the next."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_lab.config.train import StreamConfig, TrainConfig
from drt_lab.data.token_shards import open_shards
from drt_lab.train.tasks.base import TaskSetup
from drt_lab.train.tasks.stream import StreamState, StreamTask, TokenStream
from tests.engine.model.factories import make_model, tiny
from tests.fakes import byte_tokenizer
from tests.lab.train.corpora import ARTICLE, write_corpus
from tests.tables import each_row


class Places:
    """Shards whose tokens are the numbers of their own places."""

    name = "places"

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def read(self, start: int, count: int) -> Tensor:
        return torch.arange(start, start + count) % self._size


def stream(size: int = 107, length: int = 5, *, seed: int = 0) -> TokenStream:
    return TokenStream(Places(size), length, seed=seed)  # type: ignore[arg-type]


def test_an_epoch_takes_every_piece_once() -> None:
    rows = stream()
    for epoch in range(3):
        taken = rows.take(21)  # of 107 tokens two are left over
        assert rows.state == StreamState("places", epoch + 1, 0)
        assert taken.flatten().unique().numel() == 21 * 5
        assert ((taken[:, 1:] - taken[:, :-1]) % 107 == 1).all()  # each is a piece of the text


def test_rows_are_shuffled_and_every_epoch_cuts_elsewhere() -> None:
    rows = stream()
    first, second = rows.take(21)[:, 0], rows.take(21)[:, 0]
    # Consecutive pieces would start five tokens apart; a shuffle leaves about one such pair.
    assert int(((first[1:] - first[:-1]) % 107 == 5).sum()) < 5
    assert not torch.equal(first.sort().values, second.sort().values)
    assert not torch.equal(first, stream(seed=1).take(21)[:, 0])
    assert torch.equal(first, stream().take(21)[:, 0])


def test_every_row_of_a_batch_is_another_place() -> None:
    rows = stream(size=10_000, length=8)
    for _ in range(20):
        starts = rows.take(4)[:, 0]
        assert starts.unique().numel() == 4
        assert ((starts[1:] - starts[:-1]) % 10_000 != 8).any()


def test_a_corpus_shorter_than_a_row_goes_round() -> None:
    taken = stream(size=3, length=8).take(5)
    assert taken.shape == (5, 8)
    assert ((taken[:, 1:] - taken[:, :-1]) % 3 == 1).all()


@each_row("taken", range(0, 50, 7))
def test_a_stream_resumes_at_the_very_next_row(taken: int) -> None:
    rows = stream()
    if taken:
        rows.take(taken)
    state = StreamState(**json.loads(json.dumps(vars(rows.state))))
    again = stream()
    again.resume(state)
    assert again.state == state
    assert torch.equal(again.take(50), rows.take(50))
    assert again.state == rows.state


def test_rows_of_a_real_corpus(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    corpus = write_corpus(tmp_path, ARTICLE, "x")
    shards = open_shards(tmp_path / "tokens", [corpus], tokenizer)
    text = [*tokenizer.encode(ARTICLE).ids, tokenizer.end_id]
    text += [*tokenizer.encode("x").ids, tokenizer.end_id]
    twice = text * 2
    for row in TokenStream(shards, 16, seed=0).take(40).tolist():
        assert any(twice[at : at + 16] == row for at in range(len(text)))


def test_other_tokens_cannot_be_resumed() -> None:
    with pytest.raises(ConfigError, match=r"other tokens \(places\) than .* \(others\)"):
        stream().resume(StreamState("others", 1, 2))


def test_rows_are_counted_where_far_copies_or_labels_weigh(tmp_path: Path) -> None:
    tokenizer, corpus = byte_tokenizer(), write_corpus(tmp_path, ARTICLE)
    model = make_model(tiny(vocab=tokenizer.vocab_size))

    def loss_with(**changes: float) -> tuple[float, dict[str, float]]:
        section = StreamConfig(1.0, (corpus,), tmp_path / "tokens", chunks=12, **changes)  # type: ignore[arg-type]
        config = TrainConfig(stream=section)
        task = StreamTask(TaskSetup(config, model.config, tokenizer))
        loss, values = task.loss(model, task.draw(random.Random(0)), None)
        return float(loss.detach()), values

    plain, values = loss_with()
    assert list(values) == ["lm"] and plain == values["lm"]
    weighted, values = loss_with(far=4.0, labels=0.5)
    assert values["lm"] == pytest.approx(plain) and "far" in values
    assert values["labels"] > 0 and values["score_sd"] > 0 and weighted != plain
    with pytest.raises(ConfigError, match="stream.far is -1"):
        StreamConfig(far=-1)
