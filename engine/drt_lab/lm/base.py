"""Base LM: a stack of sliding-window attention with ALiBi, without landmarks or retrieval.

What the paper compares with as "BaseLM" and "Sliding window" (arXiv 2410.01651, section 4.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from drt_engine.config.model import ModelConfig
from drt_engine.model.attention import alibi_slopes
from drt_engine.model.cache import WindowCache
from drt_engine.model.drt import LowerLayer
from drt_engine.model.layers import RMSNorm
from drt_engine.model.protocol import LanguageModel
from drt_lab.lm.held import held_bytes

_TOKENS_AT_ONCE = 128  # room for new tokens in the ring buffers, beyond the window


class BaseLM(LanguageModel):
    """``config.layers`` layers of a DRT's lower stack, from the embeddings to the logits."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.layers = nn.ModuleList(LowerLayer(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width)

    def forward(
        self,
        chunks: Tensor,
        valid: Tensor,
        *,
        generator: torch.Generator | None = None,  # noqa: ARG002  nothing here is drawn
    ) -> Tensor:
        """Return the last states [B, C, S+1, E]; the slots of landmarks are zeros."""
        x, exists = self.embed(chunks.flatten(1)), valid.flatten(1)
        for layer in self.layers:
            x = self.run(layer, x, exists)
        return drop_landmarks(self.norm(x), chunks.shape[2])

    def begin(self, *, dtype: torch.dtype) -> WindowState:
        """Return the state of an empty stream."""
        return WindowState(self, dtype=dtype)


class WindowState:
    """The window of one stream in every layer of a ``BaseLM``; a ``DecodingState``."""

    def __init__(self, model: BaseLM, *, dtype: torch.dtype) -> None:
        config = model.config
        self._model = model
        self._window = WindowCache(
            (config.layers, config.kv_heads, config.head_size),
            alibi_slopes(config.heads).to(model.embedding.weight.device),
            window=config.window,
            room=_TOKENS_AT_ONCE,
            dtype=dtype,
        )

    @property
    def position(self) -> int:
        """How many tokens were read."""
        return self._window.position

    @property
    def state_bytes(self) -> int:
        """Bytes of all tensors that are kept for the next token."""
        return held_bytes(self)

    def prefill(self, ids: Sequence[int]) -> Tensor:
        """Read tokens; return their last states [T, E]."""
        pieces = range(0, len(ids), _TOKENS_AT_ONCE)
        return torch.cat([self._read(ids[at : at + _TOKENS_AT_ONCE]) for at in pieces])

    def step(self, token: int) -> Tensor:
        """Read one token; return the logits [V] of the next, fp32."""
        return self._model.logits(self._read([token]))[0].float()

    def close(self) -> None:
        """Do nothing: there are no chunks."""

    def _read(self, ids: Sequence[int]) -> Tensor:
        model = self._model
        self._window.begin(len(ids))
        x = model.embed(torch.tensor([ids], device=model.embedding.weight.device))  # [1, T, E]
        for number, layer in enumerate(model.layers):
            x = layer.step(x, self._window, number)  # type: ignore[operator]
        return model.norm(x)[0]  # type: ignore[no-any-return]


def drop_landmarks(states: Tensor, chunk: int) -> Tensor:
    """Cut states [B, T, E] into chunks with zeros at the slots of landmarks, [B, C, S+1, E]."""
    return nn.functional.pad(states.unflatten(1, (-1, chunk)), (0, 0, 0, 1))
