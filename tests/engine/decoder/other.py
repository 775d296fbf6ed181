"""An independent implementation of the decoder without memory: Mistral of ``transformers``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from drt_engine.decoder.config import DecoderConfig


def mistral(transformers: Any, config: DecoderConfig) -> Any:
    """Return a Mistral model of a decoder's shape, with random weights."""
    shape = transformers.MistralConfig(
        vocab_size=config.vocab,
        hidden_size=config.width,
        intermediate_size=config.mlp,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        sliding_window=config.window,
        tie_word_embeddings=True,
        attn_implementation="eager",
    )
    return transformers.MistralForCausalLM(shape).eval()


def as_decoder_weights(state: Mapping[str, Tensor], config: DecoderConfig) -> dict[str, Tensor]:
    """Return Mistral's weights under the decoder's names."""
    own = {
        "embedding.weight": state["model.embed_tokens.weight"],
        "norm.weight": state["model.norm.weight"],
    }
    for number in range(config.layers):
        old, upper = f"model.layers.{number}.", number - config.lower_layers
        new = f"lower.{number}." if upper < 0 else f"upper.{upper}."
        own[new + "attention_norm.weight"] = state[old + "input_layernorm.weight"]
        own[new + "mlp_norm.weight"] = state[old + "post_attention_layernorm.weight"]
        own[new + "qkv.weight"] = torch.cat(
            [state[f"{old}self_attn.{n}_proj.weight"] for n in "qkv"]
        )
        own[new + "out.weight"] = state[old + "self_attn.o_proj.weight"]
        own[new + "mlp.gate_up.weight"] = torch.cat(
            [state[f"{old}mlp.{n}_proj.weight"] for n in ("gate", "up")]
        )
        own[new + "mlp.down.weight"] = state[old + "mlp.down_proj.weight"]
    return own
