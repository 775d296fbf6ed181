"""Convert models: a BERT-like encoder to a model folder, a model folder to plain tensors.

The plain names are documented in docs/explanation.md.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from drt_engine.config.model import EncoderConfig, ModelConfig, preset
from drt_engine.errors import ConfigError, WeightsError
from drt_engine.model.drt import DRT
from drt_engine.model.folder import TOKENIZER, model_folder
from drt_engine.model.warm_start import for_tokenizer, warm_start
from drt_engine.model.weights import (
    CONFIG,
    WEIGHTS,
    load_model,
    save_model,
    write_tensors,
)
from drt_engine.text.tokenizer import wordpiece_from_bert

FORMAT = "drt-plain-1"
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
Precision = Literal["bf16", "fp32"]

# What a Hugging Face configuration may say, of the things that our encoder block fixes.
_FIXED = {
    "model_type": ("bert",),
    "hidden_act": ("gelu",),
    "position_embedding_type": ("absolute",),
    "layer_norm_eps": (1e-12,),
}
_HEAD = 64  # elements of a head of the decoder, where the width allows it


def convert(source: str | Path, out: Path, *, dtype: Precision = "bf16") -> Path:
    """Convert a BERT-like folder to a model folder, or a model to plain tensors; return ``out``.

    ``source`` is a folder, or the name of a model. Raises ``ConfigError`` where ``out`` exists and
    is not empty, ``WeightsError`` for a source that is neither.
    """
    if dtype not in DTYPES:
        raise ConfigError(f"dtype is {dtype!r}, expected one of {tuple(DTYPES)}")
    folder = model_folder(source)
    config = _read_config(folder)
    if "hidden_size" in config:
        return _write_folder(out, lambda part: import_bert(folder, part, dtype=dtype))
    if "lower_layers" in config:
        return _write_folder(out, lambda part: export_plain(folder, part, dtype=dtype))
    raise WeightsError(
        f"{folder / CONFIG} describes neither a BERT nor a drt model, expected one of the two"
    )


def import_bert(source: Path, out: Path, *, dtype: Precision = "bf16") -> None:
    """Write a model folder whose chunk encoder is the BERT of ``source``.

    The other parts are as training starts them: the model finds chunks as the source finds
    sentences, and has yet to learn to answer.
    """
    config = _model_config(_read_config(source), source)
    tokenizer = wordpiece_from_bert(source / TOKENIZER)
    config = for_tokenizer(config, tokenizer)
    # The same source gives the same model, and the caller's random state is left alone.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = DRT(config)
    warm_start(model, source)
    save_model(model, tokenizer, out, dtype=DTYPES[dtype])


def export_plain(source: Path, out: Path, *, dtype: Precision = "bf16") -> None:
    """Write the tensors of a model folder under plain names, its configuration and tokenizer.

    ``ConfigError`` for a model whose encoder is not BERT's, which has no plain names.
    """
    model, tokenizer = load_model(source)
    if model.config.encoder.kind != "bert":
        raise ConfigError(
            f"{source} has encoder.kind = {model.config.encoder.kind!r}, expected 'bert' to export"
        )
    out.mkdir(parents=True, exist_ok=True)
    tensors = dict(plain_tensors(model.state_dict(), model.config))
    write_tensors(out / WEIGHTS, tensors, dtype=DTYPES[dtype], names=FORMAT)
    data = {"format": FORMAT, **asdict(model.config)}
    (out / CONFIG).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    tokenizer.save(out / TOKENIZER)


_NAMES = (
    (r"^(embedding|encoder\.positions)\.weight$", r"\1"),
    (r"^encoder\.input_norm\.", "encoder.norm."),
    # A block of BERT is a torch.nn.TransformerEncoderLayer: its own names say what is what.
    (r"^encoder\.blocks\.", "encoder.layers."),
    (r"^reader\.", "reader.layers."),
    (r"^span_reader\.blocks\.", "cross_encoder.layers."),
    (r"^span_reader\.input_norm\.", "cross_encoder.norm."),
    (r"^span_reader\.(words|positions|segments)\.weight$", r"cross_encoder.\1"),
    (r"^span_reader\.", "cross_encoder."),
    (r"(\.layers\.\d+)\.attention\.qkv\.", r"\1.self_attn.in_proj_"),
    (r"(\.layers\.\d+)\.attention\.out\.", r"\1.self_attn.out_proj."),
    (r"(\.layers\.\d+)\.attention_norm\.", r"\1.norm1."),
    (r"(\.layers\.\d+)\.mlp_norm\.", r"\1.norm2."),
    (r"(\.layers\.\d+)\.up\.", r"\1.linear1."),
    (r"(\.layers\.\d+)\.down\.", r"\1.linear2."),
    (r"^((?:lower|upper)\.\d+)\.norm\.", r"\1.mlp_norm."),
    (r"^((?:lower|upper)\.\d+)\.mlp\.", r"\1."),
    (r"\.attention\.(norm|out)\.", r".attention_\1."),
    (r"\.gca\.(norm|query|out)\.", r".gca_\1."),
    (r"^scorer\.", "retrieval."),
)


def plain_tensors(state: dict[str, Tensor], config: ModelConfig) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters under plain names; joint projections of the decoder are split."""
    heads, kv = config.heads * config.head_size, config.kv_heads * config.head_size
    joint = {
        "attention.qkv": {"query": heads, "key": kv, "value": kv},
        "mlp.gate_up": {"gate": config.mlp, "up": config.mlp},
        "memory_map": {"memory.key": kv, "memory.value": kv},
    }
    for name, tensor in state.items():
        part = next((key for key in joint if key in name), None)
        if part is None or name.startswith(("encoder.", "reader.", "span_reader.")):
            yield _plain_name(name), tensor
            continue
        pieces = torch.split(tensor, list(joint[part].values()))
        for plain_part, piece in zip(joint[part], pieces, strict=True):
            yield _plain_name(name.replace(part, plain_part)), piece


def _plain_name(name: str) -> str:
    for pattern, plain in _NAMES:
        name = re.sub(pattern, plain, name)
    return name


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WeightsError(
            f"{path} cannot be read ({error}); expected a model's configuration"
        ) from error
    if not isinstance(data, dict):
        raise WeightsError(f"{path} holds no JSON object, expected a model's configuration")
    return data


def _model_config(source: dict[str, Any], folder: Path) -> ModelConfig:
    """Return the shipped model's configuration around the shape of a BERT."""
    for key, allowed in _FIXED.items():
        if source.get(key, allowed[0]) not in allowed:
            raise WeightsError(
                f"{folder / CONFIG} says {key} = {source[key]!r}, expected {allowed[0]!r}: only "
                "encoders like BERT can be imported"
            )
    try:
        width, heads = int(source["hidden_size"]), int(source["num_attention_heads"])
        encoder = EncoderConfig(
            kind="bert",
            layers=int(source["num_hidden_layers"]),
            heads=heads,
            mlp=int(source["intermediate_size"]),
            positions=int(source["max_position_embeddings"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise WeightsError(f"{folder / CONFIG} lacks a size of a BERT: {error}") from error
    base = preset("drt-small-en")
    if width % _HEAD == 0:
        heads = width // _HEAD
    # The MLP keeps its ratio to the width; three query heads share a key head where they can.
    name = re.sub(r"[^\w.-]+", "-", folder.resolve().name)
    return replace(
        base,
        name=f"drt-{name}",
        width=width,
        heads=heads,
        kv_heads=next(n for n in (heads // 3, heads // 2, heads) if n and heads % n == 0),
        mlp=-(-width * base.mlp // base.width),
        encoder=encoder,
        reread_layers=min(base.reread_layers, encoder.layers),
    )


def _write_folder(out: Path, write: Callable[[Path], None]) -> Path:
    """Write a folder under a temporary name and rename it, so that none is left half-written."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is there already and not empty, expected a new folder")
    part = out.with_name(out.name + ".part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        write(part)
        if out.exists():
            out.rmdir()
        part.rename(out)
    except OSError as error:
        raise ConfigError(f"{out} cannot be written ({error}); name another folder") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return out
