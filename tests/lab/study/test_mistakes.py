"""What a study refuses, or says in one sentence, instead of a number that is not what it seems."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from drt_engine.errors import ConfigError, WeightsError
from drt_engine.files import lock
from drt_lab.study import compute
from drt_lab.study.compute import step_flops
from drt_lab.study.run import study
from drt_lab.study.spec import load_study
from drt_lab.train.loop import Loop
from tests.fakes import byte_tokenizer
from tests.lab.study.tiny_study import write_study
from tests.lab.train.corpora import ARTICLE, write_corpus
from tests.sampling import sampled

ONE = ("seeds=[1]",)
FIELDS = ("id", "source", "license", "title", "text")


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting for the disk, and without plots."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("drt_lab.train.loop.plot", lambda run: None)
    monkeypatch.setattr("drt_lab.study.run.draw_plots", lambda table, folder: [])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study whose first model was trained and measured."""
    folder = tmp_path_factory.mktemp("finished")
    with mock.patch("os.fsync"), mock.patch("drt_lab.train.loop.plot"):
        study(write_study(folder), ONE, only=["DRT"])
    return folder


@pytest.fixture
def measured(finished: Path, tmp_path: Path) -> Path:
    """A copy of its results, in the folder of a test."""
    return Path(shutil.copytree(finished / "results", tmp_path / "results"))


class Killed(BaseException):
    """Stands for the end of the process, which saves nothing."""


def kill_at(step: int) -> Any:
    """Have training end at a step."""
    one_step = Loop._one_step

    def killing(run: Loop) -> Any:
        if run.step == step:
            run._in_update = True  # so that nothing is saved
            raise Killed
        return one_step(run)

    return mock.patch.object(Loop, "_one_step", killing)


@pytest.mark.thorough
def test_a_model_whose_time_was_over_is_not_measured(tmp_path: Path) -> None:
    file = write_study(tmp_path)
    with pytest.raises(ConfigError, match=r"'DRT', seed 1, was trained for \d of 4 steps when"):
        study(file, [*ONE, "train.run.limit_minutes=1e-9"], only=["DRT"])
    assert not (tmp_path / "results" / "drt-1" / "trained").exists()
    table = study(file, ONE, only=["DRT"])  # as the sentence says
    assert table["rows"][0]["seeds"] == [1]


@pytest.mark.thorough
@pytest.mark.parametrize("run", sampled(["DRT", "Base LM"], {0}, thorough={1}))
def test_a_run_that_was_begun_with_other_settings_is_refused(tmp_path: Path, run: str) -> None:
    file = write_study(tmp_path)
    with kill_at(2), pytest.raises(Killed):
        study(file, ONE, only=[run])
    with pytest.raises(ConfigError, match=rf"'{run}', seed 1, was begun with .*steps = 4, .* 40"):
        study(file, [*ONE, "train.optim.steps=40"], only=[run])
    study(file, ONE, only=[run])


def corpus_study(folder: Path) -> tuple[Path, Path, Path]:
    """A study of one model on a corpus, with its tokenizer: the files."""
    folder.mkdir(exist_ok=True)
    corpus = write_corpus(folder, ARTICLE[:60], "x", ARTICLE[60:])
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_text(byte_tokenizer().to_json(), encoding="utf-8")
    change = (
        "[train.passkey]\nshare = 1.0\nsymbols = 48\nchunks = [5]\nbatch = 2\n",
        f'[train.start]\ntokenizer = "{tokenizer}"\n[train.stream]\nshare = 1.0\n'
        f'corpus = ["{corpus}"]\nchunks = 4\nbatch = 1\n',
    )
    return write_study(folder, change=change), corpus, tokenizer


@pytest.mark.parametrize(
    ("changed", "shared"),
    [
        ("corpus", False),
        ("tokenizer", True),
        pytest.param("corpus", True, marks=pytest.mark.thorough),
        pytest.param("tokenizer", False, marks=pytest.mark.thorough),
    ],
)
def test_other_contents_of_a_file_are_another_study(
    tmp_path: Path, changed: str, shared: bool
) -> None:
    file, corpus, tokenizer = corpus_study(tmp_path / "one")
    results = tmp_path / "results.json" if shared else None
    study(file, ONE, only=["DRT"], results=results)
    entry = results and json.loads(results.read_text())["results"][0]["settings"]["files"]
    assert entry is None or set(entry) == {str(corpus), str(tokenizer)}
    path = corpus if changed == "corpus" else tokenizer
    path.write_bytes(path.read_bytes() + b"\n")
    overrides = [*ONE, f"out={json.dumps(str(tmp_path / 'other'))}"] if shared else ONE
    with pytest.raises(ConfigError, match=rf"other contents of .*{path.name} than it has now"):
        study(file, overrides, only=["Base LM"], results=results)


@pytest.mark.thorough
def test_results_without_settings_are_not_handed_on(measured: Path, tmp_path: Path) -> None:
    file, results = write_study(tmp_path), tmp_path / "results.json"
    (measured / "drt-1" / "results" / "passkey.settings.json").unlink()
    assert study(file, ONE, only=["DRT"], results=results)["rows"][0]["seeds"] == [1]
    assert json.loads(results.read_text())["results"] == []


def test_a_run_that_another_process_works_on_is_left_to_it(measured: Path, tmp_path: Path) -> None:
    file, folder = write_study(tmp_path), measured / "base-lm-1"
    folder.mkdir()
    with (folder / ".lock").open("ab") as held:
        assert lock(held)
        with pytest.raises(ConfigError, match=r"another process trains or measures .*base-lm-1"):
            study(file, ONE, only=["Base LM"])
        assert study(file, ONE, only=["DRT"])["rows"][0]["seeds"] == [1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("tokens right", "token right"), "'token right', expected .*; did you mean 'tokens right"),
        (('metric = "tokens right"', 'metric = "exact"\ngroups = ["32"]'), "32, expected some of"),
    ],
)
def test_a_metric_that_no_result_has_is_named(
    measured: Path, tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    file = write_study(tmp_path, change=change)
    for _ in range(2):  # the second has only the results that the first left
        with pytest.raises(ConfigError, match=message):
            study(file, ONE, only=["DRT"])


@pytest.mark.parametrize(
    "name", ["results/passkey.json", "results/passkey.settings.json", "trained"]
)
@pytest.mark.parametrize("text", ['{"metr', "[1]\n", '{"metrics": {"64": 3}}'])
def test_a_damaged_file_is_named(measured: Path, tmp_path: Path, name: str, text: str) -> None:
    file = write_study(tmp_path)
    (measured / "drt-1" / name).write_text(text)
    with pytest.raises(ConfigError, match=f"{Path(name).name}.*remove|was (trained|measured) with"):
        study(file, ONE, only=["DRT"])


def test_a_diverged_model_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _, _ = corpus_study(tmp_path)
    held_out = tmp_path / "held-out.jsonl"
    held_out.write_text(json.dumps(dict.fromkeys(FIELDS, "x") | {"text": ARTICLE}) + "\n")
    text = file.read_text().replace('task = "passkey"', 'task = "ppl"')
    text = text.replace('metric = "tokens right"', 'metric = "perplexity"')
    text = text.replace('lengths = "64,128", cases = 4', f'corpus = "{held_out}", length = 64')
    file.write_text(text)
    monkeypatch.setattr(
        "drt_lab.evaluate.perplexity.stream_losses",
        lambda runtime, ids, **how: torch.full((len(ids) - 1,), float("nan")),
    )
    with pytest.raises(WeightsError, match="perplexity is nan, .* diverged"):
        study(file, ONE, only=["DRT"])


@pytest.mark.thorough
def test_a_frozen_encoder_is_not_counted_as_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _, _ = corpus_study(tmp_path)
    spec = load_study(file, ONE)
    config = spec.train_config(spec.runs[0], 1)
    begin: Callable[..., Any] = compute.start
    encoder = torch.nn.Linear(64, 64)
    kept: set[int] = set()

    def started(config: Any) -> Any:
        model, tokenizer = begin(config)
        object.__setattr__(model.config, "retriever", "fixed")
        model.chunk_vectors = vectors
        return model, tokenizer

    def vectors(chunks: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        if int(chunks.sum()) not in kept:
            kept.add(int(chunks.sum()))
            encoder(torch.ones(1000, 64))
        return torch.nn.functional.one_hot(chunks[..., 0] % 8, 8).float()

    monkeypatch.setattr(compute, "start", started)
    assert step_flops(config) == step_flops(config)  # the second time all vectors are kept
