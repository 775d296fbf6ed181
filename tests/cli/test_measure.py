"""`drt model`, `train`, `eval`, `bench` and `completion`: what reaches the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt import _engine, schema
from drt_cli.commands.evaluate import _length
from drt_engine.errors import ConfigError
from tests.cli.conftest import Drt
from tests.schemas import validate
from tests.sdk.fakes import FakeEngine
from tests.tables import each_row


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "data.jsonl"
    file.touch()
    return file


def test_eval_options_reach_the_engine(drt: Drt, engine: FakeEngine, data: Path) -> None:
    files = ["--qa", data, "--docs", data]
    drt("--threads", 1, "eval", "qa", *files, "--limit", 3, "--source", "SQuAD", "--no-reread")
    paths = (str(data),)
    asked = {"qa": paths, "docs": paths, "limit": 3, "source": "SQuAD", "reread": False}
    assert engine.calls[-1] == ("evaluate", "qa", asked)
    assert engine.loads[-1]["threads"] == 1
    drt("eval", "calibrate", *files, *files, "--docs", data, "--out", data.parent)
    given = engine.calls[-1][2]
    assert (given["qa"], given["docs"]) == (paths * 2, paths * 3)
    drt("eval", "retrieval", *files, "--retriever", "lexical")
    assert engine.calls[-1][2]["retriever"] == "lexical"
    drt("eval", "needle", "--corpus", data, "--lengths", "4k,16k,100", "--hops", 2, "--seed", 7)
    assert engine.calls[-1][2] == {
        "corpus": str(data),
        "lengths": [4096, 16384, 100],
        "hops": 2,
        "seed": 7,
    }
    drt("eval", "needle", "--corpus", data, "--records", "bf16")
    assert engine.calls[-1][2]["records"] == "bf16"
    drt("eval", "calibrate", *files, "--out", data.parent, "--plot", data.parent / "plot.svg")
    assert engine.calls[-1][2]["plot"] == str(data.parent / "plot.svg")
    drt("eval", "passkey", "--lengths", "1m", "--cases", 2, "--noise", 1, "--folder", data.parent)
    assert engine.calls[-1][1:] == (
        "passkey",
        {"lengths": [1 << 20], "cases": 2, "hops": 1, "noise": 1, "seed": 0}
        | {"folder": str(data.parent)},
    )
    drt("eval", "ppl", data, "--length", "2k")
    assert engine.calls[-1] == ("evaluate", "ppl", {"corpus": str(data), "length": 2048})
    drt("eval", "ppl", data, "--lengths", "2k,16k", "--memory", "disk")
    assert engine.calls[-1][2]["lengths"] == [2048, 16384]
    drt("eval", "summary", data, "--limit", 2)
    assert engine.calls[-1] == ("evaluate", "summary", {"data": str(data), "limit": 2})
    drt("eval", "summary-lm", data, "--chunks", 8, "--longest", 99, "--write")
    given = {"data": str(data), "chunks": 8, "longest": 99, "write": True}
    assert engine.calls[-1] == ("evaluate", "summary-lm", given)


def test_eval_prints_a_table_or_the_documented_json(drt: Drt, data: Path) -> None:
    files = ["--qa", data, "--docs", data]
    result = drt("eval", "qa", "--json", *files).json
    assert list(result) == ["task", "data", "n", "metrics", "baselines", "seconds", "model"]
    table = drt("eval", "qa", *files).out
    assert "hybrid hit@8" in table and "bm25" in table


@each_row(
    "arguments",
    [
        ["qa", "--qa", "missing", "--docs", "missing"],
        ["needle", "--corpus", __file__, "--lengths", "4x"],
        ["needle", "--corpus", __file__, "--hops", "3"],
        ["passkey", "--folder", __file__],
        ["nothing"],
    ],
)
def test_wrong_eval_usage_is_2(drt: Drt, arguments: list[str]) -> None:
    result = drt("eval", *arguments)
    assert (result.code, result.out) == (2, "")


def test_lengths_have_units() -> None:
    assert [_length(one) for one in ("1m", "64k", "500")] == [1 << 20, 1 << 16, 500]


def test_bench_prints_a_table_or_the_documented_json(drt: Drt, engine: FakeEngine) -> None:
    result = drt("bench", "ask", "--json", "--repetitions", 5).json
    assert list(result) == ["bench", "rows", "calibration", "seconds", "model"]
    assert engine.calls[-1][2]["repetitions"] == 5
    assert "matmul" in drt("bench", "ingest").out
    assert drt("bench", "nothing").code == 2
    drt("bench", "library", "--tokens", "64M", "--shards", 16, "--folder", "kept")
    sizes = {name: engine.calls[-1][-1][name] for name in ("tokens", "shards", "folder")}
    assert sizes == {"tokens": 64_000_000, "shards": 16, "folder": "kept"}
    for tokens in ("63", "64 M", "1.5M", "k"):
        assert "number of tokens" in drt("bench", "library", "--tokens", tokens).err
    drt("bench", "train", "--shape", "128m", "--compile", "--tokens", 4096)
    given = engine.calls[-1][2]
    assert (given["shape"], given["compile"], given["tokens"]) == ("128m", True, 4096)
    drt("bench", "kernels")
    assert not {"shape", "compile"} & set(engine.calls[-1][2])
    assert drt("bench", "kernels", "--shape", "huge").code == 2


def test_train_takes_a_config_or_a_tokenizers_corpus(
    drt: Drt, engine: FakeEngine, data: Path, tmp_path: Path
) -> None:
    result = drt("train", data, "optim.steps=3", "name=x")
    assert result.out.strip() == str(Path("runs/fake"))
    assert engine.calls[-1] == ("train", data, ("optim.steps=3", "name=x"))
    assert result.err == "step=1\n"
    quiet = drt("--quiet", "train", data)
    assert (quiet.code, quiet.out, quiet.err) == (0, result.out, "")
    drt("train", "tokenizer", data, "--out", tmp_path, "--vocab-size", 600)
    assert engine.calls[-1] == ("train_tokenizer", (data,), tmp_path, 600)
    assert drt("train", data, "fast").code == 2
    assert drt("train", tmp_path / "missing.toml").code == 2


def test_models_are_listed_described_and_verified(
    drt: Drt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "weights" / "drt-small-en"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "MODEL_CARD.md").write_text("# A small model\n")
    monkeypatch.setattr(_engine, "weights_folder", lambda: folder.parent)
    assert drt("model", "list").out.startswith("drt-small-en")
    assert drt("model", "list", "--json").json["models"][0]["name"] == "drt-small-en"
    assert "# A small model" in drt("model", "info").out
    assert drt("model", "info", "--json", folder).json["bytes"] == 18
    assert "20 parameters" in drt("model", "verify").out
    assert drt("model", "info", "nothing").code == 1


def test_models_are_converted(drt: Drt, engine: FakeEngine, tmp_path: Path) -> None:
    result = drt("model", "convert", "drt-small-en", tmp_path / "plain", "--dtype", "fp32")
    assert result.out.strip() == str(tmp_path / "plain")
    assert engine.calls[-1] == ("convert", "drt-small-en", tmp_path / "plain", "fp32")
    assert drt("model", "convert", "drt-small-en").code == 2


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_scripts(drt: Drt, shell: str) -> None:
    assert "_DRT_COMPLETE" in drt("completion", shell).out
    assert drt("completion", "tcsh").code == 2


def test_a_study_prints_its_table_or_the_documented_json(
    drt: Drt, engine: FakeEngine, data: Path
) -> None:
    assert "| DRT |" in drt("study", data, "train.optim.steps=3", "--only", "DRT").out
    assert engine.calls[-1] == ("study", data, ("train.optim.steps=3",), ("DRT",), None)
    drt("study", data, "--results", data.parent / "rows.json")
    assert engine.calls[-1][-1] == data.parent / "rows.json"
    validate(drt("study", data, "--json").json, schema("study"))
    wrong = drt("study", data, "steps")
    assert (wrong.code, "'steps' changes no setting" in wrong.err) == (2, True)
    engine.raises["study"] = ConfigError("unknown key titel; did you mean 'title'?")
    assert "did you mean 'title'" in drt("study", data).err
