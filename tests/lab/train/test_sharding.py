"""Sharded models train as whole ones do; their checkpoints and those of whole ones are exchanged.

One process is the only rank here; ``tests/e2e/test_torchrun.py`` has several.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from drt_engine.config.model import ModelConfig
from drt_engine.errors import ConfigError
from drt_engine.model.protocol import LanguageModel
from drt_engine.model.weights import empty_model, load_model, restore_buffers, save_model
from drt_lab.config.load import build
from drt_lab.config.train import OptimConfig, PasskeyConfig, RunConfig, TrainConfig
from drt_lab.lm.build import make_model
from drt_lab.train.loop import Loop
from drt_lab.train.parallel import make_parallel, runs_layers_alike
from drt_lab.train.ranks import GroupRanks, OneRank, joined_ranks
from tests.engine.model.factories import fresh_model, tiny
from tests.lab.train.test_loop import MODEL, TOKENIZER, mixed_config, stream_config
from tests.sampling import sampled


@pytest.fixture(autouse=True)
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process group of this process alone, and no drawing of losses."""
    monkeypatch.setattr("drt_lab.train.loop.plot", lambda run: None)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def in_shards(config: TrainConfig, model: LanguageModel) -> LanguageModel:
    """Return a sharded copy of a model."""
    from drt_lab.train.sharding import fill, shard_model  # takes two seconds, in one worker

    sharded = empty_model(make_model, model.config)
    shard_model(sharded, torch.device("cpu"), by_layer=runs_layers_alike(config))
    sharded.to_empty(device="cpu")
    restore_buffers(sharded)
    fill(sharded, model.state_dict())
    return sharded


def whole_loop(config: TrainConfig, model: LanguageModel | None = None) -> Loop:
    return Loop(config, model or fresh_model(MODEL), TOKENIZER)


def sharded_loop(config: TrainConfig, model: LanguageModel | None = None) -> Loop:
    config = replace(config, run=replace(config.run, parallel="fsdp"))
    return Loop(
        config, in_shards(config, model or fresh_model(MODEL)), TOKENIZER, ranks=GroupRanks()
    )


def expect_equal(sharded: Loop, whole: Loop) -> None:
    model = sharded.parallel.whole_model()
    assert model is not None
    expected = whole.model.state_dict()
    assert model.state_dict().keys() == expected.keys()
    for name, tensor in model.state_dict().items():
        pair = [tensor, expected[name]]
        if name.endswith("qkv.bias"):
            # What is added to all keys changes no softmax. The gradient is rounding alone, and
            # AdamW makes whole steps of it.
            pair = [torch.cat(t.chunk(3)[::2]) for t in pair]
        assert torch.allclose(*pair, rtol=1e-6, atol=1e-6), name


def both(folder: Path, make: Callable[[Path], TrainConfig]) -> tuple[TrainConfig, TrainConfig]:
    folders = folder / "whole", folder / "sharded"
    for one in folders:
        one.mkdir()
    return make(folders[0]), make(folders[1])


def stream_of_parts(folder: Path) -> TrainConfig:
    """Shares of the rate, a frozen embedding, clipping that cuts, layers computed twice."""
    parts = ("lower.", "upper.", "scorer.", "encoder.", "memory_map.")
    config = stream_config(folder, accumulate=2, clip=0.05, only=parts, upper_scale=0.3)
    return replace(config, run=replace(config.run, recompute="layers", minutes=0.0))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "make", sampled([stream_of_parts, mixed_config], {0}), ids=["stream", "questions"]
)
def test_a_sharded_run_is_that_of_a_whole_model(
    tmp_path: Path, make: Callable[[Path], TrainConfig]
) -> None:
    configs = both(tmp_path, make)
    whole, sharded = whole_loop(configs[0]), sharded_loop(configs[1])
    embedding = whole.model.embedding.weight.detach().clone()
    losses = whole.run()
    assert sharded.run() == pytest.approx(losses, rel=1e-6)
    expect_equal(sharded, whole)
    frozen = torch.equal(whole.model.embedding.weight, embedding)
    assert frozen == (make is stream_of_parts)
    # The model is an ordinary folder, and the checkpoint holds no other files than it lists.
    trained = sharded.parallel.whole_model()
    assert trained is not None
    shipped = load_model(configs[1].run.out / "model")[0].state_dict()
    for name, tensor in trained.state_dict().items():
        assert torch.equal(shipped[name], tensor.bfloat16().float() if tensor.dim() else tensor)
    state = configs[1].run.out / "state"
    files = json.loads((state / "state.json").read_text())["files"]
    assert {p.name for p in state.iterdir()} == {*files, "state.json"}


# The first saves whole, resumes in shards, saves those, and resumes them whole.
@pytest.mark.thorough
@pytest.mark.parametrize("first", sampled(["whole", "sharded"], {0}))
def test_either_kind_of_checkpoint_is_resumed_by_both(tmp_path: Path, first: str) -> None:
    loops = {"whole": whole_loop, "sharded": sharded_loop}
    config, unbroken = both(tmp_path, lambda folder: stream_config(folder, accumulate=2))
    expected = whole_loop(unbroken)
    losses = expected.run()
    begun = loops.pop(first)(config).run(until=2)
    ((_, other),) = loops.items()
    resumed = other(config)
    assert resumed.step == 2
    begun += resumed.run(until=3)
    last = {"whole": whole_loop, "sharded": sharded_loop}[first](config)
    begun += last.run()
    assert begun == pytest.approx(losses, rel=1e-6)
    sharded, whole = (last, expected) if first == "sharded" else (resumed, expected)
    if first == "sharded":
        expect_equal(sharded, whole)


@pytest.mark.slow  # whole models have it in test_loop.py
def test_the_mean_with_other_models_is_of_whole_ones(tmp_path: Path) -> None:
    other = fresh_model(MODEL, seed=1)
    save_model(other, TOKENIZER, tmp_path / "other", dtype=torch.float32)
    average = {"steps": 1, "average": (tmp_path / "other",)}
    configs = both(tmp_path, lambda folder: stream_config(folder, **average))
    whole_loop(configs[0]).run()
    sharded_loop(configs[1]).run()
    models = [load_model(config.run.out / "model")[0].state_dict() for config in configs]
    for name, tensor in models[0].items():
        torch.testing.assert_close(models[1][name], tensor, rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize(
    "architecture", sampled(["drt", "base", "landmark", "block-recurrent", "rpt"], {0})
)
def test_blocks_of_every_architecture_are_sharded(architecture: str, tmp_path: Path) -> None:
    from drt_lab.train.sharding import BLOCKS

    changes = {"retriever": "random"} if architecture == "rpt" else {}
    shape: ModelConfig = tiny(
        architecture=architecture, chunk=32, vocab=TOKENIZER.vocab_size, **changes
    )
    torch.manual_seed(0)
    model = make_model(shape)
    configs = both(tmp_path, lambda folder: stream_config(folder, steps=2))
    sharded = sharded_loop(configs[1], model)
    blocks = [module for module in sharded.model.modules() if isinstance(module, BLOCKS)]
    assert all(type(block).__name__.startswith("FSDP") for block in blocks)
    assert len(blocks) >= shape.layers
    assert sharded.run() == pytest.approx(whole_loop(configs[0], model).run(), rel=1e-6)


def saved(folder: Path) -> TrainConfig:
    config = stream_config(folder)
    sharded_loop(config).run(until=1)
    return config


def test_a_damaged_checkpoint_of_shards_is_a_sentence(tmp_path: Path) -> None:
    config = saved(tmp_path)
    (shard,) = (config.run.out / "state").glob("*.safetensors")
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1])
    for make in (whole_loop, sharded_loop):
        with pytest.raises(ConfigError, match=rf"{shard.name} has {len(whole) - 1} bytes, expect"):
            make(config)
    shard.write_bytes(b"\xff" * len(whole))
    for make in (whole_loop, sharded_loop):
        with pytest.raises(ConfigError, match=r"cannot be read.*into another folder"):
            make(config)
    shard.unlink()
    for make in (whole_loop, sharded_loop):
        with pytest.raises(ConfigError, match=rf"{shard.name} has no bytes, expected"):
            make(config)


@pytest.mark.slow  # the same sentence as of a whole model, in test_loop.py
def test_a_checkpoint_of_another_model_is_a_sentence(tmp_path: Path) -> None:
    config = saved(tmp_path)
    counters = config.run.out / "state" / "state.json"
    extra = json.loads(counters.read_text())
    extra["settings"] = {}  # else the settings are what does not fit
    counters.write_text(json.dumps(extra))
    wider = fresh_model(replace(MODEL, mlp=64))
    with pytest.raises(ConfigError, match=r"another model configuration: it holds model\..* as \["):
        sharded_loop(config, wider)


def test_an_interrupted_save_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = saved(tmp_path)
    with monkeypatch.context() as patch:
        # All files are written, but the process ends before the folder has its name.
        patch.setattr("drt_lab.train.sharded_checkpoint.put_in_place", None)
        with pytest.raises(TypeError):
            sharded_loop(config).run(until=2)
    assert (config.run.out / "state.part").exists()
    assert sharded_loop(config).step == 1
    sharded_loop(config).run(until=2)
    assert whole_loop(config).step == 2
    assert not (config.run.out / "state.part").exists()


@pytest.mark.slow  # the save that is interrupted above leaves the same files
def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = saved(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("safetensors.torch.save", full)
        with pytest.raises(ConfigError, match=r"state\.part could not be written: .*No space left"):
            sharded_loop(config).run(until=2)
    assert sharded_loop(config).step == 1


def test_shards_need_torchrun_and_as_many_batches_on_every_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with (
        pytest.raises(ConfigError, match=r"'fsdp', but .*torchrun.* set run\.parallel=ddp"),
        joined_ranks(torch.device("cpu"), sharded=True),
    ):
        pass
    uneven = TrainConfig(
        optim=OptimConfig(accumulate=3),
        passkey=PasskeyConfig(share=1.0),
        run=RunConfig(parallel="fsdp"),
    )
    two = OneRank()
    two.world = 2
    with pytest.raises(ConfigError, match=r"accumulate is 3, expected a multiple of 2"):
        make_parallel(uneven, fresh_model(MODEL), two)
    with pytest.raises(ConfigError, match=r"run\.parallel is 'fdsp'.*did you mean 'fsdp'"):
        build(TrainConfig, {"passkey": {"share": 1.0}, "run": {"parallel": "fdsp"}})
