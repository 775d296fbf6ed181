"""Weights of a pretrained language model are read from a GGUF file."""

from __future__ import annotations

import pytest
import torch

from drt_engine.errors import WeightsError
from drt_lab.train.decoder.pretrained import config_of, weights_of
from tests.engine.decoder.tiny import TINY, tiny_decoder


def test_a_gguf_file_has_the_pairs_of_rotary_halves_side_by_side() -> None:
    """Its maps of queries and keys, put back, are those that they were made from."""
    model = tiny_decoder()
    state, tensors = model.state_dict(), {}
    tensors["token_embd.weight"], tensors["output_norm.weight"] = (
        state["embedding.weight"],
        state["norm.weight"],
    )
    for number in range(TINY.layers):
        upper = number - TINY.lower_layers
        own = f"lower.{number}." if upper < 0 else f"upper.{upper}."
        sizes = [TINY.heads, TINY.kv_heads, TINY.kv_heads]
        parts = state[own + "qkv.weight"].split([n * TINY.head_size for n in sizes])
        for name, part, heads in zip("qkv", parts, sizes, strict=True):
            if name != "v":
                part = part.view(heads, 2, -1, TINY.width).transpose(1, 2).reshape(part.shape)
            tensors[f"blk.{number}.attn_{name}.weight"] = part
        gate, up = state[own + "mlp.gate_up.weight"].chunk(2)
        tensors |= {
            f"blk.{number}.attn_norm.weight": state[own + "attention_norm.weight"],
            f"blk.{number}.attn_output.weight": state[own + "out.weight"],
            f"blk.{number}.ffn_norm.weight": state[own + "mlp_norm.weight"],
            f"blk.{number}.ffn_gate.weight": gate,
            f"blk.{number}.ffn_up.weight": up,
            f"blk.{number}.ffn_down.weight": state[own + "mlp.down.weight"],
        }
    back = weights_of(tensors, TINY)
    assert back.keys() == state.keys()
    assert all(torch.equal(tensor, state[name]) for name, tensor in back.items())


def test_another_architecture_is_refused() -> None:
    with pytest.raises(WeightsError, match="'mamba', expected 'llama'"):
        config_of({"general.architecture": "mamba"}, lower_layers=1)
