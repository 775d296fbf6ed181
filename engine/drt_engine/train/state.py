"""Train state on disk: parameters and optimiser as safetensors, counters and stream state as JSON.

Each checkpoint is a folder made under a temporary name and renamed, so that an interrupted save
leaves the last one.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from drt_engine.errors import ConfigError


def save_state(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, extra: dict[str, Any]
) -> None:
    """Write a checkpoint of everything a run needs to continue."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    tensors = {f"model.{k}": v for k, v in model.state_dict().items()}
    state = optimizer.state_dict()
    for number, slots in state["state"].items():
        tensors |= {f"optim.{number}.{k}": torch.as_tensor(v) for k, v in slots.items()}
    save_file(
        {k: v.detach().contiguous().clone() for k, v in tensors.items()}, part / "state.safetensors"
    )
    (part / "state.json").write_text(json.dumps(extra), encoding="utf-8")
    old = folder.with_name(folder.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    part.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def load_state(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Restore a checkpoint into model and optimiser; return the counters. Raises ``ConfigError`` on
    a misfit.
    """
    tensors = load_file(folder / "state.safetensors")
    own = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
    try:
        model.load_state_dict(own)
    except RuntimeError as error:
        raise ConfigError(f"{folder} was made with another model configuration: {error}") from error
    slots: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optim."):
            _, number, name = key.split(".", 2)
            slots.setdefault(int(number), {})[name] = value
    state = optimizer.state_dict()
    state["state"] = slots
    optimizer.load_state_dict(state)
    extra: dict[str, Any] = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    return extra


def find_state(run: Path) -> Path | None:
    """Return the newest whole checkpoint of a run folder, or ``None``."""
    for name in ("state", "state.old"):
        if (run / name / "state.json").exists():
            return run / name
    return None
