"""Models in and out: an encoder becomes a model folder, a model plain tensors that need no drt."""

from __future__ import annotations

import io
import json
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from drt_engine.config.model import ReaderConfig
from drt_engine.errors import ConfigError, WeightsError
from drt_engine.model.convert import convert
from drt_engine.model.drt import DRT
from drt_engine.model.prompt import lay_out
from drt_engine.model.warm_start import warm_start
from drt_engine.model.weights import load_model, save_model
from drt_engine.runtime import Runtime
from tests.engine.model.factories import make_model, small_like
from tests.engine.model.test_warm_start import HEADS, LAYERS, MLP, POSITIONS, WIDTH, bert_tensors
from tests.fakes import bert_vocabulary, wordpiece_tokenizer, write_bert_tokenizer
from tests.tables import each_row

SCRIPT = Path(__file__).parents[3] / "examples" / "run_exported.py"
TEXT = "The keeper signs the log. The notice period is thirty days, the café is naive. " * 27
QUESTION = "is the notice period thirty days"


def bert_folder(folder: Path, **changes: Any) -> Path:
    """A folder as Hugging Face holds a BERT."""
    folder.mkdir()
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": MLP,
        "max_position_embeddings": POSITIONS,
        "vocab_size": len(bert_vocabulary()),
    }
    kept = {k: v for k, v in (config | changes).items() if v is not None}
    (folder / "config.json").write_text(json.dumps(kept))
    write_bert_tokenizer(folder)
    save_file(bert_tensors(), folder / "model.safetensors")
    return folder


def sharded(folder: Path, *, name: str = "model-{}.safetensors") -> Path:
    """The same folder with its tensors in two shards."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    weights = {}
    for number, some in enumerate((names[::2], names[1::2])):
        shard = name.format(number)
        save_file({n: tensors[n] for n in some}, folder / shard)
        weights |= dict.fromkeys(some, shard)
    index = {"metadata": {}, "weight_map": weights}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def test_an_encoder_becomes_a_model_that_finds(tmp_path: Path) -> None:
    out = convert(bert_folder(tmp_path / "my bert"), tmp_path / "model", dtype="fp32")
    model, tokenizer = load_model(out)
    assert (model.config.name, model.config.width, model.config.chunk) == ("drt-my-bert", WIDTH, 64)
    assert vars(model.config.encoder) == {
        "kind": "bert", "layers": LAYERS, "heads": HEADS, "mlp": MLP, "positions": POSITIONS
    }  # fmt: skip
    wanted = DRT(model.config)
    warm_start(wanted, tmp_path / "my bert")
    for name, tensor in wanted.encoder.state_dict().items():
        assert torch.equal(model.encoder.state_dict()[name], tensor), name
    runtime = Runtime.load(out, device="cpu", threads=1, dtype="fp32")
    ids = torch.tensor(tokenizer.encode(TEXT).ids[:64])[None]
    assert runtime.read(ids, torch.ones_like(ids, dtype=torch.bool), skip=0).landmarks.shape == (
        1,
        WIDTH,
    )
    again = convert(tmp_path / "my bert", tmp_path / "again", dtype="fp32")
    assert (again / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()


def test_shards_are_read_and_joined(tmp_path: Path) -> None:
    whole = convert(bert_folder(tmp_path / "bert"), tmp_path / "whole")
    parts = convert(sharded(tmp_path / "bert"), tmp_path / "parts")
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["../model-{}.safetensors", "model-{}.bin"])
def test_an_index_names_tensors_beside_it_only(tmp_path: Path, name: str) -> None:
    folder = sharded(bert_folder(tmp_path / "bert"), name=name)
    with pytest.raises(WeightsError, match=r"files that are no \.safetensors files beside it"):
        convert(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.part").exists()


def test_a_pickle_is_never_read(tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "bert")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(WeightsError, match=r"a pickle, which is never loaded; expected model\.saf"):
        convert(folder, tmp_path / "out")


@each_row(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, "says model_type = 'roberta', expected 'bert'"),
        ({"hidden_act": "relu"}, "says hidden_act = 'relu', expected 'gelu'"),
        ({"layer_norm_eps": 1e-5}, "says layer_norm_eps"),
        ({"intermediate_size": None}, "lacks a size of a BERT: 'intermediate_size'"),
        ({"num_hidden_layers": LAYERS + 1}, "does not fit the encoder"),
        ({"hidden_size": None}, "describes neither a BERT nor a drt model"),
    ],
)
def test_what_is_no_bert_is_a_sentence(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    folder = bert_folder(tmp_path / "bert", **changes)
    with pytest.raises(WeightsError, match=message):
        convert(folder, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["bert"]


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").touch()
    with pytest.raises(ConfigError, match="out is there already and not empty"):
        convert(bert_folder(tmp_path / "bert"), tmp_path / "out")
    with pytest.raises(ConfigError, match="cannot be written"):
        convert(tmp_path / "bert", tmp_path / "out" / "mine.txt" / "below")
    with pytest.raises(WeightsError, match="no model or model folder is called 'nothing'"):
        convert("nothing", tmp_path / "new")
    with pytest.raises(ConfigError, match="dtype is 'int8', expected one of"):
        convert(tmp_path / "bert", tmp_path / "new", dtype="int8")  # type: ignore[arg-type]


def ours(folder: Path, **changes: Any) -> Path:
    """A model of ours, away from its start, with a WordPiece tokenizer."""
    folder.mkdir()
    tokenizer = wordpiece_tokenizer(folder)
    config = small_like(vocab=tokenizer.vocab_size, chunk=16, **changes)
    config = replace(config, landmark_id=tokenizer.landmark_id, answer_id=tokenizer.answer_id)
    save_model(make_model(config), tokenizer, folder, dtype=torch.float32)
    return folder


def run_script(folder: Path, text: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{folder}\n{text}\n{QUESTION}\n"))
    return runpy.run_path(str(SCRIPT))


def test_the_script_finds_what_the_engine_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ours(tmp_path / "ours")
    plain = convert(source, tmp_path / "plain", dtype="fp32")
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    found = run_script(plain, text, monkeypatch)
    runtime = Runtime.load(source, device="cpu", threads=1, dtype="fp32")
    model, size = runtime.model, runtime.config.chunk
    encoding = runtime.tokenizer.encode(TEXT)
    chunks = [encoding.ids[i : i + size] for i in range(0, len(encoding), size)]
    assert len(chunks) > 32 and len(chunks[-1]) < size  # several steps, and a partial chunk
    ids = torch.tensor([chunk + [0] * (size - len(chunk)) for chunk in chunks])
    valid = torch.tensor([[i < len(chunk) for i in range(size)] for chunk in chunks])
    wanted = runtime.read(ids, valid, skip=0).landmarks
    torch.testing.assert_close(found["keys"], wanted, rtol=1e-4, atol=1e-5)
    prompt = lay_out([runtime.tokenizer.encode(QUESTION).ids], [[]], model.config)
    with torch.no_grad():
        states, (own,) = model.prompt_states(prompt)
        query = model.scorer.queries(states[:, prompt.borders[0]], own.landmarks, 0)
    script = torch.nn.functional.normalize(found["query"], dim=0)
    torch.testing.assert_close(script, query[0] / query[0].norm(), rtol=1e-4, atol=1e-5)
    best = int((wanted @ query[0]).argmax())
    last = min(best * size + size, len(encoding)) - 1
    assert capsys.readouterr().out.endswith(
        TEXT[encoding.starts[best * size] : encoding.ends[last]] + "\n"
    )


def test_the_script_is_short_and_needs_no_drt() -> None:
    lines = [line for line in SCRIPT.read_text().splitlines() if line.strip()]
    code = [line for line in lines if not line.startswith(('"""', "import", "from"))]
    assert len(code) <= 40
    imports = {line.split()[1].split(".")[0] for line in lines if line.startswith(("im", "from"))}
    assert imports == {"json", "torch", "safetensors", "tokenizers"}


def test_an_export_holds_the_reader_as_a_bert(tmp_path: Path) -> None:
    reader = ReaderConfig(layers=2, heads=4, mlp=48, positions=96, margin=4, longest_question=20)
    plain = convert(ours(tmp_path / "ours", reader=reader), tmp_path / "plain")
    tensors = load_file(plain / "model.safetensors")
    start = "cross_encoder.layers."
    blocks = {k.removeprefix(start): t for k, t in tensors.items() if k.startswith(start)}
    width = tensors["embedding"].shape[1]
    layers = torch.nn.Sequential(
        *(torch.nn.TransformerEncoderLayer(width, 4, 48, activation="gelu") for _ in range(2))
    )
    layers.load_state_dict(blocks)
    assert tensors["cross_encoder.positions"].shape == (96, width)
    assert tensors["cross_encoder.span.weight"].shape == (2, width)
    assert not any(name.startswith("span_reader") for name in tensors)


def test_an_export_holds_every_parameter_under_a_plain_name(tmp_path: Path) -> None:
    source = ours(tmp_path / "ours", groups=2)
    plain = convert(source, tmp_path / "plain")
    model, _ = load_model(source)
    tensors = load_file(plain / "model.safetensors")
    assert sum(t.numel() for t in tensors.values()) == sum(p.numel() for p in model.parameters())
    assert {t.dtype for t in tensors.values() if t.dim()} == {torch.bfloat16}
    assert tensors["retrieval.log_scale"].dtype == torch.float32
    upper = model.upper[0].state_dict()
    whole = torch.cat([tensors[f"upper.0.{n}.weight"] for n in ("query", "key", "value")])
    assert torch.equal(whole, upper["attention.qkv.weight"].bfloat16())
    whole = torch.cat([tensors["memory.key.weight"], tensors["memory.value.weight"]])
    assert torch.equal(whole, model.memory_map.weight.bfloat16())
    config = json.loads((plain / "config.json").read_text())
    assert config["format"] == "drt-plain-1" and config["chunk"] == 16
    with pytest.raises(ConfigError, match=r"encoder\.kind = 'llama', expected 'bert' to export"):
        llama = replace(model.config.encoder, kind="llama")
        convert(ours(tmp_path / "other", encoder=llama), tmp_path / "none")
