"""A reader's first weights: those of another model's reader, or of a BERT or MPNet."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from drt_engine.config.model import ReaderConfig
from drt_engine.errors import WeightsError
from drt_engine.model.drt import DRT
from drt_engine.model.warm_start import copy_block, copy_part, read_tensors, without_prefix
from drt_engine.model.weights import packed_tensors
from drt_engine.text.tokenizer import Tokenizer


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
        source = without_prefix(tensors)
        positions = source["embeddings.position_embeddings.weight"]
        if reader.distances is not None:
            reader.distances.table.copy_(source["encoder.relative_attention_bias.weight"])
            positions = positions[2:]  # MPNet counts from the row behind that of padding
            reader.segments.weight.zero_()  # and has no token types
        else:
            reader.segments.weight.copy_(source["embeddings.token_type_embeddings.weight"])
        reader.positions.weight.copy_(positions)
        copy_part(reader.input_norm, source, "embeddings.LayerNorm")
        for number, block in enumerate(reader.blocks):
            copy_block(block, source, f"encoder.layer.{number}.")
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
