"""The step loop: tokens go through both stacks with a window cache; chunk borders retrieve.

Computes what ``DRT.forward`` computes, a few tokens at a time; what does not depend on the tokens
is laid out once for each border. Knows nothing of text or libraries: a ``Source`` finds chunks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from drt_engine.generate.graph import Read, StepGraph
from drt_engine.model.attention import alibi_slopes
from drt_engine.model.cache import WindowCache
from drt_engine.model.drt import DRT, Encoded
from drt_engine.model.gca_layer import ChunkMemory, Retrieved, laid_out
from drt_engine.model.saved import expect_integer, expect_names, expect_numbers
from drt_engine.retrieval.sources import Retrieval, Source
from drt_kernels.decode import DecodeMemory

_TOKENS_AT_ONCE = 128  # room for new tokens in the ring buffers, beyond the window
_STEP = 4  # tokens up to which GCA is that of a decoding step


class Decoder:
    """One stream of tokens being read and written, in chunks that are closed by a landmark."""

    def __init__(
        self,
        model: DRT,
        source: Source,
        *,
        dtype: torch.dtype = torch.float32,
        graph: bool = False,
        retrieves_only: bool = False,
    ) -> None:
        """Start an empty stream; ``graph`` replays single tokens as a CUDA graph.

        With ``retrieves_only`` the upper stack is left out where it does not change what is
        retrieved, that is in a model of one group; ``feed`` then returns lower states.
        """
        config = model.config
        self.model, self.source = model, source
        self.device = model.embedding.weight.device
        # What the tokens of the open chunk read, by upper group.
        self.retrievals: list[Retrieval | None] = [None] * config.groups
        self._states: list[Tensor] = []  # lower-stack states of the open chunk
        self._laid_out: list[tuple[Retrieval, DecodeMemory] | None] = [None] * config.groups
        lower = max(config.lower_layers, 1)  # so that a state holds both stacks, whatever the model
        self._stacks = {"lower.": slice(0, lower), "upper.": slice(lower, None)}
        self.window = WindowCache(
            (lower + config.upper_layers, config.kv_heads, config.head_size),
            alibi_slopes(config.heads).to(self.device),
            window=config.window,
            room=max(_TOKENS_AT_ONCE, config.chunk),
            dtype=dtype,
        )
        self._skips_upper = retrieves_only and config.groups == 1
        self._graph: StepGraph | None = None
        if graph:
            self._graph = StepGraph(self._both, self.window, device=self.device)

    @property
    def position(self) -> int:
        """How many tokens there are so far, landmarks included."""
        return self.window.position

    @property
    def open_tokens(self) -> int:
        """How many tokens the open chunk has."""
        return sum(s.shape[1] for s in self._states)

    def feed(self, ids: Sequence[int], added: Tensor | None = None) -> Tensor:
        """Add tokens, closing every chunk that is full before the next one; return states [T, E].

        They are those after the upper stack. ``added`` [T, E] is added to the tokens' states at the
        entry of the upper stack.
        """
        size = self.model.config.chunk
        done = 0
        out: list[Tensor] = []
        while done < len(ids):
            if self.open_tokens == size:
                self.close()
            count = min(size - self.open_tokens, len(ids) - done)
            part = None if added is None else added[done : done + count]
            out.append(self._advance(ids[done : done + count], part))
            done += count
        return torch.cat(out)

    def close(self, *, retrieve: bool = True) -> Encoded:
        """End the open chunk with a landmark; return its encoding, and make it retrievable.

        Afterwards ``retrievals`` are what each group retrieved for the next chunk, or ``None``
        without ``retrieve``.
        """
        model, config = self.model, self.model.config
        x = self._lower([config.landmark_id])  # [1, 1, E]
        states = torch.cat([*self._states, x], dim=1)
        encoded = model.encode(
            states, torch.ones(states.shape[:2], dtype=torch.bool, device=self.device)
        )
        memory = model.remember(encoded)
        retrievals: list[Retrieval | None] = []
        # The landmark still reads what was retrieved for its own chunk. The query of a group is
        # the state that enters it, so groups retrieve one after the other.
        for group, read in enumerate(self._reads(1)):
            retrieval = None
            if retrieve:
                query = model.scorer.queries(x[0, -1:], encoded.landmarks, group)[0]
                retrieval = self.source.find(query, model.scorer, memory)
            retrievals.append(retrieval)
            if not self._skips_upper:
                x = self._through_group(group, x, read)
        self.retrievals = retrievals
        self.source.add(memory)
        self._states = []
        return encoded

    def logits(self, states: Tensor) -> Tensor:
        """Map upper states [T, E] to next-token logits [T, V], fp32."""
        return self.model.logits(states).float()

    def _advance(self, ids: Sequence[int], added: Tensor | None) -> Tensor:
        if self._graph is not None and len(ids) == 1 and added is None:
            lower, upper = self._graph.step(ids[0], self._reads(1))
            self._states.append(lower)
            return upper[0]
        lower = self._lower(ids)
        self._states.append(lower)
        if self._skips_upper:
            return lower[0]
        x = lower if added is None else lower + added[None].to(lower.dtype)
        for group, read in enumerate(self._reads(x.shape[1])):
            x = self._through_group(group, x, read)
        return self.model.norm(x)[0]  # type: ignore[no-any-return]

    def _both(self, ids: Tensor, read: Sequence[Read]) -> tuple[Tensor, Tensor]:
        """Return the states of token ids [1, 1] after the lower and the upper stack."""
        lower = upper = self._through_lower(ids)
        for group, group_read in enumerate(read):
            upper = self._through_group(group, upper, group_read)
        return lower, self.model.norm(upper)

    def _lower(self, ids: Sequence[int]) -> Tensor:
        self.window.begin(len(ids))
        return self._through_lower(torch.tensor([ids], device=self.device))

    def _through_lower(self, ids: Tensor) -> Tensor:
        x = self.model.embed(ids)
        for number, layer in enumerate(self.model.lower):
            x = layer.step(x, self.window, number)  # type: ignore[operator]
        return x

    def _through_group(self, group: int, x: Tensor, read: Read) -> Tensor:
        config, first = self.model.config, self._stacks["upper."].start
        count = config.upper_layers // config.groups
        for number in range(group * count, (group + 1) * count):
            x = self.model.upper[number].step(x, self.window, first + number, read)  # type: ignore[operator]
        return x

    def _reads(self, tokens: int) -> list[Read]:
        """Return what the layers of each group read for so many tokens."""
        reads: list[Read] = []
        for group, retrieval in enumerate(self.retrievals):
            if retrieval is None:
                reads.append(None)
            else:
                memory = self._decode_memory(group, retrieval) if tokens <= _STEP else None
                reads.append((retrieval.retrieved, memory))
        return reads

    def _decode_memory(self, group: int, retrieval: Retrieval) -> DecodeMemory:
        """Lay a retrieval out for single steps, once for all steps that read it."""
        current = self._laid_out[group]
        if current is None or current[0] is not retrieval:
            retrieved = retrieval.retrieved
            if self._graph is not None:
                retrieved = _gathered(retrieved)
            off_by_one = self.model.config.gca_softmax == "off-by-one"
            memory = laid_out(retrieved, off_by_one=off_by_one)
            current = self._laid_out[group] = (retrieval, memory)
        return current[1]

    def state(self) -> dict[str, Tensor]:
        """Return the window, the open chunk and the position as tensors.

        Retrieved memory is not part of it: a session ends its turns with a closed chunk.
        """
        out = {
            name + key: tensor
            for name, layers in self._stacks.items()
            for key, tensor in self.window.state(layers).items()
        }
        out["position"] = torch.tensor(self.position)
        if self._states:
            out["open"] = torch.cat(self._states, dim=1)
        return out

    def load(self, state: dict[str, Tensor]) -> None:
        """Continue from what ``state`` returned.

        It may come from a file: raises ``ValueError``, and changes nothing, where it is not what a
        decoder of this model returns, or where its numbers contradict each other.
        """
        parts = {
            name: {k.removeprefix(name): v for k, v in state.items() if k.startswith(name)}
            for name in self._stacks
        }
        stack_names = {name + key for name, part in parts.items() for key in part}
        expect_names(state.keys() - stack_names - {"open"}, ["position"])
        position = expect_integer("position", state["position"])
        for name, layers in self._stacks.items():
            self.window.check(name, layers, parts[name], position)
        self._check_open(state.get("open"), position)
        for name, layers in self._stacks.items():
            self.window.load(layers, parts[name], position)
        weight = self.model.embedding.weight
        self._states = [state["open"].to(weight)] if "open" in state else []

    def _check_open(self, states: Tensor | None, position: int) -> None:
        if states is None:
            return
        config, tokens = self.model.config, states.shape[1] if states.dim() == 3 else 0
        expect_numbers("open", states, (1, tokens, config.width))
        if not 1 <= tokens <= min(config.chunk, position):
            raise ValueError(
                f"open holds {tokens} tokens of {position}, expected 1 to {config.chunk}"
            )


def _gathered(retrieved: Retrieved) -> Retrieved:
    """Return the same with a memory of the retrieved chunks alone, R of them at every border.

    A graph needs tensors of a fixed shape.
    """
    index, memory = retrieved.index[0, 0], retrieved.memory
    gathered = ChunkMemory(
        memory.keys[index], memory.values[index], memory.mask[index], memory.landmarks[:0]
    )
    places = torch.arange(len(index), device=index.device).view_as(retrieved.index)
    return Retrieved(gathered, places, retrieved.scores, retrieved.probabilities)
