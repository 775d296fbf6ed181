"""A loaded model of any architecture with its tokenizer, device and compute type."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from drt_engine.config.model import ModelConfig
from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_engine.model.folder import model_folder
from drt_engine.model.int8 import round_to_int8
from drt_engine.model.layers import cast_weights
from drt_engine.model.protocol import LanguageModel
from drt_engine.runtime import Runtime, choose_device, choose_dtype, inference
from drt_engine.text.tokenizer import Tokenizer
from drt_engine.threads import set_threads
from drt_lab.lm.build import load_language_model


@dataclass(frozen=True)
class LanguageRuntime:
    """A language model in memory; nothing in it changes while it reads."""

    name: str
    model: LanguageModel
    tokenizer: Tokenizer
    dtype: torch.dtype
    device: torch.device

    @property
    def config(self) -> ModelConfig:
        """The model's configuration."""
        return self.model.config

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        device: str = "auto",
        threads: int | None = None,
        dtype: str = "auto",
    ) -> LanguageRuntime:
        """Load a shipped model by name, or any model folder; arguments as for ``Runtime.load``.

        Raises ``ConfigError`` for a ``dtype`` int8 with a model that is no DRT, too.
        """
        folder = model_folder(model)
        set_threads(threads)
        place = choose_device(device)
        compute = choose_dtype(dtype, place)
        net, tokenizer = load_language_model(folder)
        cast_weights(net, compute)
        if dtype == "int8":
            if not isinstance(net, DRT):
                raise ConfigError(
                    f"dtype int8 is for the layers by which a DRT reads, and {net.config.name} is "
                    f"of the architecture {net.config.architecture!r}; use --dtype fp32"
                )
            round_to_int8(net)
        net = net.to(place)
        return cls(net.config.name, net, tokenizer, compute, place)

    @classmethod
    def of(cls, runtime: Runtime) -> LanguageRuntime:
        """Return the same model as a language model."""
        return cls(runtime.name, runtime.model, runtime.tokenizer, runtime.dtype, runtime.device)

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Run inference: no gradients, and no autocast, whatever the caller has turned on."""
        with inference(self.device):
            yield
