"""Run one training stage from a configuration file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import torch

from drt_engine.config.model import ModelConfig, ReaderConfig, preset
from drt_engine.errors import ConfigError, EngineError
from drt_engine.model.drt import DRT
from drt_engine.model.protocol import LanguageModel
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.model.warm_start import for_tokenizer, warm_start
from drt_engine.model.weights import empty_model, restore_buffers
from drt_engine.runtime import choose_device
from drt_engine.text.tokenizer import Tokenizer, wordpiece_from_bert
from drt_lab.config.load import build, load_config, load_table
from drt_lab.config.train import RunConfig, StartConfig, TrainConfig
from drt_lab.data.passkeys import symbol_tokenizer
from drt_lab.lm.build import add_retriever, load_language_model, make_model
from drt_lab.train.checkpoint import find_state, read_extra
from drt_lab.train.decoder.config import DecoderConfigFile
from drt_lab.train.loop import Loop
from drt_lab.train.parallel import runs_layers_alike
from drt_lab.train.ranks import OneRank, Ranks, joined_ranks, rank_device
from drt_lab.train.reader_start import warm_start_reader


def train(config_path: Path, overrides: Sequence[str] = ()) -> Path:
    """Train the stage of a TOML file, or the stages of a folder.

    The files of a folder are in the order of their names, numbers by value (``10`` is after ``9``).
    Files with a section ``decoder`` train a decoder that starts from a pretrained language model.
    Returns the run folder of the last. Under ``torchrun`` the processes share every step, and each
    must see the same files. A stage resumes what its run folder holds, and is passed
    over where that is finished. Raises ``ConfigError`` for any file of the folder before the first
    stage begins.
    """
    paths = stage_paths(config_path)
    tables = [load_table(path, overrides) for path in paths]
    if all("decoder" in table for table in tables):
        from drt_lab.train.decoder.loop import train_decoder

        settings = [build(DecoderConfigFile, table).decoder for table in tables]
        return [train_decoder(stage) for stage in settings][-1]
    stages = [load_config(TrainConfig, path, overrides) for path in paths]
    sharded = any(stage.run.parallel == "fsdp" for stage in stages)
    with joined_ranks(device(stages[0].run), sharded=sharded) as ranks:
        for stage in stages:
            if len(stages) == 1 or steps_done(stage) < stage.optim.steps:
                train_stage(stage, ranks)
    return stages[-1].run.out


def stage_paths(config_path: Path) -> list[Path]:
    """Return the files of the stages of a file or folder; ``ConfigError`` where it has none."""
    if not config_path.is_dir():
        return [config_path]
    paths = sorted(config_path.glob("*.toml"), key=lambda path: _name_order(path.name))
    if not paths:
        raise ConfigError(f"{config_path} holds no .toml file, expected one for each stage")
    return paths


def _name_order(name: str) -> list[tuple[int, str]]:
    """Return what names sort by: each run of digits as a number, what is between as text."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def steps_done(config: TrainConfig) -> int:
    """Return the steps of the checkpoint in a stage's run folder, 0 without one."""
    state = find_state(config.run.out)
    return 0 if state is None else int(read_extra(state)["step"])


def train_stage(config: TrainConfig, ranks: Ranks | None = None) -> None:
    """Train one stage, or go on with what its run folder holds."""
    torch.set_num_threads(config.run.threads)
    torch.manual_seed(config.run.seed)
    target = device(config.run)
    if config.run.parallel == "fsdp":
        model, tokenizer = start_in_shards(config, ranks or OneRank(), target)
    else:
        model, tokenizer = start(config)
    Loop(config, model.to(target), tokenizer, ranks=ranks).run()


def device(config: RunConfig) -> torch.device:
    """Return where a stage computes; ``ConfigError`` where CUDA is wanted and not there."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "run.device is 'cuda', but PyTorch finds no CUDA device; set run.device=cpu"
        )
    return rank_device(choose_device(config.device))


def start(config: TrainConfig) -> tuple[LanguageModel, Tokenizer]:
    """Return the model of a stage with its starting parameters, and the tokenizer."""
    tokenizer = tokenizer_of(config)
    model = make_model(model_config(config, tokenizer))
    if isinstance(model, DRT):
        _start_drt(model, config.start, tokenizer)
    else:
        _start_other(model, config.start)
    add_retriever(model, tokenizer, cache=config.stream.tokens or config.run.out / "tokens")
    return model, tokenizer


def start_in_shards(
    config: TrainConfig, ranks: Ranks, target: torch.device
) -> tuple[LanguageModel, Tokenizer]:
    """Return what ``start`` returns with the model in shards, equal to that of one process.

    Rank 0 alone ever holds all parameters, in the memory of its processor, and none does where the
    stage has a checkpoint. Its errors are raised on every rank.
    """
    from drt_lab.train.sharding import fill, shard_model  # imports distributed tensors

    tokenizer = tokenizer_of(config)
    model = empty_model(make_model, model_config(config, tokenizer))
    shard_model(model, target, by_layer=runs_layers_alike(config))
    model.to_empty(device=target)
    restore_buffers(model)
    if find_state(config.run.out) is None:
        tensors, error = None, None
        if ranks.rank == 0:
            try:
                tensors = start(config)[0].state_dict()
            except EngineError as refused:
                error = refused
        error = ranks.gather(error)[0]
        if error is not None:
            raise error
        fill(model, tensors)
    add_retriever(model, tokenizer, cache=config.stream.tokens or config.run.out / "tokens")
    return model, tokenizer


def _start_drt(model: DRT, config: StartConfig, tokenizer: Tokenizer) -> None:
    if config.warm_start is not None:
        warm_start(model, config.warm_start)
        _start_reader(model)
    if config.model is not None:
        earlier = _copy_model(model, config.model, config.without)
        if config.repeat_upper and isinstance(earlier, DRT):
            for layer in model.upper[len(earlier.upper) :]:
                layer.load_state_dict(earlier.upper[-1].state_dict())
        if config.repeat_reader and isinstance(earlier, DRT):
            _repeat_reader(model, earlier)
        if isinstance(earlier, DRT) and earlier.reader is None:
            _start_reader(model)
    if config.reader is not None:
        warm_start_reader(model, config.reader, tokenizer)
    if config.reset_scorer:
        model.scorer = LandmarkScorer(model.config)


def _repeat_reader(model: DRT, earlier: DRT) -> None:
    """Start layer i of n of the reader as layer i m / n of the ``m`` that ``earlier`` had."""
    if model.span_reader is None or earlier.span_reader is None:
        raise ConfigError("start.repeat_reader needs a reader in both models; set [model.reader]")
    blocks, sources = model.span_reader.blocks, earlier.span_reader.blocks
    for number, block in enumerate(blocks):
        block.load_state_dict(sources[number * len(sources) // len(blocks)].state_dict())


def _start_other(model: LanguageModel, config: StartConfig) -> None:
    if config.warm_start or config.reader or config.reset_scorer:
        raise ConfigError(
            "start.warm_start, start.reader and start.reset_scorer are for the architecture 'drt'; "
            f"a model of the architecture {model.config.architecture!r} starts from start.model or "
            "from nothing"
        )
    if config.model is not None:
        _copy_model(model, config.model, config.without)


def model_config(config: TrainConfig, tokenizer: Tokenizer) -> ModelConfig:
    """Return the preset of a stage with its changes and the tokenizer's vocabulary."""
    changes = dict(config.model)
    base = preset(str(changes.pop("preset", "drt-128m")))
    encoder = build(type(base.encoder), {**vars(base.encoder), **changes.pop("encoder", {})})
    reader, changed = base.reader, changes.pop("reader", None)
    if changed is not None:
        reader = build(ReaderConfig, {**vars(reader or ReaderConfig()), **changed}, "model.reader.")
    parts = {"encoder": encoder, "reader": reader}
    merged = build(ModelConfig, {**vars(base), **changes, **parts}, "model.")
    return for_tokenizer(merged, tokenizer)


def tokenizer_of(config: TrainConfig) -> Tokenizer:
    """Return the tokenizer that a stage's start brings, or one of symbols for made-up rows."""
    start = config.start
    if start.model is not None:
        return Tokenizer.load(start.model / "tokenizer.json")
    if start.tokenizer is not None:
        return Tokenizer.load(start.tokenizer)
    if start.warm_start is not None:
        return wordpiece_from_bert(start.warm_start / "tokenizer.json")
    if config.passkey.share > 0:
        return symbol_tokenizer(config.passkey.symbols)
    if config.records.share > 0:
        return symbol_tokenizer(config.records.symbols)
    raise ConfigError(
        "start names no model, tokenizer or warm start; one of them brings the tokenizer"
    )


def _copy_model(model: LanguageModel, folder: Path, without: tuple[str, ...] = ()) -> LanguageModel:
    """Copy the parameters of a model folder, but for names that begin as ``without`` says.

    Parts that the earlier stage did not have keep their fresh start. Returns the earlier model.
    """
    earlier, _ = load_language_model(folder)
    parameters = model.state_dict()
    for name, tensor in earlier.state_dict().items():
        if name.startswith(without):
            continue
        if name not in parameters or parameters[name].shape != tensor.shape:
            raise ConfigError(
                f"{folder} holds {name} {tuple(tensor.shape)}, which this model has not"
            )
        parameters[name].copy_(tensor)
    return earlier


def _start_reader(model: DRT) -> None:
    """Copy the encoder's last layers to the layers that only the reader pass has."""
    blocks = list(model.reader or ())
    sources = model.encoder.blocks[-len(blocks) :]
    for block, source in zip(blocks, sources, strict=bool(blocks)):
        block.load_state_dict(source.state_dict())
