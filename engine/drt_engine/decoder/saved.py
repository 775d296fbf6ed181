"""A decoder's folder: ``config.json``, ``tokenizer.json`` and ``model.safetensors``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tokenizers
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from drt_engine.decoder.config import DecoderConfig
from drt_engine.decoder.low_rank import DOWN, UP, apart, low_rank_factors, merged
from drt_engine.decoder.model import RetrievalDecoder
from drt_engine.errors import WeightsError
from drt_engine.files import expect_plain_file
from drt_engine.model.packed import joined, packed_ranges, split, unpacked
from drt_engine.model.weights import write_file, write_tensors

WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"


@dataclass(frozen=True)
class SavedDecoder:
    """A decoder in memory, with its tokenizer."""

    model: RetrievalDecoder
    tokenizer: tokenizers.Tokenizer


def save_decoder(
    model: RetrievalDecoder,
    tokenizer: tokenizers.Tokenizer,
    folder: Path,
    *,
    dtype: torch.dtype = torch.bfloat16,
    pack: bool = False,
) -> None:
    """Write a folder; ``pack`` has matrices in four bits a number, with a range a group.

    What has low rank beside a frozen matrix is written as it is, and added on loading.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if pack:
        write_file(folder / WEIGHTS, split(packed_ranges(_tensors(model))), {"format": "pt"})
    else:
        write_tensors(folder / WEIGHTS, _tensors(model), dtype=dtype)
    tokenizer.save(str(folder / TOKENIZER), pretty=False)
    model.config.save(folder)


def _tensors(model: RetrievalDecoder) -> dict[str, Tensor]:
    """Return frozen matrices by their own names, and what has low rank beside them."""
    frozen = {
        name.replace(".base.", "."): tensor
        for name, tensor in model.state_dict().items()
        if not name.endswith((UP, DOWN))
    }
    return frozen | low_rank_factors(model)


def load_decoder(
    folder: Path, *, dtype: torch.dtype = torch.float32, merge: bool = True
) -> SavedDecoder:
    """Load a decoder's folder; ``WeightsError`` when a file is missing, broken or does not fit.

    What was written of low rank beside a matrix is added to it, or, to be trained on, stays apart.
    """
    config = DecoderConfig.load(folder)
    with torch.device("meta"):
        model = RetrievalDecoder(config)
    try:
        expect_plain_file(folder / WEIGHTS)
        tensors = unpacked(joined(load_file(folder / WEIGHTS)), torch.float32)
        tensors = merged(tensors) if merge else apart(model, tensors)
    except (SafetensorError, OSError, ValueError) as error:
        raise WeightsError(f"{folder / WEIGHTS} cannot be read: {error}; get it again") from error
    try:
        state = {name: tensor.to(dtype) for name, tensor in tensors.items()}
        model.load_state_dict(state, strict=True, assign=True)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise WeightsError(
            f"{folder / WEIGHTS} does not fit its configuration: {reason}"
        ) from error
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER))
    except Exception as error:  # the library raises bare Exception
        raise WeightsError(f"{folder / TOKENIZER} cannot be read: {error}") from error
    return SavedDecoder(model.eval(), tokenizer)
