"""Parameter groups and the learning-rate schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from drt_engine.errors import ConfigError
from drt_lab.config.train import OptimConfig


def make_optimizer(model: nn.Module, config: OptimConfig) -> torch.optim.AdamW:
    """Return AdamW with the parts of ``OptimConfig`` at their shares of the rate.

    Vectors do not decay. Scalars (the temperature, the weight of BM25) take ten times the rate:
    they have far to go.
    """
    shares = {
        "encoder.": config.encoder_scale,
        "embedding.": config.embedding_scale,
        "lower.": config.lower_scale,
        "upper.": config.upper_scale,
        "scorer.": config.scorer_scale,
    }
    # Scalars are always a group of their own: a sharded model has them whole.
    groups: dict[tuple[float, float, bool], list[torch.nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not config.only or name.startswith(config.only))
        if not parameter.requires_grad:
            continue
        scale = next((v for k, v in shares.items() if name.startswith(k)), 1.0)
        is_scalar = parameter.dim() == 0
        scale = 10.0 if is_scalar else scale
        decay = config.weight_decay if parameter.dim() > 1 else 0.0
        groups.setdefault((scale, decay, is_scalar), []).append(parameter)
    if not groups:
        raise ConfigError(
            f"optim.only is {list(config.only)}, expected beginnings of the names of parts"
        )
    return torch.optim.AdamW(
        [
            {"params": parameters, "weight_decay": decay, "scale": scale}
            for (scale, decay, _), parameters in groups.items()
        ],
        lr=config.lr,
        betas=(config.betas[0], config.betas[1]),
        fused=True,
    )


def clip(optimizer: torch.optim.Optimizer, max_norm: float) -> float:
    """Scale the gradients of each parameter group down to a norm of ``max_norm``.

    Returns the norm of all gradients before that. Each group is scaled by itself: the gradients of
    a lower stack that writes into small embeddings are ten times those of everything else, and
    would set the scale for all.
    """
    norms = [torch.nn.utils.clip_grad_norm_(g["params"], max_norm) for g in optimizer.param_groups]
    return float(torch.stack(norms).norm())


def clip_by_norms(groups: Sequence[Sequence[Tensor]], norms: Tensor, max_norm: float) -> float:
    """Do what ``clip`` does with gradients whose ``norms`` [groups] are known."""
    scales = (max_norm / (norms + 1e-6)).clamp(max=1.0)  # as in PyTorch's clip_grad_norm_
    for gradients, scale in zip(groups, scales, strict=True):
        for gradient in gradients:
            gradient.mul_(scale.to(gradient.dtype))
    return float(norms.norm())


def rate(config: OptimConfig, step: int) -> float:
    """Return the share of the full learning rate: linear warm-up, then cosine to ``floor``."""
    warm = max(1, round(config.warm_up * config.steps))
    if step < warm:
        return (step + 1) / warm
    done = min(1.0, (step - warm) / max(1, config.steps - warm))
    return config.floor + (1 - config.floor) * 0.5 * (1 + math.cos(math.pi * done))


def set_rate(optimizer: torch.optim.Optimizer, config: OptimConfig, step: int) -> float:
    """Set the learning rate of every group for ``step`` and return the full one."""
    full = config.lr * rate(config, step)
    for group in optimizer.param_groups:
        group["lr"] = full * group["scale"]
    return full
