"""Where a model is, shipped or not, and its tokenizer; loads no PyTorch."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from drt_engine.errors import WeightsError
from drt_engine.text.tokenizer import Tokenizer

TOKENIZER = "tokenizer.json"


def model_folder(model: str | Path) -> Path:
    """Return a shipped model's folder by its name, or the folder itself; ``WeightsError``."""
    shipped = shipped_models()
    if isinstance(model, str) and model in shipped:
        return shipped[model]
    if Path(model).is_dir():
        return Path(model)
    names = ", ".join(shipped) or "none"
    raise WeightsError(
        f"no model or model folder is called {str(model)!r}; shipped models: {names}"
    )


def shipped_models() -> dict[str, Path]:
    """Return the models inside the package by name."""
    root = Path(str(resources.files("drt_engine"))) / "weights"
    folders = sorted(root.iterdir()) if root.is_dir() else []
    return {f.name: f for f in folders if (f / "config.json").exists()}


def load_tokenizer(model: str | Path) -> Tokenizer:
    """Load the tokenizer of a model, by name or folder; ``WeightsError``, ``TokenizerError``."""
    return Tokenizer.load(model_folder(model) / TOKENIZER)
