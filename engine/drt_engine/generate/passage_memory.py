"""Chunk memory of retrieved passages for the decoder, and where each of its tokens is.

A chunk's lower states depend on its document alone. They are kept while they fit into a cache, so
that a second question about a place computes the upper layers' keys and values only.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import tokenizers
import torch
from torch import Tensor

from drt_engine.decoder.config import CONFIG
from drt_engine.decoder.model import Reading, RetrievalDecoder
from drt_engine.decoder.saved import load_decoder
from drt_engine.errors import ConfigError
from drt_engine.retrieval.passages import Passage
from drt_engine.runtime import Runtime

DECODER = "decoder"  # the folder inside a model's
_KEPT_CHUNKS = 4096  # of the cache: some 80 bytes a character of text in fp16
_FOLLOWING = 32  # tokens behind a chunk that a quote which begins in it may go on with


@dataclass(frozen=True)
class ChunkText:
    """A chunk as the decoder's tokens: ``ids``, their ``spans`` in the document, their states.

    The last ``following`` ids are behind the chunk and have no states. ``states`` [T, E].
    """

    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    following: int
    states: Tensor

    @property
    def tokens(self) -> int:
        """Tokens of the chunk itself."""
        return len(self.ids) - self.following


@dataclass(frozen=True)
class PassageMemory:
    """What the decoder reads for one question, ``None`` of nothing, and the chunks it is from.

    A chunk of more tokens than the decoder's is several rows of its memory: ``rows`` are their
    numbers.
    """

    reading: Reading | None
    chunks: tuple[ChunkText, ...]
    rows: tuple[range, ...] = ()


def passage_reader(runtime: Runtime) -> PassageReader | None:
    """Return the reader of a model folder's decoder, loaded once; ``None`` where it has none.

    It computes where the model does, and in its type. Raises ``WeightsError`` for a broken decoder.
    """
    if not has_decoder(runtime):
        return None
    return _loaded(runtime.folder / DECODER, runtime.dtype, runtime.device)


def decoder_parameters(runtime: Runtime) -> int:
    """Load a model folder's decoder anew; return its number of parameters, 0 where it has none.

    Raises ``WeightsError`` for a broken decoder.
    """
    if not has_decoder(runtime):
        return 0
    model = load_decoder(runtime.folder / DECODER, dtype=torch.bfloat16).model
    return sum(parameter.numel() for parameter in model.parameters())


def writer_of(runtime: Runtime) -> PassageReader:
    """Return the reader of a model folder's decoder; ``ConfigError`` where it has none."""
    decoder = passage_reader(runtime)
    if decoder is None:
        raise ConfigError(
            f"the model {runtime.name} has no decoder, so it quotes and does not write;"
            " use the mode 'quote' or 'extractive', or a model with a decoder"
        )
    return decoder


def has_decoder(runtime: Runtime) -> bool:
    """Return whether a model folder holds a decoder, without loading it."""
    return (runtime.folder / DECODER / CONFIG).exists()


@lru_cache(maxsize=2)
def _loaded(folder: Path, dtype: torch.dtype, device: torch.device) -> PassageReader:
    saved = load_decoder(folder, dtype=dtype)
    return PassageReader(saved.model.to(device), saved.tokenizer)


@dataclass
class PassageReader:
    """Turns passages into chunk memory; several threads may share one."""

    model: RetrievalDecoder
    tokenizer: tokenizers.Tokenizer
    prior: float = 1.0
    _kept: OrderedDict[tuple[str, int, int], ChunkText] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, passages: Sequence[Passage]) -> PassageMemory:
        """Return the memory of passages, weighed by their retrieval probabilities.

        A chunk of more tokens than the decoder's is read as several of equal weight; ``prior`` is
        the power that probabilities are raised to.
        """
        chunks = self._chunks(passages)
        states: list[Tensor] = []
        weights: list[float] = []
        rows: list[range] = []
        size = self.model.config.chunk
        for passage, chunk in zip(passages, chunks, strict=True):
            count = -(-chunk.tokens // size)
            weight = self.prior * math.log(max(passage.probability, 1e-6))
            rows.append(range(len(states), len(states) + count))
            for piece in chunk.states.float().tensor_split(count) if count else ():
                states.append(piece)
                weights.append(weight)
        if not states:
            return PassageMemory(None, tuple(chunks))
        padded = torch.nn.utils.rnn.pad_sequence(states, batch_first=True)  # [P, S, E]
        lengths = torch.tensor([len(s) for s in states])
        mask = torch.arange(padded.shape[1])[None] < lengths[:, None]
        device, dtype = self.model.device, self.model.embedding.weight.dtype
        memory = self.model.remember(padded.to(device, dtype), mask.to(device))
        index = torch.arange(len(states), device=device)[None]
        reading = Reading(memory, index, torch.tensor([weights], device=device))
        return PassageMemory(reading, tuple(chunks), tuple(rows))

    def _chunks(self, passages: Sequence[Passage]) -> list[ChunkText]:
        keys = [(p.row.document_id, p.row.start, len(p.text)) for p in passages]
        with self._lock:
            memories = {key: self._kept[key] for key in keys if key in self._kept}
        missing = [(k, p) for k, p in zip(keys, passages, strict=True) if k not in memories]
        if missing:
            memories |= dict(
                zip((k for k, _ in missing), self._computed([p for _, p in missing]), strict=True)
            )
        with self._lock:
            for key in keys:
                self._kept[key] = memories[key]
                self._kept.move_to_end(key)
            while len(self._kept) > _KEPT_CHUNKS:
                self._kept.popitem(last=False)
        return [memories[key] for key in keys]

    def _computed(self, passages: Sequence[Passage]) -> list[ChunkText]:
        """Compute chunks from their texts; the chunk before warms the window up."""
        rows: list[tuple[list[int], list[tuple[int, int]], int, int]] = []
        for passage in passages:
            encoding = self.tokenizer.encode(passage.text, add_special_tokens=False)
            base = passage.text_start
            spans = [(base + a, base + b) for a, b in encoding.offsets]
            start, end = passage.row.start, passage.row.start + len(passage.row.text)
            first = next((n for n, (_, b) in enumerate(spans) if b > start), len(spans))
            stop = next((n for n, (a, _) in enumerate(spans) if a >= end), len(spans))
            rows.append((list(encoding.ids), spans, first, stop))
        longest = max(max(stop for *_, stop in rows), 1)
        ids = torch.full((len(rows), longest), self.model.config.end_id)
        for number, (row, _, _, stop) in enumerate(rows):
            ids[number, :stop] = torch.tensor(row[:stop], dtype=torch.long)
        states = self.model.lower_states(ids.to(self.model.device))
        computed = []
        for number, (row, spans, first, stop) in enumerate(rows):
            last = min(len(row), stop + _FOLLOWING)
            computed.append(
                ChunkText(
                    tuple(row[first:last]),
                    tuple(spans[first:last]),
                    last - stop,
                    states[number, first:stop].to("cpu", torch.float16, copy=True),
                )
            )
        return computed
