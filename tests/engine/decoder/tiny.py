"""A tiny decoder with a tokenizer of single bytes, and passages of a text."""

from __future__ import annotations

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor

from drt_engine.decoder.config import DecoderConfig
from drt_engine.decoder.model import RetrievalDecoder
from drt_engine.retrieval.passages import Passage
from drt_engine.store.types import ChunkRow

TINY = DecoderConfig(
    name="decoder-tiny",
    vocab=300,
    width=32,
    lower_layers=2,
    upper_layers=2,
    heads=4,
    kv_heads=2,
    mlp=48,
    chunk=8,
    retrieved=2,
    window=16,
    gap=4,
)
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def tiny_tokenizer() -> tokenizers.Tokenizer:
    """Return bytes as tokens, with the control tokens of a chat model before them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*CONTROL, *alphabet])}
    inner = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def tiny_decoder(seed: int = 0) -> RetrievalDecoder:
    """Return a decoder with random weights."""
    torch.manual_seed(seed)
    return RetrievalDecoder(TINY).eval()


def spread_decoder() -> RetrievalDecoder:
    """Return a decoder with random weights whose probabilities differ."""
    model = tiny_decoder(4)
    model.embedding.weight.data.mul_(20)
    return model


def passages_of(text: str, starts: list[int], probabilities: list[float]) -> list[Passage]:
    """Return the chunks of a text that begin at some characters, each with its neighbours."""
    edges = [*starts, len(text)]
    nothing = torch.zeros(0, dtype=torch.long)
    found = []
    for number, probability in enumerate(probabilities):
        start, end = edges[number], edges[number + 1]
        first = edges[max(0, number - 1)]
        last = edges[min(len(edges) - 1, number + 2)]
        row = ChunkRow(number, "d", number, start, text[start:end], None, None)
        found.append(
            Passage(
                row,
                nothing,
                nothing,
                nothing,
                nothing,
                text[first:last],
                first,
                score=0.0,
                probability=probability,
                by="both",
            )
        )
    return found


def chunk_states(model: RetrievalDecoder, ids: Tensor) -> Tensor:
    """Return the lower states [C, S, E] of a document's consecutive chunks of ids [C, S]."""
    return model.lower_states(ids.flatten()[None])[0].view(*ids.shape, -1)
