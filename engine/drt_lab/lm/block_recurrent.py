"""Block-Recurrent Transformer: a recurrent state that is written once a block (arXiv 2203.07852).

A Base LM, one layer of which, three quarters up, also reads and writes ``state_tokens`` state
vectors. A block has ``window`` tokens. The tokens of a block attend to the state as the block
before has left it; after the block the state attends to itself and to the keys and values of the
block's tokens, and an LSTM gate decides what it keeps. That is the paper's cell without MLP
("skip"). The vectors that tell state vectors apart are added to their queries and keys alone, so
that a state of zeros adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from drt_engine.config.model import ModelConfig
from drt_engine.model.attention import WindowAttention, alibi_slopes
from drt_engine.model.cache import WindowCache
from drt_engine.model.drt import LowerLayer
from drt_engine.model.layers import RMSNorm, SwiGLU, linear
from drt_engine.model.protocol import LanguageModel
from drt_lab.lm.base import drop_landmarks
from drt_lab.lm.held import held_bytes

_TOKENS_AT_ONCE = 128  # room for new tokens in the ring buffers, beyond the window


class RecurrentLayer(nn.Module):
    """Pre-norm window attention beside attention to the state, and MLP; and the state's cell."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.size, self.window = config.heads, config.head_size, config.window
        self.attention = WindowAttention(
            config.width, config.heads, config.kv_heads, window=config.window, out_scale=0.5
        )
        self.state_query = linear(config.width, config.width)
        self.state_out = linear(config.width, config.width, scale=0.5)
        self.norm = RMSNorm(config.width)
        self.mlp = SwiGLU(config.width, config.mlp, out_scale=0.5)
        self.cell = RecurrentCell(config)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Return the states after the layer, [B, T, E]; ``valid`` [B, T], padding only behind."""
        query, keys, values = self.attention.project(x)  # the cell reads keys and values, too
        added = self.attention.attend_projected(query, keys, values, valid)
        state = self.cell.start(len(x), x)
        pieces = []
        for at in range(0, x.shape[1], self.window):
            block = slice(at, at + self.window)
            pieces.append(self.read(x[:, block], state))
            if at + self.window < x.shape[1]:
                state = self.cell(state, keys[:, block], values[:, block])
        return self.finish(x, added + torch.cat(pieces, dim=1))

    def read(self, x: Tensor, state: Tensor) -> Tensor:
        """Return what tokens [B, T, E] gain from the state [B, N, E]."""
        query = self.state_query(self.attention.norm(x)).unflatten(-1, (self.heads, self.size))
        return self.state_out(attend(query, *self.cell.memory(state)).flatten(2))  # type: ignore[no-any-return]

    def finish(self, x: Tensor, added: Tensor) -> Tensor:
        """Return the states after both attentions, which ``added`` is the sum of, and the MLP."""
        x = x + added
        return x + self.mlp(self.norm(x))  # type: ignore[no-any-return]


class RecurrentCell(nn.Module):
    """The state's own attention and gate (section 3.1 of the paper)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width, memory = config.width, config.kv_heads * config.head_size
        self.heads, self.size = config.heads, config.head_size
        self.norm = RMSNorm(width)
        self.places = nn.Parameter(torch.randn(config.state_tokens, width) * width**-0.5)
        self.query = linear(width, 2 * width)  # to the state itself, and to the tokens
        self.key = linear(width, memory)
        self.value = linear(width, memory)
        self.out = linear(2 * width, width)
        self.gate = linear(width, 3 * width, bias=True)

    def start(self, batch: int, like: Tensor) -> Tensor:
        """Return the state before the first block, zeros [B, N, E]."""
        return like.new_zeros(batch, *self.places.shape)

    def memory(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values [B, N, Hk, D] of a state [B, N, E]."""
        normal = self.norm(state)
        keys = self.key(normal + self.places.to(state.dtype)).unflatten(-1, (-1, self.size))
        return keys, self.value(normal).unflatten(-1, (-1, self.size))

    def forward(self, state: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return the state [B, N, E] after a block with ``keys`` and ``values`` [B, T, Hk, D]."""
        queries = self.query(self.norm(state) + self.places.to(state.dtype))
        to_state, to_tokens = queries.unflatten(-1, (2 * self.heads, self.size)).chunk(2, dim=2)
        heads = [attend(to_state, *self.memory(state)), attend(to_tokens, keys, values)]
        gates = self.gate(self.out(torch.cat(heads, dim=2).flatten(2)))
        candidate, write, keep = gates.chunk(3, dim=-1)
        # Starts out keeping what there is, and writing little.
        return state * (keep + 1).sigmoid() + candidate.tanh() * (write - 1).sigmoid()  # type: ignore[no-any-return]


def attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend to all keys, [B, T, H, D] to [B, U, Hk, D] -> [B, T, H, D]."""
    shared = query.shape[2] // keys.shape[2]
    k, v = (t.to(query.dtype).repeat_interleave(shared, dim=2) for t in (keys, values))
    scores = torch.einsum("bthd,buhd->bhtu", query * query.shape[-1] ** -0.5, k)
    return torch.einsum("bhtu,buhd->bthd", scores.softmax(dim=-1), v)


class BlockRecurrentLM(LanguageModel):
    """``config.layers`` layers of window attention, one of them recurrent."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        recurrent = config.layers * 3 // 4
        self.layers = nn.ModuleList(
            RecurrentLayer(config) if number == recurrent else LowerLayer(config)
            for number in range(config.layers)
        )
        self.norm = RMSNorm(config.width)

    def forward(
        self,
        chunks: Tensor,
        valid: Tensor,
        *,
        generator: torch.Generator | None = None,  # noqa: ARG002  nothing here is drawn
    ) -> Tensor:
        """Return the last states [B, C, S+1, E]; the slots of landmarks are zeros."""
        exists = valid.flatten(1)
        # Blocks count tokens that exist: those come first, in their order.
        order = (~exists).to(torch.int8).argsort(dim=1, stable=True)  # [B, T]
        x, exists = self.embed(chunks.flatten(1).gather(1, order)), exists.gather(1, order)
        for layer in self.layers:
            x = self.run(layer, x, exists)
        back = order.argsort(dim=1)[..., None].expand_as(x)
        return drop_landmarks(self.norm(x).gather(1, back), chunks.shape[2])

    def begin(self, *, dtype: torch.dtype) -> RecurrentState:
        """Return the state of an empty stream; keys and values are in ``dtype``."""
        return RecurrentState(self, dtype=dtype)


class RecurrentState:
    """The window of every layer, the recurrent state and the open block; a ``DecodingState``."""

    def __init__(self, model: BlockRecurrentLM, *, dtype: torch.dtype) -> None:
        config, weight = model.config, model.embedding.weight
        self._model = model
        self._window = WindowCache(
            (config.layers, config.kv_heads, config.head_size),
            alibi_slopes(config.heads).to(weight.device),
            window=config.window,
            room=_TOKENS_AT_ONCE,
            dtype=dtype,
        )
        self._state = weight.new_zeros(1, config.state_tokens, config.width)
        self._block: list[tuple[Tensor, Tensor]] = []  # keys and values of the open block

    @property
    def position(self) -> int:
        """How many tokens were read."""
        return self._window.position

    @property
    def state_bytes(self) -> int:
        """Bytes of all tensors that are kept for the next token, the open block included."""
        return held_bytes(self)

    def prefill(self, ids: Sequence[int]) -> Tensor:
        """Read tokens; return their last states [T, E]."""
        window, done = self._model.config.window, 0
        states = []
        while done < len(ids):
            count = min(window - self.position % window, _TOKENS_AT_ONCE)
            states.append(self._read(ids[done : done + count]))
            done += count
        return torch.cat(states)

    def step(self, token: int) -> Tensor:
        """Read one token; return the logits [V] of the next, fp32."""
        return self._model.logits(self._read([token]))[0].float()

    def close(self) -> None:
        """Do nothing: blocks are closed by their number of tokens alone."""

    def _read(self, ids: Sequence[int]) -> Tensor:
        """Read tokens of one block; return their states [T, E]."""
        model = self._model
        begins_block = self.position > 0 and self.position % model.config.window == 0
        self._window.begin(len(ids))
        x = model.embed(torch.tensor([ids], device=model.embedding.weight.device))
        for number, layer in enumerate(model.layers):
            if not isinstance(layer, RecurrentLayer):
                x = layer.step(x, self._window, number)  # type: ignore[operator]
                continue
            if begins_block:
                keys, values = (torch.cat(parts, dim=1) for parts in zip(*self._block, strict=True))
                self._state, self._block = layer.cell(self._state, keys, values), []
            q, k, v = layer.attention.project(x)
            self._block.append((k, v))
            added = layer.attention.out(self._window.attend(number, q, k, v))
            x = layer.finish(x, added + layer.read(x, self._state))
        return model.norm(x)[0]  # type: ignore[no-any-return]
