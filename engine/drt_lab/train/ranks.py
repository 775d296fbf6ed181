"""Data-parallel training: the processes of ``torchrun`` share the batches of each step.

Every rank takes some of the ``optim.accumulate`` batches of a step; the
gradients are summed over the ranks. Which batches a step has does not depend on the number of
ranks, so a run may be resumed on more or fewer of them. One rank alone needs no process group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from drt_engine.errors import ConfigError


class Ranks(Protocol):
    """The processes of a run; every rank makes the same calls in the same order."""

    rank: int
    world: int

    def add(self, tensor: Tensor) -> None:
        """Replace ``tensor`` by its sum over the ranks, in place."""
        ...

    def gather(self, value: Any) -> list[Any]:
        """Return the ``value`` of every rank, in their order."""
        ...


class OneRank:
    """A run in one process."""

    rank, world = 0, 1

    def add(self, tensor: Tensor) -> None:
        """Leave the only summand as it is."""

    def gather(self, value: Any) -> list[Any]:
        """Return the only value."""
        return [value]


class GroupRanks:
    """The ranks of the default process group of ``torch.distributed``."""

    def __init__(self) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    def add(self, tensor: Tensor) -> None:
        """Sum over the group by one all-reduce."""
        dist.all_reduce(tensor)

    def gather(self, value: Any) -> list[Any]:
        """Gather pickled values over the group."""
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value)
        return values


@contextmanager
def joined_ranks(device: torch.device, *, sharded: bool = False) -> Iterator[Ranks]:
    """Join the process group that ``torchrun`` describes in the environment, if there is one.

    A ``sharded`` run has a group even if it is one process. Raises ``ConfigError`` where it was not
    started by ``torchrun``, and where the environment is incomplete or the others cannot be
    reached.
    """
    if sharded and "WORLD_SIZE" not in os.environ:
        raise ConfigError(
            "run.parallel is 'fsdp', but this process was not started by torchrun; start the run "
            "with torchrun --nproc-per-node N -m drt_cli train CONFIG, or set run.parallel=ddp"
        )
    if not sharded and int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield OneRank()
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    try:
        _join_group("nccl" if device.type == "cuda" else "gloo")
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but the other processes cannot be reached: "
            f"{error}; start the run with torchrun"
        ) from error
    try:
        yield GroupRanks()
    finally:
        dist.destroy_process_group()


def _join_group(backend: str) -> None:
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if restarts == "0" or os.environ.get("GROUP_WORLD_SIZE") != "1":
        dist.init_process_group(backend)
        return
    # The store of torchrun outlives its workers: under the same names, restarted ones would find
    # the addresses of the dead and wait for them. Only on one machine do all count alike.
    store, rank, world = next(rendezvous("env://"))
    store = PrefixStore(f"restart-{restarts}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world)


def rank_device(device: torch.device) -> torch.device:
    """Return the device of this process: of several CUDA devices, the one of its local rank."""
    if device.type != "cuda" or device.index is not None:
        return device
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def trained_parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """Return the parameters of all groups of an optimiser."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def add_gradients(ranks: Ranks, parameters: Sequence[nn.Parameter]) -> None:
    """Sum the gradients of ``parameters`` over the ranks.

    A parameter that no rank has a gradient for keeps none, so that the optimiser passes over it:
    ranks may have drawn different tasks, which teach different parts.
    """
    if ranks.world == 1 or not parameters:
        return
    present = torch.tensor([float(p.grad is not None) for p in parameters])
    # One message: all gradients behind one another, zeros where this rank has none.
    flat = torch.cat(
        [(torch.zeros_like(p) if p.grad is None else p.grad).flatten().float() for p in parameters]
    )
    message = torch.cat([flat, present.to(flat.device)])
    ranks.add(message)
    summed, counts = message.split([len(flat), len(parameters)])
    pieces = summed.split([p.numel() for p in parameters])
    for parameter, piece, count in zip(parameters, pieces, counts.tolist(), strict=True):
        parameter.grad = piece.view_as(parameter).to(parameter.dtype) if count else None
