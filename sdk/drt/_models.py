"""The models on this machine: those in the package, and any folder with the same files.

Lists and shows without torch; ``verify_model`` loads.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from . import _engine
from ._errors import ModelError, engine_errors
from ._types import ModelInfo


def models() -> list[ModelInfo]:
    """Return the models that come with the package."""
    folder = _engine.weights_folder()
    folders = sorted(folder.iterdir()) if folder.is_dir() else []
    return [_describe(path) for path in folders if (path / "config.json").is_file()]


def model_info(model: str | os.PathLike[str] = "drt-small-en") -> ModelInfo:
    """Return one model by name or folder, with its card; raises ``ModelError`` if there is none."""
    for folder in (Path(model), _engine.weights_folder() / model):
        if (folder / "config.json").is_file():
            return _describe(folder)
    names = ", ".join(info.name for info in models()) or "none"
    raise ModelError(
        f"there is no model {os.fspath(model)!r}; "
        f"name a folder with a config.json or one of the models here: {names}."
    )


def verify_model(model: str | os.PathLike[str] = "drt-small-en") -> ModelInfo:
    """Load a model on the CPU and check its files, a decoder's too, against their configuration.

    ``parameters`` counts both. Raises ``ModelError`` for a file that is missing or broken.
    """
    info = model_info(model)
    with engine_errors():
        runtime = _engine.load_runtime(Path(info.path), device="cpu", threads=None)
        count = sum(parameter.numel() for parameter in runtime.model.parameters())
        return ModelInfo(
            name=info.name,
            path=info.path,
            bytes=info.bytes,
            card=info.card,
            parameters=count + _engine.decoder_parameters(runtime),
            fingerprint=runtime.fingerprint,
        )


def convert_model(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    dtype: Literal["bf16", "fp32"] = "bf16",
) -> Path:
    """Import an encoder as a model of drt, or export a model of drt as plain tensors.

    A folder with a BERT-like encoder of Hugging Face (safetensors, never pickles) becomes a model
    folder that finds passages and can be trained to answer. A model, by name or folder, becomes
    safetensors and JSON under plain names, which need no drt. Returns ``out``, a new folder.
    """
    with engine_errors():
        named = source if isinstance(source, str) else Path(source)
        return _engine.convert(named, Path(out), dtype=dtype)


def _describe(folder: Path) -> ModelInfo:
    card = folder / "MODEL_CARD.md"
    return ModelInfo(
        name=folder.name,
        path=str(folder),
        bytes=sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
        card=card.read_text(encoding="utf-8") if card.is_file() else "",
    )
