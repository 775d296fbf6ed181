"""A reader starts with the weights of another model's reader, or of an MPNet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from drt_engine.config.model import ReaderConfig
from drt_engine.errors import WeightsError
from drt_engine.model.chunk_encoder import BertBlock
from drt_engine.model.drt import DRT
from drt_engine.model.weights import save_model
from drt_engine.text.tokenizer import Tokenizer
from drt_lab.train.reader_start import warm_start_reader
from tests.engine.model.test_warm_start import (
    HEADS,
    LAYERS,
    MLP,
    POSITIONS,
    WIDTH,
    Tensors,
    bert_tensors,
    config,
    folder,
)
from tests.fakes import wordpiece_tokenizer

READER = ReaderConfig(
    layers=LAYERS, heads=HEADS, mlp=MLP, positions=POSITIONS, margin=2, longest_question=8
)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return wordpiece_tokenizer(tmp_path)


def reading(**changes: object) -> DRT:
    reader = replace(READER, begin_id=4, separator_id=5, **changes)  # type: ignore[arg-type]
    return DRT(replace(config(), chunk=8, reader=reader))


def mpnet_tensors(vocabulary: int) -> Tensors:
    """The tensors of a BERT under the names and with the parts that an MPNet has."""
    tensors = {
        name.replace("attention.self.query", "attention.attn.q")
        .replace("attention.self.key", "attention.attn.k")
        .replace("attention.self.value", "attention.attn.v")
        .replace("attention.output.dense", "attention.attn.o")
        .replace("attention.output.LayerNorm", "attention.LayerNorm"): tensor
        for name, tensor in bert_tensors().items()
        if "token_type" not in name
    }
    tensors["embeddings.word_embeddings.weight"] = torch.randn(vocabulary, WIDTH)
    tensors["embeddings.position_embeddings.weight"] = torch.randn(POSITIONS + 2, WIDTH)
    tensors["encoder.relative_attention_bias.weight"] = torch.randn(8, HEADS)
    return tensors


def test_a_reader_starts_as_an_mpnet_with_its_words(tmp_path: Path, tokenizer: Tokenizer) -> None:
    ours = tokenizer.vocabulary()
    theirs = ["<s>", "</s>", *sorted((t for t in ours if ours[t] > 5), reverse=True), "unheard"]
    tensors = mpnet_tensors(len(theirs))
    folder(tmp_path, tensors)
    (tmp_path / "vocab.txt").write_text("\n".join(theirs), encoding="utf-8")
    model = reading(width=WIDTH, buckets=8)
    warm_start_reader(model, tmp_path, tokenizer)
    reader = model.span_reader
    assert reader is not None and reader.words is not None and reader.distances is not None
    words = tensors["embeddings.word_embeddings.weight"]
    for token, number in ours.items():
        if token in theirs:
            assert torch.equal(reader.words.weight[number], words[theirs.index(token)])
    assert torch.equal(reader.words.weight[4], words[0])  # begin
    assert torch.equal(reader.words.weight[5], words[1])  # separator
    assert torch.equal(
        reader.positions.weight, tensors["embeddings.position_embeddings.weight"][2:]
    )
    assert not reader.segments.weight.any()
    block = reader.blocks[1]
    assert isinstance(block, BertBlock)
    query = tensors["encoder.layer.1.attention.attn.q.weight"]
    assert torch.equal(block.attention.qkv.weight[:WIDTH], query)
    assert torch.equal(
        block.attention_norm.bias, tensors["encoder.layer.1.attention.LayerNorm.bias"]
    )


def test_an_mpnet_without_its_words_is_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    folder(tmp_path, mpnet_tensors(20))
    with pytest.raises(WeightsError, match=r"vocab\.txt cannot be read"):
        warm_start_reader(reading(width=WIDTH, buckets=8), tmp_path, tokenizer)
    (tmp_path / "vocab.txt").write_text("a\nb\n</s>", encoding="utf-8")
    with pytest.raises(WeightsError, match=r"vocab\.txt lacks '<s>'"):
        warm_start_reader(reading(width=WIDTH, buckets=8), tmp_path, tokenizer)


def test_a_reader_starts_as_that_of_another_model(tmp_path: Path, tokenizer: Tokenizer) -> None:
    source, model = reading(), reading()
    save_model(source, tokenizer, tmp_path, dtype=torch.float32)
    before = model.encoder.positions.weight.clone()
    warm_start_reader(model, tmp_path, tokenizer)
    assert model.span_reader is not None and source.span_reader is not None
    for name, value in source.span_reader.state_dict().items():
        assert torch.equal(model.span_reader.state_dict()[name], value)
    assert torch.equal(model.encoder.positions.weight, before)
    with pytest.raises(WeightsError, match="does not fit the reader"):
        warm_start_reader(reading(width=WIDTH), tmp_path, tokenizer)
