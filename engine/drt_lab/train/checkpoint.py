"""Train state on disk: parameters and AdamW moments as safetensors, counters and settings as JSON.

Knows nothing of tasks or configurations: any loop with a module and AdamW can use it. Each
checkpoint is a folder that is written under a temporary name, flushed to the disk and renamed, so
that an interrupted save leaves the last one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from drt_engine.errors import ConfigError
from drt_engine.files import flush_path

TENSORS, COUNTERS = "state.safetensors", "state.json"
FILES = "files"  # in the counters of a checkpoint in shards: the bytes of its files by their names
MODEL, OPTIMIZER = "model.", "optim."
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def save_state(
    folder: Path, model: nn.Module, optimizer: torch.optim.AdamW, extra: dict[str, Any]
) -> None:
    """Write a checkpoint of everything a run needs to continue; ``extra`` is kept as JSON.

    When this returns the checkpoint survives a power failure. A failure before that leaves the
    previous one, under its own name or as ``.old``.
    """
    part = new_part(folder)
    tensors = {MODEL + name: tensor for name, tensor in model.state_dict().items()}
    tensors |= {OPTIMIZER + name: t for name, t in moments_by_name(model, optimizer).items()}
    # Cloned, because tensors that share memory cannot be saved.
    save_file({k: v.detach().contiguous().clone() for k, v in tensors.items()}, part / TENSORS)
    flush_path(part / TENSORS)
    put_in_place(part, folder, extra)


def new_part(folder: Path, *, make: bool = True) -> Path:
    """Return the folder that a checkpoint is written to, made anew unless ``make`` is false."""
    part = folder.with_name(folder.name + ".part")
    if make:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
    return part


def put_in_place(part: Path, folder: Path, extra: dict[str, Any]) -> None:
    """Add the counters to a folder whose tensors are on the disk, and give it its name."""
    old = folder.with_name(folder.name + ".old")
    (part / COUNTERS).write_text(json.dumps(extra), encoding="utf-8")
    for path in (part / COUNTERS, part):
        flush_path(path)
    # With the state in place the old one is of an earlier save that was interrupted; without it,
    # the old one is the only checkpoint and stays until the new one has its name.
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
        flush_path(folder.parent)
    part.rename(folder)
    flush_path(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def load_state(folder: Path, model: nn.Module, optimizer: torch.optim.AdamW) -> dict[str, Any]:
    """Restore a checkpoint into model and optimiser; return what was saved as ``extra``.

    Raises ``ConfigError`` when the checkpoint is damaged or belongs to other parameters.
    """
    extra = read_extra(folder)
    tensors = _read_tensors(folder, extra.pop(FILES, None))
    try:
        model.load_state_dict(_below(MODEL, tensors))
    except RuntimeError as error:
        raise ConfigError(f"{folder} was made with another model configuration: {error}") from error
    slots = moment_slots(folder, model, optimizer, _below(OPTIMIZER, tensors))
    restore_slots(optimizer, slots)
    return extra


def _read_tensors(folder: Path, files: dict[str, int] | None) -> dict[str, Tensor]:
    """Return the whole tensors of a checkpoint; ``files`` are those of one in shards."""
    if files is not None:
        # Imports PyTorch's distributed checkpoints, which other runs do without.
        from drt_lab.train.stored_shards import expect_files, read_whole

        expect_files(folder, files)
        return read_whole(folder)
    try:
        return load_file(folder / TENSORS)
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"{folder / TENSORS} cannot be read: {error}; restore it, or train into another folder"
        ) from error


def read_extra(folder: Path) -> dict[str, Any]:
    """Return what a checkpoint was given as ``extra``, without its tensors."""
    path = folder / COUNTERS
    try:
        extra = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}; restore it, or train into another folder"
        ) from error
    if not isinstance(extra, dict):
        raise ConfigError(f"{path} holds no JSON object; restore it, or train into another folder")
    return extra


def find_state(run: Path) -> Path | None:
    """Return the newest whole checkpoint of a run folder, or ``None``."""
    for name in ("state", "state.old"):
        if (run / name / COUNTERS).exists():
            return run / name
    return None


def moments_by_name(model: nn.Module, optimizer: torch.optim.AdamW) -> dict[str, Tensor]:
    """Return AdamW's moments as ``<moment>.<parameter name>``.

    A parameter that never had a gradient has none.
    """
    numbers = _numbers_by_name(model, optimizer)
    state = optimizer.state_dict()["state"]
    return {
        f"{moment}.{name}": torch.as_tensor(state[number][moment])
        for name, number in numbers.items()
        if number in state
        for moment in _MOMENTS
    }


def moment_slots(
    folder: Path, model: nn.Module, optimizer: torch.optim.AdamW, moments: Mapping[str, Tensor]
) -> dict[int, dict[str, Tensor]]:
    """Return the moments of each parameter by its number, whatever group the optimiser has it in.

    Raises ``ConfigError``, which names ``folder``, for moments of a parameter that the optimiser
    does not have, of another shape than the parameter's, or incomplete: fused AdamW would read and
    write past the end of moments that are too small.
    """
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    numbers = _numbers_by_name(model, optimizer)
    slots: dict[int, dict[str, Tensor]] = {}
    for key, tensor in moments.items():
        moment, _, name = key.partition(".")
        if name not in numbers or moment not in _MOMENTS:
            raise ConfigError(
                f"{folder} holds AdamW's {key!r}, which is of no parameter that this run trains: "
                "it is of another run or version; train into another folder"
            )
        expected = torch.Size() if moment == "step" else shapes[name]
        if tensor.shape != expected:
            raise ConfigError(
                f"{folder} holds AdamW's {key} as {list(tensor.shape)}, expected {list(expected)}; "
                "train into another folder"
            )
        slots.setdefault(numbers[name], {})[moment] = tensor
    for name, number in numbers.items():
        if number in slots and len(slots[number]) < len(_MOMENTS):
            raise ConfigError(f"{folder} lacks moments of {name}; train into another folder")
    return slots


def restore_slots(optimizer: torch.optim.AdamW, slots: dict[int, dict[str, Tensor]]) -> None:
    """Give an optimiser the moments of its parameters.

    Learning rates and decay stay those of the optimiser: they come from the configuration.
    """
    optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _numbers_by_name(model: nn.Module, optimizer: torch.optim.AdamW) -> dict[str, int]:
    """Return the number that the optimiser's state gives each parameter it trains."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    trained = [p for group in optimizer.param_groups for p in group["params"]]
    return {names[parameter]: number for number, parameter in enumerate(trained)}
