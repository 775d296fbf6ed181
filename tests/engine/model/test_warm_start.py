"""The warm-started encoder computes what a BERT does on the same ids, from position 1, no [CLS]."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from drt_engine.config.model import EncoderConfig, ModelConfig
from drt_engine.errors import ConfigError, WeightsError
from drt_engine.model.chunking import insert_landmarks
from drt_engine.model.drt import DRT
from drt_engine.model.warm_start import warm_start
from drt_engine.text.tokenizer import Tokenizer
from tests.engine.model.factories import changed, full, small_like
from tests.fakes import bert_vocabulary, wordpiece_tokenizer
from tests.tables import each_row

WIDTH, HEADS, MLP, LAYERS, POSITIONS = 16, 4, 24, 2, 32
ENCODER = EncoderConfig(kind="bert", layers=LAYERS, heads=HEADS, mlp=MLP, positions=POSITIONS)
Tensors = dict[str, Tensor]


def config() -> ModelConfig:
    return changed(
        small_like(zero_lower=True, encoder=ENCODER),
        width=WIDTH,
        vocab=len(bert_vocabulary()),
        landmark_id=1,
        answer_id=2,
        end_id=3,
    )


def bert_tensors() -> Tensors:
    """Random weights with the names of a BERT."""
    torch.manual_seed(3)
    shapes = {
        "embeddings.word_embeddings.weight": (len(bert_vocabulary()), WIDTH),
        "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
        "pooler.dense.weight": (WIDTH, WIDTH),
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        parts = {f"attention.self.{n}": (WIDTH, WIDTH) for n in ("query", "key", "value")}
        parts["attention.output.dense"] = (WIDTH, WIDTH)
        parts |= {"intermediate.dense": (MLP, WIDTH), "output.dense": (WIDTH, MLP)}
        for name, shape in parts.items():
            shapes |= {f"{at}{name}.weight": shape, f"{at}{name}.bias": shape[:1]}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{at}{name}.weight": (WIDTH,), f"{at}{name}.bias": (WIDTH,)}
    return {name: torch.randn(shape) * 0.3 for name, shape in shapes.items()}


def norm(x: Tensor, weights: Tensors, at: str) -> Tensor:
    return F.layer_norm(x, (WIDTH,), weights[f"{at}.weight"], weights[f"{at}.bias"], 1e-12)


def dense(x: Tensor, weights: Tensors, at: str) -> Tensor:
    return F.linear(x, weights[f"{at}.weight"], weights[f"{at}.bias"])


def bert(ids: Tensor, weights: Tensors, *, first: int) -> Tensor:
    """BERT on one sequence [T] whose first token stands at position ``first``."""
    w = weights
    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][first : first + len(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], w, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        q, k, v = (
            dense(x, w, f"{at}attention.self.{n}").view(len(ids), HEADS, -1).transpose(0, 1)
            for n in ("query", "key", "value")
        )
        weight = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(WIDTH // HEADS), -1)
        out = (weight @ v).transpose(0, 1).reshape(len(ids), WIDTH)
        out = dense(out, w, at + "attention.output.dense")
        x = norm(x + out, w, at + "attention.output.LayerNorm")
        out = dense(F.gelu(dense(x, w, at + "intermediate.dense")), w, at + "output.dense")
        x = norm(x + out, w, at + "output.LayerNorm")
    return x


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return wordpiece_tokenizer(tmp_path)


def folder(tmp_path: Path, tensors: Tensors) -> Path:
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path


@pytest.mark.parametrize("prefix", ["", "bert."])
@torch.no_grad()
def test_the_encoder_computes_what_bert_computes(
    tmp_path: Path, tokenizer: Tokenizer, prefix: str
) -> None:
    tensors = bert_tensors()
    model = DRT(config()).eval()
    warm_start(model, folder(tmp_path, {prefix + n: t for n, t in tensors.items()}))
    ids = tokenizer.encode("the notice period").ids
    ids += tokenizer.encode("is thirty days").ids
    chunk = torch.tensor(ids[:5])[None, None]
    chunks = F.pad(chunk, (0, model.config.chunk - 5), value=110)
    valid = full(chunks)
    valid[..., 5:] = False
    _, encoded = model.read(chunks, valid)
    sep = 102  # our landmark starts as [SEP]
    wanted = bert(torch.tensor([*ids[:5], sep]), tensors, first=0)
    torch.testing.assert_close(encoded.states[0, :5], wanted[:5], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(encoded.landmarks[0], wanted.mean(0), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_special_tokens_start_as_their_stand_ins(tmp_path: Path) -> None:
    tensors = bert_tensors()
    model = DRT(config())
    warm_start(model, folder(tmp_path, tensors))
    words = tensors["embeddings.word_embeddings.weight"]
    vocabulary = bert_vocabulary()
    sep, cls = vocabulary.index("[SEP]"), vocabulary.index("[CLS]")
    stand_ins = model.embed(torch.tensor([1, 2, 3]))
    assert torch.equal(stand_ins, words[[sep, cls, sep]])
    untouched = model.embed(torch.tensor([0, 110, 150]))
    assert torch.equal(untouched, words[[0, 110, 150]])


@torch.no_grad()
def test_the_query_of_a_question_is_its_sentence_vector(tmp_path: Path) -> None:
    """At the start a question finds chunks as the sentence encoder would: by cosine of means."""
    model = DRT(config()).eval()
    warm_start(model, folder(tmp_path, bert_tensors()))
    chunks = torch.randint(110, 160, (1, 2, model.config.chunk))
    states, encoded = model.read(chunks, full(chunks))
    assert torch.equal(states.flatten(1, 2), model.embed(insert_landmarks(chunks, 1).flatten(1)))
    query = model.scorer.queries(states[0, :, -1], encoded.landmarks, 0)
    scores = model.scorer.scores(query, model.scorer.keys(encoded.landmarks)).total
    cosine = F.cosine_similarity(encoded.landmarks[0], encoded.landmarks[1], dim=0)
    assert model.scorer.log_scale is not None
    torch.testing.assert_close(scores[0, 1], cosine * model.scorer.log_scale.exp())


@each_row(
    ("name", "shape"),
    [
        ("embeddings.word_embeddings.weight", (7, WIDTH)),
        ("embeddings.position_embeddings.weight", (POSITIONS, 8)),
        ("encoder.layer.1.output.dense.weight", None),
        ("encoder.layer.0.intermediate.dense.weight", (MLP + 1, WIDTH)),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, name: str, shape: tuple[int, ...] | None
) -> None:
    tensors = bert_tensors()
    del tensors[name]
    if shape is not None:
        tensors[name] = torch.zeros(shape)
    with pytest.raises(WeightsError, match="does not fit the encoder"):
        warm_start(DRT(config()), folder(tmp_path, tensors))


def test_a_llama_encoder_cannot_be_warm_started(tmp_path: Path) -> None:
    llama = EncoderConfig(kind="llama", layers=2, heads=4, mlp=24, positions=32)
    with pytest.raises((WeightsError, ConfigError), match="encoder.kind"):
        warm_start(DRT(changed(config(), encoder=llama)), folder(tmp_path, bert_tensors()))


def test_a_missing_or_broken_folder_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="none"):
        warm_start(DRT(config()), tmp_path / "none")
    (tmp_path / "model.safetensors").write_bytes(b"\x00" * 16)
    with pytest.raises(WeightsError, match="model.safetensors"):
        warm_start(DRT(config()), tmp_path)
