"""Models by the name of their architecture: new ones, those of a folder, and their streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, cast

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.model.drt import DRT
from drt_engine.model.frozen import Ranking
from drt_engine.model.protocol import LanguageModel
from drt_engine.model.weights import load_as
from drt_engine.text.tokenizer import Tokenizer
from drt_lab.lm.base import BaseLM
from drt_lab.lm.block_recurrent import BlockRecurrentLM
from drt_lab.lm.chunk_store import ChunkStore, Place
from drt_lab.lm.drt_state import DRTState
from drt_lab.lm.fixed_retriever import FixedRetriever
from drt_lab.lm.landmark_attention import LandmarkLM
from drt_lab.lm.rpt import RPT

MODELS: dict[str, Callable[[ModelConfig], LanguageModel]] = {
    "drt": DRT,
    "base": BaseLM,
    "landmark": LandmarkLM,
    "block-recurrent": BlockRecurrentLM,
    "rpt": RPT,
}


class DecodingState(Protocol):
    """One stream that a model has read so far, and can continue: caches, memory, position."""

    @property
    def position(self) -> int:
        """How many tokens were read, without landmarks."""
        ...

    @property
    def state_bytes(self) -> int:
        """Bytes of everything that is kept in memory for the next token; weights do not count."""
        ...

    def prefill(self, ids: Sequence[int]) -> Tensor:
        """Read tokens, as many as there are; return their last states [T, E].

        Reading a stream in pieces gives the states of ``LanguageModel.forward`` over all of it.
        """
        ...

    def step(self, token: int) -> Tensor:
        """Read one token; return the logits [V] of the next, fp32."""
        ...

    def close(self) -> None:
        """End the chunk that is open, as padding it would; without effect where there is none."""
        ...


class _Beginning(Protocol):
    def begin(self, *, dtype: torch.dtype) -> DecodingState: ...


def make_model(config: ModelConfig) -> LanguageModel:
    """Return a new model of ``config.architecture``."""
    return MODELS[config.architecture](config)


def add_retriever(model: LanguageModel, tokenizer: Tokenizer, *, cache: Path | None = None) -> None:
    """Give a model with the fixed retriever its encoder; ``cache``: a folder for the vectors."""
    if isinstance(model, DRT) and model.config.retriever == "fixed":
        model.chunk_vectors = FixedRetriever(model.config.retriever_model, tokenizer, cache=cache)


def load_language_model(
    folder: Path, *, dtype: torch.dtype = torch.float32
) -> tuple[LanguageModel, Tokenizer]:
    """Load a model folder of any architecture; ``WeightsError`` as ``load_as`` raises it."""
    model, tokenizer = load_as(make_model, folder, dtype=dtype)
    add_retriever(model, tokenizer)
    return model, tokenizer


def begin_stream(
    model: LanguageModel,
    *,
    dtype: torch.dtype = torch.float32,
    place: Place = "device",
    retrieval: bool = True,
    ranking: Ranking | None = None,
) -> DecodingState:
    """Return the state of an empty stream.

    ``dtype`` is that of the window's keys and values; ``place`` is where a DRT has the memory of
    its chunks, other models have theirs on their device. ``retrieval`` and ``ranking`` are those of
    ``DRT.forward``, and without effect on other models.
    """
    if isinstance(model, DRT):
        store = ChunkStore(model.config, place=place, retrieval=retrieval, ranking=ranking)
        return DRTState(model, dtype=dtype, store=store)
    return cast(_Beginning, model).begin(dtype=dtype)
