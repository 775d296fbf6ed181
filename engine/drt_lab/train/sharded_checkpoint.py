"""Checkpoints of sharded models (``torch.distributed.checkpoint``), written while training goes on.

Every rank writes a safetensors file of its shards into a folder under a temporary name; rank 0 adds
the counters and renames it, as it does with an ordinary checkpoint. Any number of ranks reads it,
and so does one process that holds the whole model.
"""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_saver import async_save

from drt_engine.errors import ConfigError
from drt_lab.train.checkpoint import (
    FILES,
    MODEL,
    OPTIMIZER,
    moment_slots,
    moments_by_name,
    new_part,
    put_in_place,
    read_extra,
    restore_slots,
)
from drt_lab.train.ranks import Ranks
from drt_lab.train.stored_shards import (
    expect_files,
    file_sizes,
    read_into,
    reason,
    stored_tensors,
)


class AsyncCheckpoints:
    """The checkpoints that the ranks of a run write together, one at a time."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        # Messages of the threads that write must not come between those of training.
        self._group = dist.new_group(backend="gloo")
        self._writing: tuple[Future[Any], Path, dict[str, Any]] | None = None

    def begin(
        self, folder: Path, model: nn.Module, optimizer: torch.optim.AdamW, extra: dict[str, Any]
    ) -> None:
        """Copy the shards of all ranks to memory of the processor, and begin to write them.

        Waits for the checkpoint before.
        """
        self.finish()
        part = new_part(folder, make=self._ranks.rank == 0)
        self._ranks.gather(None)  # nobody writes before the old files are gone
        tensors: dict[str, Any] = {MODEL + k: v for k, v in model.state_dict().items()}
        tensors |= {OPTIMIZER + k: v for k, v in moments_by_name(model, optimizer).items()}
        writer = HuggingFaceStorageWriter(str(part), save_distributed=True)
        future = async_save(tensors, storage_writer=writer, process_group=self._group)
        assert isinstance(future, Future)
        self._writing = future, folder, extra

    def poll(self) -> None:
        """Give the checkpoint its name if all of it is on the disk."""
        if self._writing is not None and self._writing[0].done():
            self.finish()

    def finish(self) -> None:
        """Wait until the checkpoint that is being written has its name.

        Raises ``ConfigError`` where it could not be written.
        """
        if self._writing is None:
            return
        future, folder, extra = self._writing
        self._writing = None
        part = new_part(folder, make=False)
        try:
            future.result()
        except (Exception, CheckpointException) as error:  # the second is no Exception
            raise ConfigError(
                f"{part} could not be written: {reason(error)}; the checkpoint before it is whole"
            ) from error
        # The future of rank 0 is done when the files of all ranks are on the disk.
        if self._ranks.rank == 0:
            put_in_place(part, folder, extra | {FILES: file_sizes(part)})


def load_into_shards(
    folder: Path, model: nn.Module, optimizer: torch.optim.AdamW
) -> dict[str, Any]:
    """Restore a checkpoint, whole or in shards, into a sharded model; return its ``extra``.

    Raises ``ConfigError`` when the checkpoint is damaged or belongs to other parameters.
    """
    extra = read_extra(folder)
    if FILES in extra:
        expect_files(folder, extra.pop(FILES))
    stored = stored_tensors(folder)
    tensors = {MODEL + name: tensor for name, tensor in model.state_dict().items()}
    _expect_same(folder, tensors, {k: t for k, t in stored.items() if k.startswith(MODEL)})
    parameters = dict(model.named_parameters())
    moments = {}
    for key in (key.removeprefix(OPTIMIZER) for key in stored if key.startswith(OPTIMIZER)):
        moment, _, name = key.partition(".")
        moments[key] = stored[OPTIMIZER + key]
        if moment == "step":
            moments[key] = torch.zeros_like(moments[key], device="cpu")
        elif name in parameters and moments[key].shape == parameters[name].shape:
            moments[key] = torch.zeros_like(parameters[name]).detach()
    # What does not fit is still without memory, and refused here.
    slots = moment_slots(folder, model, optimizer, moments)
    read_into(folder, tensors | {OPTIMIZER + key: moment for key, moment in moments.items()})
    restore_slots(optimizer, slots)
    return extra


def _expect_same(folder: Path, tensors: dict[str, Tensor], stored: dict[str, Tensor]) -> None:
    for name in sorted(tensors.keys() | stored.keys()):
        shapes = [list(t[name].shape) if name in t else None for t in (stored, tensors)]
        if shapes[0] != shapes[1]:
            raise ConfigError(
                f"{folder} was made with another model configuration: it holds {name} as "
                f"{shapes[0] or 'nothing'}, expected {shapes[1] or 'nothing'}"
            )
