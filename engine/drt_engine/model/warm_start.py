"""Chunk-encoder weights from a BERT-like folder (``model.safetensors``, whole or in shards)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from drt_engine.config.model import ModelConfig, ReaderConfig
from drt_engine.errors import WeightsError
from drt_engine.model.chunk_encoder import BertBlock
from drt_engine.model.drt import DRT
from drt_engine.model.weights import packed_tensors
from drt_engine.text.tokenizer import Tokenizer

# Our special tokens start as the tokens that played the nearest part.
_STAND_INS = {"landmark_id": 102, "answer_id": 101, "end_id": 102}


@torch.no_grad()
def warm_start(model: DRT, folder: Path) -> None:
    """Copy embeddings and encoder blocks of a BERT-like model.

    Raises ``WeightsError`` when the shapes differ. The encoder then computes what the source
    computes for the same tokens from position 0 on; token types are folded into the positions.
    """
    source = _without_prefix(read_tensors(folder))
    blocks = list(model.encoder.blocks)
    if not all(isinstance(b, BertBlock) for b in blocks):
        raise WeightsError("a warm start needs encoder.kind = 'bert'")
    try:
        _copy_embeddings(model, source)
        for number, block in enumerate(blocks):
            _copy_block(block, source, f"encoder.layer.{number}.")
    except (KeyError, RuntimeError) as error:
        raise WeightsError(f"{folder} does not fit the encoder: {error}") from error


@torch.no_grad()
def warm_start_reader(model: DRT, folder: Path, tokenizer: Tokenizer) -> None:
    """Copy the reader of another model of this project, or a BERT or MPNet, into the reader.

    Of a BERT or MPNet come blocks, positions and token types, and words where the reader has
    embeddings of its own; ``tokenizer`` is the model's. Raises ``WeightsError`` when the shapes
    differ.
    """
    reader = model.span_reader
    if reader is None:
        raise WeightsError("start.reader needs a model with a reader, expected [model.reader]")
    tensors = read_tensors(folder) | packed_tensors(folder, torch.float32)
    prefix = "span_reader."
    reader_tensors = {
        name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)
    }
    try:
        if reader_tensors:
            reader.load_state_dict(reader_tensors)
            return
        source = _without_prefix(tensors)
        positions = source["embeddings.position_embeddings.weight"]
        if reader.distances is not None:
            reader.distances.table.copy_(source["encoder.relative_attention_bias.weight"])
            positions = positions[2:]  # MPNet counts from the row behind that of padding
            reader.segments.weight.zero_()  # and has no token types
        else:
            reader.segments.weight.copy_(source["embeddings.token_type_embeddings.weight"])
        reader.positions.weight.copy_(positions)
        _copy(reader.input_norm, source, "embeddings.LayerNorm")
        for number, block in enumerate(reader.blocks):
            _copy_block(block, source, f"encoder.layer.{number}.")
        if reader.words is not None:
            words = source["embeddings.word_embeddings.weight"]
            _copy_words(reader.words.weight, words, reader.config, folder, tokenizer)
    except (KeyError, RuntimeError) as error:
        raise WeightsError(f"{folder} does not fit the reader: {error}") from error


def _copy_words(
    table: Tensor, words: Tensor, config: ReaderConfig, folder: Path, tokenizer: Tokenizer
) -> None:
    """Copy the embeddings of the tokens that the folder's ``vocab.txt`` shares with ours."""
    try:
        tokens = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{folder / 'vocab.txt'} cannot be read: {error}; expected a BERT's tokens"
        raise WeightsError(message) from error
    theirs = {token: number for number, token in enumerate(tokens[: len(words)])}
    for token, number in tokenizer.vocabulary().items():
        if token in theirs:
            table[number] = words[theirs[token]]
    for number, names in (
        (config.begin_id, ("<s>", "[CLS]")),
        (config.separator_id, ("</s>", "[SEP]")),
    ):
        rows = [theirs[name] for name in names if name in theirs]
        if not rows:
            raise WeightsError(
                f"{folder / 'vocab.txt'} lacks {names[0]!r}, expected a BERT's tokens"
            )
        table[number] = words[rows[0]]


def _without_prefix(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a BERT in fp32, without a ``bert.`` before their names."""
    prefix = "" if "embeddings.word_embeddings.weight" in tensors else "bert."
    return {name.removeprefix(prefix): t.float() for name, t in tensors.items()}


def for_tokenizer(config: ModelConfig, tokenizer: Tokenizer) -> ModelConfig:
    """Return the configuration with the vocabulary and the special tokens of ``tokenizer``."""
    return replace(
        config,
        vocab=tokenizer.vocab_size,
        pad_id=tokenizer.pad_id,
        landmark_id=tokenizer.landmark_id,
        answer_id=tokenizer.answer_id,
        end_id=tokenizer.end_id,
    )


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Return the tensors of ``model.safetensors``, or of the shards that its index names.

    Pickles are never read. Raises ``WeightsError``.
    """
    index = folder / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if index.exists():
        try:
            shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            names = sorted(set(shards.values()))
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise WeightsError(f"{index} is not an index of shards: {error}") from error
        if any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
            raise WeightsError(f"{index} names files that are no .safetensors files beside it")
    elif not (folder / names[0]).exists() and (folder / "pytorch_model.bin").exists():
        raise WeightsError(
            f"{folder} holds pytorch_model.bin, a pickle, which is never loaded; expected "
            "model.safetensors"
        )
    tensors: dict[str, Tensor] = {}
    for name in names:
        try:
            tensors |= load_file(folder / name)
        except (OSError, SafetensorError) as error:
            message = f"{folder / name} cannot be read: {error}; expected a BERT's weights"
            raise WeightsError(message) from error
    return tensors


def _copy_embeddings(model: DRT, source: dict[str, Tensor]) -> None:
    words = source["embeddings.word_embeddings.weight"]
    model.embedding.weight.copy_(words)
    for key, stand_in in _STAND_INS.items():
        model.embedding.weight[getattr(model.config, key)] = words[stand_in]
    table = source["embeddings.position_embeddings.weight"]
    table = table + source["embeddings.token_type_embeddings.weight"][0]
    # Our tokens count from 1 and have no [CLS] before them. The source needs something at its
    # position 0: with the first token there its landmarks find far more (examples/LOG.md).
    model.encoder.positions.weight.copy_(torch.cat([table[:1], table[:-1]]))
    _copy(model.encoder.input_norm, source, "embeddings.LayerNorm")


def _copy_block(block: torch.nn.Module, source: dict[str, Tensor], at: str) -> None:
    assert isinstance(block, BertBlock)
    mpnet = f"{at}attention.attn.q.weight" in source
    names = [f"attn.{n}" for n in "qkv"] if mpnet else ["self.query", "self.key", "self.value"]
    for part in ("weight", "bias"):
        parts = [source[f"{at}attention.{name}.{part}"] for name in names]
        getattr(block.attention.qkv, part).copy_(torch.cat(parts))
    _copy(block.attention.out, source, at + f"attention.{'attn.o' if mpnet else 'output.dense'}")
    norm = "LayerNorm" if mpnet else "output.LayerNorm"
    _copy(block.attention_norm, source, at + f"attention.{norm}")
    _copy(block.up, source, at + "intermediate.dense")
    _copy(block.down, source, at + "output.dense")
    _copy(block.mlp_norm, source, at + "output.LayerNorm")


def _copy(module: torch.nn.Module, source: dict[str, Tensor], at: str) -> None:
    for part in ("weight", "bias"):
        getattr(module, part).copy_(source[f"{at}.{part}"])
