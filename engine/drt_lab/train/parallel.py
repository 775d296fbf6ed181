"""How the ranks of a run hold its model: whole on each (DDP), or in shards (FSDP)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import torch

from drt_engine.errors import ConfigError
from drt_engine.model.protocol import LanguageModel
from drt_lab.config.train import TrainConfig
from drt_lab.train.checkpoint import load_state, save_state
from drt_lab.train.optim import clip
from drt_lab.train.ranks import Ranks, add_gradients, trained_parameters
from drt_lab.train.tasks import TASKS


class Parallel(Protocol):
    """What the training loop needs of a model and its ranks.

    Where ``saves_together`` is true, all ranks must call ``save`` before the same step.
    """

    saves_together: bool

    def begin_step(self) -> None:
        """Prepare for the batches of a step."""
        ...

    def reduce_gradients(self, optimizer: torch.optim.AdamW) -> None:
        """Sum the gradients of the step over the ranks."""
        ...

    def clip(self, optimizer: torch.optim.AdamW, max_norm: float) -> float:
        """Do what ``optim.clip`` does with the gradients of all ranks."""
        ...

    def load(self, state: Path, optimizer: torch.optim.AdamW) -> dict[str, Any]:
        """Restore a checkpoint of either kind; return what was saved as ``extra``."""
        ...

    def save(self, state: Path, optimizer: torch.optim.AdamW, extra: dict[str, Any]) -> None:
        """Write a checkpoint, or begin to: it is whole after ``finish``."""
        ...

    def finish(self) -> None:
        """Wait for the checkpoint that is being written."""
        ...

    def whole_model(self) -> LanguageModel | None:
        """Return the model with whole parameters on rank 0, ``None`` on the others."""
        ...

    def check_sums(self) -> list[float]:
        """Return numbers that are equal on ranks that start alike."""
        ...


class Replicas:
    """Every rank holds the whole model; rank 0 alone saves, whatever happens to the others."""

    saves_together = False

    def __init__(self, model: LanguageModel, ranks: Ranks) -> None:
        self._model, self._ranks = model, ranks

    def begin_step(self) -> None:
        """Do nothing."""

    def reduce_gradients(self, optimizer: torch.optim.AdamW) -> None:
        """Sum all gradients in one message."""
        add_gradients(self._ranks, trained_parameters(optimizer))

    def clip(self, optimizer: torch.optim.AdamW, max_norm: float) -> float:
        """Clip by the norms, which are the same on every rank."""
        return clip(optimizer, max_norm)

    def load(self, state: Path, optimizer: torch.optim.AdamW) -> dict[str, Any]:
        """Restore everything on every rank."""
        return load_state(state, self._model, optimizer)

    def save(self, state: Path, optimizer: torch.optim.AdamW, extra: dict[str, Any]) -> None:
        """Write the checkpoint from rank 0."""
        if self._ranks.rank == 0:
            save_state(state, self._model, optimizer, extra)

    def finish(self) -> None:
        """Do nothing: ``save`` has written everything."""

    def whole_model(self) -> LanguageModel | None:
        """Return the model itself on rank 0."""
        return None if self._ranks.rank else self._model

    def check_sums(self) -> list[float]:
        """Return the sum of each parameter."""
        return [float(parameter.detach().double().sum()) for parameter in self._model.parameters()]


def make_parallel(config: TrainConfig, model: LanguageModel, ranks: Ranks) -> Parallel:
    """Return how a stage holds its model; raises ``ConfigError`` for batches that do not divide."""
    accumulate = config.optim.accumulate
    if accumulate < ranks.world:
        raise ConfigError(
            f"optim.accumulate is {accumulate}, expected {ranks.world} or more: the ranks share "
            "the batches of a step"
        )
    if config.run.parallel == "ddp":
        return Replicas(model, ranks)
    if accumulate % ranks.world:
        raise ConfigError(
            f"optim.accumulate is {accumulate}, expected a multiple of {ranks.world}: with "
            "run.parallel 'fsdp' every rank computes as many batches as the others"
        )
    from drt_lab.train.sharding import Shards  # imports PyTorch's distributed tensors

    return Shards(model, ranks, by_layer=runs_layers_alike(config))


def runs_layers_alike(config: TrainConfig) -> bool:
    """Return whether every batch runs the layers in the same order, whatever its task.

    So do tasks that any language model can learn. Those that only a DRT can run parts of it, as
    often as their documents and questions need.
    """
    drawn = [task for name, task in TASKS.items() if getattr(config, name).share > 0]
    return all(getattr(task, "any_model", False) for task in drawn)
