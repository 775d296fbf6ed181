"""Chunk-encoder weights from a BERT-like folder (``model.safetensors``, whole or in shards)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.errors import WeightsError
from drt_engine.model.chunk_encoder import BertBlock
from drt_engine.model.drt import DRT
from drt_engine.text.tokenizer import Tokenizer

# Our special tokens start as the tokens that played the nearest part.
_STAND_INS = {"landmark_id": 102, "answer_id": 101, "end_id": 102}


@torch.no_grad()
def warm_start(model: DRT, folder: Path) -> None:
    """Copy embeddings and encoder blocks of a BERT-like model.

    Raises ``WeightsError`` when the shapes differ. The encoder then computes what the source
    computes for the same tokens from position 0 on; token types are folded into the positions.
    """
    source = without_prefix(read_tensors(folder))
    blocks = list(model.encoder.blocks)
    if not all(isinstance(b, BertBlock) for b in blocks):
        raise WeightsError("a warm start needs encoder.kind = 'bert'")
    try:
        _copy_embeddings(model, source)
        for number, block in enumerate(blocks):
            copy_block(block, source, f"encoder.layer.{number}.")
    except (KeyError, RuntimeError) as error:
        raise WeightsError(f"{folder} does not fit the encoder: {error}") from error


def without_prefix(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
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
    copy_part(model.encoder.input_norm, source, "embeddings.LayerNorm")


def copy_block(block: torch.nn.Module, source: dict[str, Tensor], at: str) -> None:
    """Copy a block whose names in the source begin with ``at``: one of a BERT or an MPNet."""
    assert isinstance(block, BertBlock)
    mpnet = f"{at}attention.attn.q.weight" in source
    names = [f"attn.{n}" for n in "qkv"] if mpnet else ["self.query", "self.key", "self.value"]
    for part in ("weight", "bias"):
        parts = [source[f"{at}attention.{name}.{part}"] for name in names]
        getattr(block.attention.qkv, part).copy_(torch.cat(parts))
    copy_part(
        block.attention.out, source, at + f"attention.{'attn.o' if mpnet else 'output.dense'}"
    )
    norm = "LayerNorm" if mpnet else "output.LayerNorm"
    copy_part(block.attention_norm, source, at + f"attention.{norm}")
    copy_part(block.up, source, at + "intermediate.dense")
    copy_part(block.down, source, at + "output.dense")
    copy_part(block.mlp_norm, source, at + "output.LayerNorm")


def copy_part(module: torch.nn.Module, source: dict[str, Tensor], at: str) -> None:
    """Copy the weight and the bias of a part."""
    for part in ("weight", "bias"):
        getattr(module, part).copy_(source[f"{at}.{part}"])
