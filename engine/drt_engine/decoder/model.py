"""The decoder: lower stack, deep chunk memory, upper stack; tokens in, states and logits out.

1. The lower stack reads a document with a sliding window; its states of each chunk are stored.
2. The upper layers' own keys and values of a stored chunk depend on no question. ``remember``
   computes them when a chunk is first retrieved, each chunk by itself.
3. A prompt goes through both stacks; in the upper one, every layer reads the memory of the
   retrieved chunks beside its window, weighed by their retrieval probabilities.

Without memory the model is the pretrained language model with a sliding window. Knows nothing of
text, files or libraries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from drt_engine.decoder.config import DecoderConfig
from drt_engine.decoder.layer import DecoderLayer, LayerMemory, Past
from drt_engine.model.layers import RMSNorm


@dataclass(frozen=True)
class DeepMemory:
    """Memory of P chunks for all U upper layers: ``keys``, ``values`` [U, P, Hk, S, D].

    ``mask`` [P, S] says which tokens exist.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Reading:
    """What each of B rows reads: chunks ``index`` [B, R] of a memory, weighed by ``log_weight``.

    Where all rows of a prompt read the same, B may be 1.
    """

    memory: DeepMemory
    index: Tensor
    log_weight: Tensor
    _layers: dict[int, LayerMemory] = field(default_factory=dict, repr=False, compare=False)

    def layer(self, number: int) -> LayerMemory:
        """Return what upper layer ``number`` reads, laid out once."""
        if number not in self._layers:
            bias = torch.where(self.memory.mask[self.index], 0.0, -torch.inf)
            keys, values = (
                of_chunks[number][self.index].transpose(1, 2).flatten(2, 3)
                for of_chunks in (self.memory.keys, self.memory.values)
            )
            self._layers[number] = LayerMemory(keys, values, bias + self.log_weight[..., None])
        return self._layers[number]

    def rows(self, rows: Tensor) -> Reading:
        """Return what some rows read, repeated or reordered."""
        if len(self.index) == 1:
            return self
        return Reading(self.memory, self.index[rows], self.log_weight[rows])


@dataclass(frozen=True)
class DecoderState:
    """A prompt that was read so far: its window in every layer, and its number of tokens."""

    past: tuple[Past, ...]
    position: int
    reading: Reading | None


class RetrievalDecoder(nn.Module):
    """See ``DecoderConfig`` for its shape."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.lower = nn.ModuleList(DecoderLayer(config) for _ in range(config.lower_layers))
        self.upper = nn.ModuleList(DecoderLayer(config) for _ in range(config.upper_layers))
        self.norm = RMSNorm(config.width)

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return self.embedding.weight.device

    def lower_states(self, ids: Tensor) -> Tensor:
        """Return the states [B, T, E] after the lower stack of token ids [B, T]."""
        x: Tensor = self.embedding(ids)
        positions = torch.arange(ids.shape[1], device=ids.device)
        for layer in self.lower:
            x, _ = layer(x, positions)
        return x

    def remember(self, states: Tensor, mask: Tensor) -> DeepMemory:
        """Return the memory of P chunks with lower states [P, S, E] and ``mask`` [P, S].

        Padding comes last in a chunk, where no other token sees it.
        """
        keys, values = [], []
        places = torch.arange(states.shape[1], device=states.device)
        for number, layer in enumerate(self.upper):
            assert isinstance(layer, DecoderLayer)
            k, v = layer.memory_of(states)
            keys.append(k)
            values.append(v)
            if number + 1 < len(self.upper):
                states, _ = layer(states, places)
        return DeepMemory(torch.stack(keys), torch.stack(values), mask)

    def upper_states(self, x: Tensor, reading: Reading | None) -> Tensor:
        """Return the normalised states [B, T, E] after the upper stack of lower states."""
        positions = torch.arange(x.shape[1], device=x.device)
        for number, layer in enumerate(self.upper):
            memory = None if reading is None else reading.layer(number)
            x, _ = layer(x, positions, memory=memory)
        return self.norm(x)  # type: ignore[no-any-return]

    def forward(self, ids: Tensor, reading: Reading | None = None) -> Tensor:
        """Return the last states [B, T, E] of prompts [B, T], all of which read ``reading``."""
        return self.upper_states(self.lower_states(ids), reading)

    def logits(self, states: Tensor) -> Tensor:
        """Return next-token logits [.., V], by the tied embeddings."""
        # One product: for a part of a batch PyTorch makes one of each row, 5 to 100 times slower.
        rows = states.reshape(-1, states.shape[-1])
        return F.linear(rows, self.embedding.weight).view(*states.shape[:-1], -1)

    def open(self, reading: Reading | None) -> DecoderState:
        """Return the state of an empty prompt that reads ``reading``."""
        return DecoderState((), 0, reading)

    def feed(
        self, state: DecoderState, ids: Tensor, *, shares: list[Tensor] | None = None
    ) -> tuple[Tensor, DecoderState]:
        """Read further tokens [B, T]; return their last states [B, T, E], and the state.

        The same numbers as ``forward`` over all of a prompt at once, as long as memory is read by
        tokens at most a window apart. ``shares`` gets, for each upper layer, the share [B, T, R] of
        its attention that each chunk has, a mean over heads.
        """
        tokens = ids.shape[1]
        positions = torch.arange(tokens, device=ids.device) + state.position
        x: Tensor = self.embedding(ids)
        past: list[Past] = []
        layers: Sequence[nn.Module] = [*self.lower, *self.upper]
        for number, layer in enumerate(layers):
            upper = number - len(self.lower)
            memory = None
            if upper >= 0 and state.reading is not None:
                memory = state.reading.layer(upper)
            x, end = layer(
                x,
                positions,
                memory=memory,
                past=state.past[number] if state.past else None,
                shares=shares,
            )
            past.append(end)
        following = replace(state, past=tuple(past), position=state.position + tokens)
        return self.norm(x), following
