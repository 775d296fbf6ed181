"""A tape of one question's way through the model: its queries, and the attention of its tokens.

The model computes the same with and without a tape, so every number of a trace is one that the
answer was made with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from drt_engine.generate.decode import Decoder
from drt_engine.model.gca_layer import ChunkMemory, GroupedCrossAttention, Retrieved
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.retrieval.library import LibrarySource
from drt_engine.retrieval.sources import Retrieval
from drt_engine.runtime import Runtime
from drt_kernels.gca.reference import plain_softmax, softmax_off_by_one

Hook = Callable[[nn.Module, tuple[Tensor, Retrieved], Tensor], None]


class Tape:
    """Records how one question went through the model: queries, and attention of every token.

    Use ``decoder`` in place of ``Decoder`` and answer inside ``watching``.
    """

    def __init__(self) -> None:
        self.queries: list[Tensor] = []  # [E] of each retrieval
        self.fed: list[int] = []  # token ids
        self._retrievals: list[Retrieval | None] = []
        # By number of the layer: for each call, the number of the retrieval and attention [T, R].
        self._masses: dict[int, list[tuple[int, Tensor]]] = {}

    def decoder(self, runtime: Runtime, source: LibrarySource) -> Decoder:
        """Return a decoder that finds chunks in ``source`` and is recorded."""
        return _RecordedDecoder(runtime, source, self)

    @contextmanager
    def watching(self, runtime: Runtime) -> Iterator[None]:
        """Record what the upper layers do inside the block."""
        layers = [m for m in runtime.model.modules() if isinstance(m, GroupedCrossAttention)]
        handles = [
            layer.register_forward_hook(self._hook(number)) for number, layer in enumerate(layers)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def add_retrieval(self, query: Tensor, retrieval: Retrieval | None) -> None:
        """Keep the query [E] of a landmark and what it retrieved."""
        self.queries.append(query.detach().float().cpu())
        self._retrievals.append(retrieval)

    def masses(self, layers: range) -> list[tuple[int, Tensor]]:
        """Return, for each token that read chunks, the retrieval's number and its attention [R].

        Averaged over ``layers``, which read the same chunks; landmark tokens are included.
        """
        by_layer = [
            [(number, row) for number, rows in self._masses.get(layer, []) for row in rows]
            for layer in layers
        ]
        return [
            (of_token[0][0], torch.stack([row for _, row in of_token]).mean(0))
            for of_token in zip(*by_layer, strict=True)
        ]

    def _hook(self, layer: int) -> Hook:
        def hook(module: nn.Module, inputs: tuple[Tensor, Retrieved], _: Tensor) -> None:
            assert isinstance(module, GroupedCrossAttention)
            states, retrieved = inputs
            # By identity: the same model may be answering another question in another thread.
            numbers = [
                number
                for number, retrieval in enumerate(self._retrievals)
                if retrieval and retrieval.retrieved is retrieved
            ]
            if numbers:
                mass = attention(module, states, retrieved).sum(-1).mean(1)  # [T, R]
                self._masses.setdefault(layer, []).append((numbers[0], mass.cpu()))

        return hook


class _RecordedDecoder(Decoder):
    """A decoder that records on a tape what is fed and retrieved."""

    def __init__(self, runtime: Runtime, source: LibrarySource, tape: Tape) -> None:
        super().__init__(runtime.model, _RecordedSource(source, tape), dtype=runtime.dtype)
        self._tape = tape

    def feed(self, ids: Sequence[int], added: Tensor | None = None) -> Tensor:
        self._tape.fed += ids
        return super().feed(ids, added)


@dataclass(frozen=True)
class _RecordedSource:
    """A source that records on a tape each query and what it retrieves."""

    source: LibrarySource
    tape: Tape

    def find(
        self, query: Tensor, scorer: LandmarkScorer, query_chunk: ChunkMemory
    ) -> Retrieval | None:
        retrieval = self.source.find(query, scorer, query_chunk)
        self.tape.add_retrieval(query, retrieval)
        return retrieval

    def add(self, memory: ChunkMemory) -> None:
        self.source.add(memory)


def attention(layer: GroupedCrossAttention, states: Tensor, retrieved: Retrieved) -> Tensor:
    """Return the weights [T, H, R, S] by which a layer adds up retrieved values.

    They are the attention weights within each chunk times its retrieval probability, computed
    again in plain PyTorch from the layer's input ``states`` [1, 1, T, E]: kernels keep none.
    """
    query = layer.query(layer.norm(states)).unflatten(-1, (layer.heads, layer.size))[0, 0]
    memory, index = retrieved.memory, retrieved.index[0, 0]  # [R]
    normalise = softmax_off_by_one if layer.off_by_one else plain_softmax
    keys = memory.keys[index].to(query.dtype).float()  # [R, S, Hk, D]
    keys = keys.repeat_interleave(layer.heads // keys.shape[2], dim=2)  # [R, S, H, D]
    scores = torch.einsum("thd,rshd->thrs", query.float(), keys) * layer.size**-0.5
    scores = scores.masked_fill(~memory.mask[index][None, None], float("-inf"))
    return normalise(scores) * retrieved.probabilities[0, 0].float()[None, None, :, None]
