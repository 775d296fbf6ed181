"""Floating-point operations of training steps, and as many steps as an amount of them allows."""

from __future__ import annotations

import random

import torch
from torch import nn

from drt_engine.config.model import ModelConfig
from drt_engine.errors import ConfigError
from drt_engine.model.protocol import LanguageModel
from drt_lab.config.train import TrainConfig
from drt_lab.train.mixture import TaskMixture
from drt_lab.train.run import start

_DRAWS = 3  # batches of a stage may differ in length


def step_flops(config: TrainConfig) -> float:
    """Return the mean FLOPs of a training step, forward and backward, without the update.

    Counted on the CPU, on the first batches of the run: products of matrices and attention, as
    PyTorch counts them, those that a mask leaves out too. What a frozen encoder reads is not.
    """
    torch.manual_seed(config.run.seed)
    model, tokenizer = start(config)
    tasks = TaskMixture(config, model.config, tokenizer)
    from torch.utils.flop_counter import FlopCounterMode  # it imports Triton

    draws = [tasks.draw(random.Random(f"{config.run.seed}/flops/{n}")) for n in range(_DRAWS)]
    if model.config.retriever == "fixed":
        with torch.no_grad():  # the encoder reads a chunk once, and its vectors are kept
            for drawn in draws:
                tasks.loss(model, drawn)
    counter = FlopCounterMode(display=False)
    with counter:
        for drawn in draws:
            tasks.loss(model, drawn)[0].backward()
    return config.optim.accumulate * counter.get_total_flops() / _DRAWS


def equal_steps(config: TrainConfig, reference: TrainConfig) -> int:
    """Return how many steps of ``config`` cost as much as all steps of ``reference``."""
    budget = step_flops(reference) * reference.optim.steps
    return max(1, round(budget / step_flops(config)))


def expect_formula(config: ModelConfig) -> None:
    """Raise ``ConfigError`` for an architecture whose FLOPs have no formula."""
    if config.architecture not in ("drt", "base"):
        raise ConfigError(
            f"FLOPs of the architecture {config.architecture!r} have no formula, expected drt or "
            "base; leave the measurement 'shape' out"
        )


def forward_flops(model: LanguageModel, length: int) -> float:
    """Return the FLOPs of a forward pass over ``length`` tokens, by formula: nothing is computed.

    Two for each weight of a matrix that a token meets, and for each pair of numbers that attention
    multiplies; landmarks count as tokens. Raises ``ConfigError`` for an architecture without one.
    """
    config = model.config
    expect_formula(config)
    chunks = length / config.chunk
    pairs = 2 * 2 * config.width  # a key and a value for each query, in all heads
    by_part: dict[str, int] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            part = name.split(".")[0]
            by_part[part] = by_part.get(part, 0) + module.weight.numel()
    positions = length + chunks if config.architecture == "drt" else length
    # Each query of the window meets itself and the tokens before it that there are.
    window = min(config.window, positions)
    keys = positions * window - window * (window - 1) / 2
    logits = 2.0 * length * config.vocab * config.width
    scorer = by_part.pop("scorer", 0)  # once a chunk
    flops = logits + 2.0 * sum(by_part.values()) * positions + config.layers * pairs * keys
    if config.architecture == "base":
        return flops
    flops += 2.0 * scorer * chunks
    flops += config.encoder.layers * pairs * positions * config.slots
    flops += config.upper_layers * pairs * positions * config.retrieved * config.chunk
    return flops + config.groups * 2.0 * config.width * chunks**2
