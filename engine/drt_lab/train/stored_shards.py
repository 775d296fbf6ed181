"""The tensors of a checkpoint that ``torch.distributed.checkpoint`` reads: whole, or in shards.

Files are safetensors; those of shards say in their metadata where in each tensor they begin.
Knows nothing of models or optimisers.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load

from drt_engine.errors import ConfigError

PATTERN = "*.safetensors"


def file_sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of each file of tensors by its name."""
    return {file.name: file.stat().st_size for file in sorted(folder.glob(PATTERN))}


def expect_files(folder: Path, sizes: Mapping[str, int]) -> None:
    """Raise ``ConfigError`` where the files of a folder are not those of these sizes.

    A tensor whose shards are not all there would be read with gaps.
    """
    actual = file_sizes(folder)
    for name in sorted(sizes.keys() | actual.keys()):
        if actual.get(name) != sizes.get(name):
            raise ConfigError(
                f"{folder / name} has {actual.get(name, 'no')} bytes, expected "
                f"{sizes.get(name, 'no such file')}; restore it, or train into another folder"
            )


def stored_tensors(folder: Path) -> dict[str, Tensor]:
    """Return the names of all tensors, each as one without memory of its whole shape and type."""
    try:
        metadata = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise _unreadable(folder, error) from error
    found = cast(dict[str, TensorStorageMetadata], metadata)
    return {
        name: torch.empty(tensor.size, dtype=tensor.properties.dtype, device="meta")
        for name, tensor in found.items()
    }


def read_whole(folder: Path) -> dict[str, Tensor]:
    """Read all tensors into the memory of this process alone."""
    tensors = {
        name: torch.empty_like(t, device="cpu") for name, t in stored_tensors(folder).items()
    }
    read_into(folder, tensors, together=False)
    return tensors


def read_into(folder: Path, tensors: dict[str, Tensor], *, together: bool | None = None) -> None:
    """Read what the ranks hold of ``tensors``, in place; all call this together, or one alone.

    Shapes must be those of ``stored_tensors``.
    """
    alone = not (dist.is_initialized() if together is None else together)
    reader = HuggingFaceStorageReader(str(folder))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            load(dict(tensors), storage_reader=reader, no_dist=alone)
    except (OSError, SafetensorError, CheckpointException) as error:
        raise _unreadable(folder, error) from error


def reason(error: BaseException) -> str:
    """Return in one line why reading or writing has failed, of all ranks the first that did."""
    if isinstance(error, CheckpointException):
        error = next(iter(error.failures.values()))[0]
    return str(error).split("\n")[0]


def _unreadable(folder: Path, error: BaseException) -> ConfigError:
    return ConfigError(
        f"{folder / PATTERN} cannot be read: {reason(error)}; restore it, or train into another "
        "folder"
    )
