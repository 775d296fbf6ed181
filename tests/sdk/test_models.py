"""Models, training, evaluations and benchmarks are handed to the engine as they were asked."""

from __future__ import annotations

from pathlib import Path

import pytest

import drt
from drt import _engine
from drt_engine import errors
from tests.sdk.fakes import FakeEngine


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "weights"
    (folder / "small").mkdir(parents=True)
    (folder / "small" / "config.json").write_text("{}")
    (folder / "small" / "MODEL_CARD.md").write_text("# Small\n")
    (folder / "not-a-model").mkdir()
    monkeypatch.setattr(_engine, "weights_folder", lambda: folder)
    return folder


def test_models_are_folders_with_a_config(weights: Path) -> None:
    (model,) = drt.models()
    assert (model.name, model.bytes, model.card) == ("small", 10, "# Small\n")
    assert model.to_dict() == {
        "name": "small",
        "path": str(weights / "small"),
        "bytes": 10,
        "parameters": None,
        "fingerprint": None,
    }


def test_a_model_is_found_by_name_and_by_folder(weights: Path) -> None:
    assert drt.model_info("small") == drt.model_info(weights / "small")
    with pytest.raises(drt.ModelError, match="'big'.*small"):
        drt.model_info("big")


def test_verifying_loads_the_model(weights: Path, engine: FakeEngine) -> None:
    model = drt.verify_model("small")
    assert (model.parameters, model.fingerprint) == (20, "fake-1")
    for part in ("load_runtime", "decoder_parameters"):  # the decoder's weights, too
        engine.raises = {part: errors.WeightsError("model.safetensors is damaged.")}
        with pytest.raises(drt.ModelError, match="damaged"):
            drt.verify_model("small")


def test_models_are_converted(engine: FakeEngine, tmp_path: Path) -> None:
    assert drt.convert_model("small", tmp_path / "plain") == tmp_path / "plain"
    assert engine.calls[-1] == ("convert", "small", tmp_path / "plain", "bf16")
    drt.convert_model(tmp_path, str(tmp_path / "new"), dtype="fp32")
    assert engine.calls[-1] == ("convert", tmp_path, tmp_path / "new", "fp32")
    engine.raises["convert"] = errors.WeightsError("there is no encoder.")
    with pytest.raises(drt.ModelError, match="no encoder"):
        drt.convert_model("small", tmp_path / "plain")


def test_training_gets_paths_and_overrides(engine: FakeEngine, tmp_path: Path) -> None:
    assert drt.train("config.toml", ["optim.steps=3"]) == Path("runs/fake")
    assert engine.calls[-1] == ("train", Path("config.toml"), ("optim.steps=3",))
    drt.train_tokenizer(["a.jsonl"], tmp_path, vocab_size=600)
    assert engine.calls[-1] == ("train_tokenizer", (Path("a.jsonl"),), tmp_path, 600)


def test_evaluations_leave_out_what_was_not_asked(engine: FakeEngine) -> None:
    result = drt.evaluate("qa", model="fake", device="cpu", qa="q", docs="d", limit=None)
    assert engine.loads == [{"model": "fake", "device": "cpu", "threads": None, "dtype": "auto"}]
    assert engine.calls[-1] == ("evaluate", "qa", {"qa": "q", "docs": "d"})
    table = drt.report_table(result)
    assert "hybrid hit@8" in table and "0.750" in table and "bm25" in table


def test_benchmarks_choose_their_own_model(engine: FakeEngine) -> None:
    result = drt.bench("ask", threads=1, dtype="bf16", repetitions=5)
    shared = {"model": "drt-small-en", "device": "auto", "threads": 1, "dtype": "bf16"}
    assert engine.calls[-1] == ("bench", "ask", {**shared, "repetitions": 5})
    assert engine.loads == []
    assert "matmul" in drt.report_table(result)
