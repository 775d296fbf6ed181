"""``drt bench train --plan PRESET --ranks N``: what training a model on several ranks would need.

Parameters, gradients and moments are those of the model without memory (the meta device), cut as
FSDP2 cuts them: along the first dimension, each rank the same number of rows. Activations are those
of real layers of the model's width, on few tokens, times its layers and tokens. The rate of tokens
is a prediction: operations a second over the operations of a token, not a measured training.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
from torch import nn

from drt_engine.config.model import ModelConfig, preset
from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_engine.model.protocol import Recompute
from drt_engine.model.weights import empty_model
from drt_lab.bench.memory import PeakMemory
from drt_lab.bench.parts import GIGA, MEGA, BenchOptions, Machine, Matmul
from drt_lab.bench.train import TrainedModel, train_flops
from drt_lab.evaluate.report import BenchReport, BenchRow, bench_row, median_iqr
from drt_lab.lm.losses import stream_loss

TOKENS = 1 << 14  # of a rank's batch
_BYTES = 4  # of a parameter, a gradient and each of AdamW's two moments: fp32
_STEPS = 3


def bench_plan(options: BenchOptions) -> BenchReport:
    """Plan the training of ``options.plan`` on ``options.ranks`` ranks of ``tokens`` tokens each.

    ``flops`` is a rank's rate of matrix products; without one, this machine's is measured.
    """
    started = time.monotonic()
    config, ranks = preset(options.plan or ""), options.ranks or 1
    if config.architecture != "drt":
        raise ConfigError(f"plan is {options.plan!r}, expected a DRT model")
    machine, tokens = options.machine(), options.tokens or TOKENS
    sizes = ShardSizes.of(empty_model(DRT, config), ranks)
    states = {
        "parameters, shards": sizes.shards,
        "gradients, shards": sizes.shards,
        "AdamW's moments, shards": 2 * sizes.shards,
        "one layer and the rest, gathered": sizes.gathered,
    }
    rows = [bench_row("parameters", [sizes.whole / _BYTES / MEGA], unit="million")]
    rows += [
        bench_row(f"per rank: {name}", [size / GIGA], unit="GB") for name, size in states.items()
    ]
    recomputed: tuple[tuple[Recompute, str], ...] = (
        ("nothing", "all kept"),
        ("layers", "layers computed twice"),
    )
    for recompute, words in recomputed:
        kept = activation_bytes(config, machine, recompute) * tokens
        rows.append(bench_row(f"per rank: activations, {words}", [kept / GIGA], unit="GB"))
        total = sum(states.values()) + kept
        rows.append(bench_row(f"per rank: together, {words}", [total / GIGA], unit="GB"))
    rate_rows, matmul_flops = _rates(config, machine, options, ranks)
    return BenchReport(
        bench="train",
        rows=[*rows, *rate_rows],
        seconds=time.monotonic() - started,
        model=config.name,
        calibration={
            "ranks": ranks,
            "tokens_per_rank": tokens,
            "flops_per_token": train_flops(config),
            "matmul_gflops": matmul_flops / GIGA,
            "matmul_measured": options.flops is None,
            "threads": torch.get_num_threads(),
        },
    )


@dataclass(frozen=True)
class ShardSizes:
    """Bytes of a model's parameters: ``whole``, of the ``shards`` of one rank, and what is whole.

    ``gathered`` are the largest layer, and what is in no layer, which each rank has whole while a
    batch runs.
    """

    whole: int
    shards: int
    gathered: int

    @classmethod
    def of(cls, model: nn.Module, ranks: int) -> ShardSizes:
        """Cut the parameters of a model for so many ranks."""
        from drt_lab.train.sharding import BLOCKS

        parameters = list(model.parameters())
        whole = _BYTES * sum(p.numel() for p in parameters)
        shards = 0
        for parameter in parameters:
            rows = parameter.shape[0] if parameter.dim() else 1  # a scalar is on every rank
            shards += _BYTES * -(-rows // ranks) * (parameter.numel() // rows)
        blocks = [
            _BYTES * sum(p.numel() for p in module.parameters())
            for module in model.modules()
            if isinstance(module, BLOCKS)
        ]
        gathered = max(blocks, default=0) + whole - sum(blocks)
        return cls(whole, shards, gathered if ranks > 1 else 0)


def activation_bytes(config: ModelConfig, machine: Machine, recompute: Recompute) -> float:
    """Return the bytes that one token of a batch keeps for the backward pass.

    Measured with one layer of each kind, and with one more of each, on streams of one and of two
    windows: what the second window adds.
    """
    encoder = config.encoder
    one = replace(config, lower_layers=1, upper_layers=1, encoder=replace(encoder, layers=1))
    base = _kept_by_token(one, machine, recompute)
    total = base
    for count, two in (
        (config.lower_layers, replace(one, lower_layers=2)),
        (config.upper_layers, replace(one, upper_layers=2)),
        (encoder.layers, replace(one, encoder=replace(encoder, layers=2))),
    ):
        total += (count - 1) * (_kept_by_token(two, machine, recompute) - base)
    return total


def _kept_by_token(config: ModelConfig, machine: Machine, recompute: Recompute) -> float:
    """Return by how many bytes a batch of two windows keeps more than one of one, per token."""
    chunks = -(-config.window // config.chunk)
    torch.manual_seed(0)
    model = DRT(config).to(machine.device)
    model.set_recompute(recompute)
    kept: list[int] = []
    for count in (2 * chunks, chunks, 2 * chunks):  # the first fills what is kept for all
        ids = torch.randint(config.vocab, (1, count, config.chunk), device=machine.device)
        low = machine.dtype == torch.bfloat16
        with (
            PeakMemory() as memory,
            torch.autocast(machine.device.type, torch.bfloat16, enabled=low),
        ):
            losses, _ = stream_loss(model, ids, torch.ones_like(ids, dtype=torch.bool))
            kept.append(memory.alive)
        del losses
    return (kept[2] - kept[1]) / (chunks * config.chunk)


def _rates(
    config: ModelConfig, machine: Machine, options: BenchOptions, ranks: int
) -> tuple[list[BenchRow], float]:
    """Return the predicted rates, and a rank's operations a second in matrix products.

    At the full rate, which no training reaches, and at the share of it that a small model reaches
    here, in turns with the product.
    """
    small = TrainedModel(options.config, machine, groups=1, tokens=1024)
    matmul, shares = Matmul(machine), []
    small.step()
    for _ in range(_STEPS):
        begin = time.perf_counter()
        small.step()
        seconds = time.perf_counter() - begin
        matmul.time()
        shares.append(train_flops(small.config) * small.tokens / seconds / matmul.rates[-1])
    rate = options.flops or median_iqr(matmul.rates)[0]
    bound = ranks * rate / train_flops(config)
    share = "share of it that a small model reaches here"
    return [
        bench_row("predicted, at the full rate of matrix products", [bound], unit="tokens/s"),
        bench_row(share, shares, unit=""),
        bench_row("predicted, at that share", [bound * share for share in shares], unit="tokens/s"),
    ], rate
