"""Ranks that share the batches of each step train as one process does."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_lab.config.train import RunConfig, StreamConfig, TrainConfig
from drt_lab.data import token_shards
from drt_lab.data.token_shards import open_shards
from drt_lab.train.copying import Rows
from drt_lab.train.loop import Loop
from drt_lab.train.metrics import read_metrics
from drt_lab.train.mixture import TaskMixture
from drt_lab.train.ranks import Ranks, joined_ranks
from drt_lab.train.tasks.stream import TokenStream
from tests.engine.model.factories import fresh_model
from tests.lab.train.corpora import write_corpus
from tests.lab.train.test_loop import MODEL, TOKENIZER, mixed_config, stream_config


class Meeting:
    """Where ranks that are threads exchange values; a failed one frees the others."""

    def __init__(self, world: int) -> None:
        self.barrier, self.values = threading.Barrier(world, timeout=60), [None] * world


class ThreadRanks:
    """A rank of a run whose ranks are threads."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.meeting, self.rank, self.world = meeting, rank, meeting.barrier.parties

    def gather(self, value: Any) -> list[Any]:
        self.meeting.values[self.rank] = value
        self.meeting.barrier.wait()
        values = list(self.meeting.values)
        self.meeting.barrier.wait()
        return values

    def add(self, tensor: Tensor) -> None:
        first, *following = self.gather(tensor.clone())
        tensor.copy_(sum(following, first))


def in_ranks(world: int, work: Callable[[Ranks], Any]) -> list[Any]:
    """Call ``work`` in every rank; return what each returns."""
    meeting = Meeting(world)

    def one(rank: int) -> Any:
        try:
            return work(ThreadRanks(meeting, rank))
        except BaseException:
            meeting.barrier.abort()
            raise

    with ThreadPoolExecutor(world) as pool:
        futures = [pool.submit(one, rank) for rank in range(world)]
        errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None and not isinstance(error, threading.BrokenBarrierError):
            raise error
    return [future.result() for future in futures]


@pytest.fixture(autouse=True)
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drt_lab.train.loop.plot", lambda run: None)


def config(
    folder: Path, parts: int, make: Callable[[Path], TrainConfig] = mixed_config
) -> TrainConfig:
    folder.mkdir()
    made = make(folder)
    return replace(made, optim=replace(made.optim, accumulate=parts, steps=4))


def run(settings: TrainConfig, world: int, *, until: int | None = None) -> list[float]:
    """Train with ``world`` ranks; return the losses, which all ranks must agree on."""

    models = [fresh_model(MODEL) for _ in range(world)]  # which seeds the one generator

    def one(ranks: Ranks) -> list[float]:
        return Loop(settings, models[ranks.rank], TOKENIZER, ranks=ranks).run(until=until)

    losses = in_ranks(world, one)
    assert all(of_rank == losses[0] for of_rank in losses)
    return losses[0]


def parameters(settings: TrainConfig) -> dict[str, Tensor]:
    state = load_file(settings.run.out / "state" / "state.safetensors")
    return {name: tensor for name, tensor in state.items() if name.startswith("model.")}


@pytest.mark.thorough  # two trainings; their parts are tested below
def test_two_ranks_with_one_batch_each_are_one_rank_with_two(tmp_path: Path) -> None:
    alone, shared = (config(tmp_path / name, parts=2) for name in ("alone", "shared"))
    assert run(alone, 1) == run(shared, 2)
    expected = parameters(alone)
    for name, tensor in parameters(shared).items():
        assert torch.equal(tensor, expected[name]), name
    rows = [read_metrics(settings.run.out / "metrics.jsonl") for settings in (alone, shared)]
    for row in (*rows[0], *rows[1]):
        del row["seconds"]
    assert rows[0] == rows[1]  # means over both ranks' batches


@pytest.mark.slow  # test_sharding.py resumes on another kind of ranks
def test_a_run_goes_on_with_another_number_of_ranks(tmp_path: Path) -> None:
    alone, shared = (config(tmp_path / name, 3, stream_config) for name in ("alone", "shared"))
    expected = run(alone, 1)
    losses = run(shared, 2, until=2)
    losses += run(shared, 1, until=3)
    losses += run(shared, 3)
    assert losses == pytest.approx(expected, rel=1e-6)


def test_more_ranks_than_batches_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"optim\.accumulate is 2, expected 3 or more"):
        run(config(tmp_path / "run", parts=2), 3)


def test_ranks_must_start_alike(tmp_path: Path) -> None:
    settings = config(tmp_path / "run", parts=2)
    models = [fresh_model(MODEL) for _ in range(2)]
    next(models[1].parameters()).data.add_(1)

    def one(ranks: Ranks) -> None:
        Loop(settings, models[ranks.rank], TOKENIZER, ranks=ranks)

    with pytest.raises(ConfigError, match="rank 1 starts from other parameters"):
        in_ranks(2, one)


def test_an_incomplete_environment_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with (
        pytest.raises(ConfigError, match="WORLD_SIZE is 2, .* start the run with torchrun"),
        joined_ranks(torch.device("cpu")),
    ):
        pass


def test_ranks_share_the_work_of_tokenising(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_shards, "_BATCH_CHARACTERS", 100)
    texts = [f"{number} " + "word " * (number % 7) for number in range(60)]
    corpus = write_corpus(tmp_path, *texts)
    alone = open_shards(tmp_path / "alone", [corpus], TOKENIZER, shard_tokens=200)
    encoded: dict[int, list[str]] = {}
    lock = threading.Lock()

    class Counted(type(TOKENIZER)):  # type: ignore[misc]
        """The tokenizer of one rank, which notes its texts."""

        rank = 0

        def encode_batch(self, batch: list[str]) -> Any:
            with lock:
                encoded.setdefault(self.rank, []).extend(batch)
            return TOKENIZER.encode_batch(batch)

    def one(ranks: Ranks) -> token_shards.TokenShards:
        tokenizer = Counted.__new__(Counted)
        tokenizer.__dict__.update(TOKENIZER.__dict__)
        tokenizer.rank = ranks.rank
        root = tmp_path / "shared"
        return open_shards(root, [corpus], tokenizer, shard_tokens=200, team=ranks)

    shared = in_ranks(3, one)
    assert sorted(text for of_rank in encoded.values() for text in of_rank) == sorted(texts)
    sizes = {rank: sum(map(len, of_rank)) for rank, of_rank in encoded.items()}
    assert max(sizes.values()) < 0.5 * sum(sizes.values()) and len(sizes) == 3
    # The files are those of one process, to the last byte.
    names = sorted(path.name for path in alone.folder.iterdir())
    assert len(names) > 3
    for shards in shared:
        assert sorted(path.name for path in shards.folder.iterdir()) == names
        assert torch.equal(shards.read(0, len(alone)), alone.read(0, len(alone)))
    for name in names:
        assert (shared[0].folder / name).read_bytes() == (alone.folder / name).read_bytes()


def test_ranks_train_on_every_row_of_an_epoch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = write_corpus(tmp_path, *(f"document {number:03}" for number in range(100)))
    stage = TrainConfig(
        stream=StreamConfig(share=1.0, corpus=(corpus,), chunks=1, batch=2),
        run=RunConfig(out=tmp_path / "run"),
    )
    length = MODEL.chunk
    pieces = len(open_shards(tmp_path / "run" / "tokens", [corpus], TOKENIZER)) // length
    steps = -(-pieces // (2 * 3))  # of 3 batches of 2 rows

    def one(ranks: Ranks) -> list[tuple[int, ...]]:
        tasks = TaskMixture(stage, MODEL, TOKENIZER, ranks=ranks)
        rows = []
        for number in range(steps * 3):
            before = tasks.state()["stream"]
            if number % 3 != ranks.rank:
                tasks.skip(random.Random(number))
                continue
            batch = tasks.draw(random.Random(number)).batch
            first = (before["epoch"], before["row"])
            assert isinstance(batch, Rows)
            texts = batch.chunks.flatten(1).tolist()
            rows += [(*first, at, *text) for at, text in enumerate(texts)]
        return rows

    drawn = [row for of_rank in in_ranks(3, one) for row in of_rank]
    whole = TokenStream(
        open_shards(tmp_path / "run" / "tokens", [corpus], TOKENIZER), length, seed=0
    )
    expected = [tuple(row) for row in whole.take(pieces).tolist()]
    in_order = [row[3:] for row in sorted(drawn)][:pieces]
    assert in_order == expected  # the rows of one process, none twice and none left out
    assert len(drawn) == steps * 6
